//! The addresses of origins, as users write them: a directory, or a URL.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// Where an origin is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginPlace {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A service that OpenDAL supports.
    Service {
        /// OpenDAL's name for it.
        name: String,
        /// The options that the address tells.
        options: BTreeMap<String, String>,
        /// The folder or prefix on it.
        root: String,
    },
}

/// The parser of addresses.
pub struct OriginAddress;

impl OriginAddress {
    /// Parses an address. `options` are those that are given beside it: a service whose `endpoint` is among them is addressed by a bucket.
    ///
    /// # Errors
    /// `InvalidInput`, with a reason, for an address that cannot be one.
    pub fn parse(text: &str, options: &BTreeMap<String, String>) -> io::Result<OriginPlace> {
        let refuse = |reason: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned()));
        let Some((scheme, rest)) = text.split_once("://") else {
            return match text {
                "" => refuse("the address is empty; write a directory or a URL, such as s3://bucket/path"),
                path => Ok(OriginPlace::Directory(path.into())),
            };
        };
        if rest.contains(['?', '#']) && scheme.starts_with("http") {
            return refuse("a URL with a query names no folder; leave the query out");
        }
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.contains('@') && (scheme != "sftp" || host.contains(':') && is_password_before_at(host)) {
            // The address is shown in listings and messages.
            return refuse("leave the user and the password out of the URL, and give them as options");
        }
        let service = |name: &str, pairs: &[(&str, String)]| {
            let pairs = pairs.iter().filter(|(_, value)| !value.is_empty());
            let options = pairs.map(|(option, value)| ((*option).to_owned(), value.clone())).collect();
            Ok(OriginPlace::Service { name: name.to_owned(), options, root: format!("/{path}") })
        };
        match scheme {
            "file" if !host.is_empty() && host != "localhost" => {
                refuse("a file URL names a file of this machine; write file:///path")
            }
            "file" => Ok(OriginPlace::Directory(format!("/{path}").into())),
            "http" | "https" if host.is_empty() => refuse("the URL names no host"),
            "webdav" | "webdavs" | "sftp" if host.is_empty() && !options.contains_key("endpoint") => {
                refuse("the URL names no host")
            }
            "http" | "https" => service("http", &[("endpoint", format!("{scheme}://{host}"))]),
            "webdav" | "webdavs" if !options.contains_key("endpoint") => {
                let scheme = if scheme == "webdav" { "http" } else { "https" };
                service("webdav", &[("endpoint", format!("{scheme}://{host}"))])
            }
            "webdav" | "webdavs" => service("webdav", &[]),
            "sftp" if !options.contains_key("endpoint") => {
                let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
                service("sftp", &[("endpoint", format!("ssh://{host}")), ("user", user.to_owned())])
            }
            _ => service(scheme, &[("bucket", host.to_owned())]),
        }
    }
}

fn is_password_before_at(host: &str) -> bool {
    host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> OriginPlace {
        OriginAddress::parse(text, &BTreeMap::new()).expect(text)
    }

    #[test]
    fn addresses_name_directories_and_services() {
        for (text, path) in [("/data/a b", "/data/a b"), ("data", "data"), ("file:///data/x", "/data/x")] {
            assert_eq!(parse(text), OriginPlace::Directory(path.into()));
        }
        let service = |text: &str| match parse(text) {
            OriginPlace::Service { name, options, root } => {
                let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
                format!("{name} {} {root}", options.join(","))
            }
            OriginPlace::Directory(path) => path.display().to_string(),
        };
        assert_eq!(service("s3://era5-pds/2019/01"), "s3 bucket=era5-pds /2019/01");
        assert_eq!(service("gcs://b"), "gcs bucket=b /");
        assert_eq!(service("https://host:8443/a/b"), "http endpoint=https://host:8443 /a/b");
        assert_eq!(service("webdavs://host/a"), "webdav endpoint=https://host /a");
        assert_eq!(service("sftp://me@host:2222/data"), "sftp endpoint=ssh://host:2222,user=me /data");
        let options = [("endpoint".to_owned(), "http://x".to_owned())].into();
        let place = OriginAddress::parse("webdav:///a", &options).expect("an address");
        assert_eq!(place, OriginPlace::Service { name: "webdav".into(), options: BTreeMap::new(), root: "/a".into() });
    }

    #[test]
    fn addresses_with_secrets_or_without_a_place_are_refused() {
        for text in [
            "",
            "https://u:p@host/a",
            "https://u@host/a",
            "sftp://u:p@host/a",
            "file://host/a",
            "https:///a",
            "https://h/a?b",
        ] {
            assert!(OriginAddress::parse(text, &BTreeMap::new()).is_err(), "{text}");
        }
    }
}
