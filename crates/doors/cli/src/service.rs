//! Services that keep blobs, as the command line names them: `SERVICE://BUCKET/PATH`.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use anyhow::{Context, Result};
use terrace::tier::TargetSettings;

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
    pub fn settings(self, options: &[String]) -> Result<TargetSettings> {
        let ServiceAddress { name, bucket, root } = self;
        let options = options_of(bucket, options)?;
        Ok(TargetSettings { service: Some(name), options, ..TargetSettings::at(root) })
    }

    /// Returns the service, with options of the form `name=value`.
    #[cfg(feature = "object")]
    pub fn service(self, options: &[String]) -> Result<terrace::tier::Service> {
        use anyhow::bail;
        use terrace::tier::{Service, unavailable};

        const MAX_CALL_TIME: std::time::Duration = std::time::Duration::from_secs(60);

        let ServiceAddress { name, bucket, root } = self;
        if let Some(reason) = unavailable(&name) {
            bail!(reason);
        }
        let options = options_of(bucket, options)?;
        Ok(Service { name, options, root, timeout: MAX_CALL_TIME })
    }

    /// Says which feature of cargo compiles the service in.
    #[cfg(not(feature = "object"))]
    pub fn service(self, _: &[String]) -> Result<std::convert::Infallible> {
        let ServiceAddress { name, bucket, root } = self;
        anyhow::bail!(
            "{name}://{bucket}{root}: service {name:?} is not compiled in; the cargo feature services-{name} does that, if there is such a service"
        )
    }
}

/// Parses options of the form `name=value`, and adds the bucket.
fn options_of(bucket: String, options: &[String]) -> Result<BTreeMap<String, String>> {
    let parse = |option: &String| {
        let (name, value) =
            option.split_once('=').with_context(|| format!("{option}: write an option as name=value"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    let mut options = options.iter().map(parse).collect::<Result<BTreeMap<_, _>>>()?;
    if !bucket.is_empty() {
        options.insert("bucket".into(), bucket);
    }
    Ok(options)
}
