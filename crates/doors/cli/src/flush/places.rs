//! Parses sources and destinations of the command line.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use terrace::Store;
use terrace::tier::ServiceAddress;
use terrace_stream::destinations::{Destination, Files, Keys};
use terrace_stream::sources::{Redis, Watch};
use terrace_stream::{AnySource, Control, Running};

/// A source.
pub enum From {
    Stdin,
    Directory(PathBuf),
    /// A server's address, and the key of a stream there.
    Redis(String, String),
}

impl From {
    pub fn parse(text: &OsStr) -> Result<From> {
        let bytes = text.as_bytes();
        if bytes == b"-" {
            return Ok(From::Stdin);
        }
        if !["redis:", "rediss:", "redis+unix:", "unix:"].iter().any(|scheme| bytes.starts_with(scheme.as_bytes())) {
            return Ok(From::Directory(text.into()));
        }
        let text = text.to_str().context("the address of a Redis server is text")?;
        let (address, query) = text.split_once('?').unwrap_or((text, ""));
        let mut rest = Vec::new();
        let mut key = None;
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.strip_prefix("stream=") {
                Some(stream) => key = Some(stream.to_owned()),
                None => rest.push(part),
            }
        }
        let key = key.with_context(|| format!("{text}: say which stream, as in {address}?stream=KEY"))?;
        let address = if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
        Ok(From::Redis(address, key))
    }

    pub fn directory(&self) -> Option<&Path> {
        match self {
            From::Directory(root) => Some(root),
            _ => None,
        }
    }

    /// Adds the source to the stream.
    pub fn add(&self, running: Running, watch: &Watch, control: &Arc<Control>) -> Result<Running> {
        Ok(match self {
            From::Stdin => running.with_log(),
            From::Directory(root) => running.with_directory(root, watch)?,
            From::Redis(address, key) => {
                // Do not name the source by its address, which may contain a password and may change.
                let name = format!("redis {key}");
                running.with(&name, |number, ledger| {
                    Ok(Box::new(Redis::new(address, key, &name, number, ledger, watch.patience, control)?) as AnySource)
                })?
            }
        })
    }
}

/// A destination.
pub enum To {
    Files(PathBuf),
    Keys(Vec<u8>),
    Bucket(ServiceAddress),
}

impl To {
    pub fn parse(text: &OsStr) -> Result<To> {
        if let Some(prefix) = text.as_bytes().strip_prefix(b"key:") {
            return Ok(To::Keys(prefix.to_vec()));
        }
        ServiceAddress::parse(text).map_or_else(|| Self::files(text.into()), |address| Ok(To::Bucket(address)))
    }

    /// Returns a directory, which may not exist yet. Rejects paths that only look like a service.
    fn files(path: PathBuf) -> Result<To> {
        let text = path.to_string_lossy();
        let word = text.split_once(':').map(|(word, _)| word).filter(|word| !word.contains('/'));
        if let Some(word) = word.filter(|_| !path.exists()) {
            bail!(
                "{word}: is nothing that can be flushed to; name a directory (./{text} where it is to be one), key:PREFIX or SERVICE://BUCKET/PATH"
            );
        }
        Ok(To::Files(path))
    }

    pub fn directory(&self) -> Option<&Path> {
        match self {
            To::Files(root) => Some(root),
            _ => None,
        }
    }

    pub fn open(self, store: &Store, options: &[String]) -> Result<Arc<dyn Destination>> {
        if !options.is_empty() && !matches!(self, To::Bucket(..)) {
            bail!("--option is for services, as in s3://BUCKET/PATH");
        }
        Ok(match self {
            To::Files(root) => Arc::new(Files::new(&root)?),
            To::Keys(prefix) => Arc::new(Keys::new(store, &prefix)),
            To::Bucket(address) => open_bucket(address, options)?,
        })
    }
}

#[cfg(feature = "object")]
fn open_bucket(address: ServiceAddress, options: &[String]) -> Result<Arc<dyn Destination>> {
    Ok(Arc::new(terrace_stream::destinations::Bucket::new(&address.service(options)?)?))
}

#[cfg(not(feature = "object"))]
fn open_bucket(address: ServiceAddress, _: &[String]) -> Result<Arc<dyn Destination>> {
    Err(address.not_compiled_in().into())
}
