//! Objects of a bucket: one for each segment, which is never changed once it is done.

use terrace::tier::{Blobs, Service};

use super::{Destination, Outcome};
use crate::entry::Position;
use crate::runs::Run;
use crate::{Error, Failure, Result};

/// A bucket, or whatever else a service keeps blobs in. What is appended to a name becomes objects below it, each named by the
/// position of its first request; in the order of their names they are all that was appended.
pub struct Bucket {
    blobs: Blobs,
    service: String,
}

impl Bucket {
    /// Objects below the service's root.
    pub fn new(service: &Service) -> Result<Bucket> {
        let blobs = Blobs::new(service).map_err(Error::io(format!("opening {service}")))?;
        Ok(Bucket { blobs, service: service.to_string() })
    }

    fn outcome<T>(&self, name: &[u8], doing: &str, done: std::io::Result<T>) -> Outcome<T> {
        let reason = |e| format!("{doing} {:?} in {}: {e}", String::from_utf8_lossy(name), self.service);
        done.map_err(|e| Failure::Later(reason(e)))
    }
}

/// The folder of a name. Services take names that are text.
fn folder(name: &[u8]) -> Outcome<String> {
    match std::str::from_utf8(name) {
        Ok(name) => Ok(format!("{name}/")),
        Err(_) => Err(Failure::Never("objects need names in UTF-8".into())),
    }
}

/// Names of one length are in the order of positions.
fn object(folder: &str, first: Position) -> String {
    format!("{folder}{:020}-{:010}", first.0, first.1)
}

impl Destination for Bucket {
    fn length(&self, _: &[u8]) -> Outcome<Option<u64>> {
        Ok(None)
    }

    fn appends_only(&self) -> bool {
        true
    }

    fn resume(&self, name: &[u8], done: Position) -> Outcome<()> {
        let folder = folder(name)?;
        let last = object(&folder, done);
        let mut names = self.outcome(name, "listing", self.blobs.list(&folder))?;
        names.retain(|name| *name > last);
        if names.is_empty() { Ok(()) } else { self.outcome(name, "clearing", self.blobs.delete(names)) }
    }

    fn write(&self, name: &[u8], first: Position, runs: &[Run]) -> Outcome<()> {
        let parts = runs.iter().map(|run| run.bytes.clone().into()).collect();
        self.outcome(name, "writing", self.blobs.write(&object(&folder(name)?, first), parts))
    }

    fn set_length(&self, _: &[u8], _: u64) -> Outcome<()> {
        Err(Failure::Never("objects of a bucket are never cut".into()))
    }

    fn sync(&self, _: &[u8]) -> Outcome<()> {
        // The service has said that it has it.
        Ok(())
    }
}
