//! Services that keep blobs, as users name them: `SERVICE://BUCKET/PATH`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io;

use crate::TargetSettings;

/// A service, a bucket, and a path in it.
pub struct ServiceAddress {
    name: String,
    bucket: String,
    root: String,
}

impl ServiceAddress {
    /// Parses an address. None if the text is that of a path.
    pub fn parse(text: &OsStr) -> Option<ServiceAddress> {
        let (name, place) = text.to_str()?.split_once("://")?;
        let (bucket, path) = place.split_once('/').unwrap_or((place, ""));
        Some(ServiceAddress { name: name.into(), bucket: bucket.into(), root: format!("/{path}") })
    }

    /// Returns the settings of a target there, with options of the form `name=value`.
    pub fn settings(self, options: &[String]) -> io::Result<TargetSettings> {
        let ServiceAddress { name, bucket, root } = self;
        let options = parse_options(bucket, options)?;
        Ok(TargetSettings { service: Some(name), options, ..TargetSettings::at(root) })
    }

    /// Returns the service, with options of the form `name=value`.
    #[cfg(feature = "object")]
    pub fn service(self, options: &[String]) -> io::Result<crate::Service> {
        const MAX_CALL_TIME: std::time::Duration = std::time::Duration::from_secs(60);

        let ServiceAddress { name, bucket, root } = self;
        if let Some(reason) = crate::unavailable(&name) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, reason));
        }
        let options = parse_options(bucket, options)?;
        Ok(crate::Service { name, options, root, timeout: MAX_CALL_TIME })
    }

    /// Returns the error of a program that cannot use services: it says which feature of cargo compiles this one in.
    pub fn not_compiled_in(&self) -> io::Error {
        let ServiceAddress { name, bucket, root } = self;
        let reason = format!(
            "{name}://{bucket}{root}: service {name:?} is not compiled in; the cargo feature services-{name} does that, if there is such a service"
        );
        io::Error::new(io::ErrorKind::Unsupported, reason)
    }
}

/// Parses options of the form `name=value`, and adds the bucket.
fn parse_options(bucket: String, options: &[String]) -> io::Result<BTreeMap<String, String>> {
    let parse = |option: &String| match option.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{option}: write an option as name=value"))),
    };
    let mut options = options.iter().map(parse).collect::<io::Result<BTreeMap<_, _>>>()?;
    if !bucket.is_empty() {
        options.insert("bucket".into(), bucket);
    }
    Ok(options)
}
