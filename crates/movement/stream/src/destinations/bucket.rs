//! Objects of a bucket: one for each segment, immutable once written, and one for each whole file.

use std::collections::HashMap;
use std::io;

use rustix_futex_sync::Mutex;
use terrace::tier::{Blobs, Service, Upload};

use super::part::part_name;
use super::{Destination, End, Outcome};
use crate::entry::Position;
use crate::request::Name;
use crate::runs::Run;
use crate::{Error, Failure, Result};

/// A bucket, or another service that keeps blobs. Bytes appended to a name become objects below it, each named by the position of its
/// first request; read in name order, the objects hold all appended bytes. A file of a directory becomes one object of its own name,
/// which appears once the whole file is written.
pub struct Bucket {
    blobs: Blobs,
    service: String,
    /// Files that are partly written, and how many bytes of each. The lock is held for one insertion or removal, never during a
    /// request. A worker takes a file's upload out while it writes, and one worker at a time writes to a destination.
    begun: Mutex<HashMap<Name, (Upload, u64)>>,
}

impl Bucket {
    /// Creates a destination at the service's root.
    pub fn new(service: &Service) -> Result<Bucket> {
        let blobs = Blobs::new(service).map_err(Error::io(format!("opening {service}")))?;
        Ok(Bucket { blobs, service: service.to_string(), begun: Mutex::default() })
    }

    fn outcome<T>(&self, name: &[u8], doing: &str, done: std::io::Result<T>) -> Outcome<T> {
        let reason = |e| format!("{doing} {:?} in {}: {e}", String::from_utf8_lossy(name), self.service);
        done.map_err(|e| Failure::Later(reason(e)))
    }
}

/// Checks that the service accepts the name.
fn text(name: &[u8]) -> Outcome<&str> {
    std::str::from_utf8(name).map_err(|_| Failure::Never("objects need names in UTF-8".into()))
}

fn folder(name: &[u8]) -> Outcome<String> {
    Ok(format!("{}/", text(name)?))
}

/// Pads positions to one length, so that the names' order is the order of positions.
fn object(folder: &str, first: Position) -> String {
    format!("{folder}{:020}-{:010}", first.0, first.1)
}

impl Destination for Bucket {
    fn describe(&self) -> String {
        self.service.clone()
    }

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

    fn write_part(&self, name: &[u8], runs: &[Run], end: Option<&End>) -> Outcome<()> {
        let text = text(name)?;
        let hidden = String::from_utf8_lossy(&part_name(name)).into_owned();
        // Taken out: if this write fails, the upload is dropped, and the parts are sent again from the first.
        let begun = self.begun.lock().remove(name);
        let begins = end.is_some_and(|end| end.length == 0) || runs.first().is_some_and(|run| run.offset == 0);
        let upload = || {
            let (mut upload, mut at) = match begun.filter(|_| !begins) {
                Some(begun) => begun,
                None => (self.blobs.begin(text, &hidden)?, 0),
            };
            for run in runs {
                if run.offset != at {
                    return Err(io::Error::other(format!("byte {at} should have come, not {}", run.offset)));
                }
                upload = upload.write(run.bytes.clone().into())?;
                at = run.end();
            }
            match end {
                Some(end) if end.length != at => Err(io::Error::other(format!("it ends at {at}, not {}", end.length))),
                Some(_) => upload.end(),
                None => {
                    self.begun.lock().insert(name.into(), (upload, at)); // see the field
                    Ok(())
                }
            }
        };
        self.outcome(name, "writing", upload())
    }

    fn set_length(&self, _: &[u8], _: u64) -> Outcome<()> {
        Err(Failure::Never("objects of a bucket are never cut".into()))
    }

    fn sync(&self, _: &[u8]) -> Outcome<()> {
        // The service acknowledged the write, so it is durable.
        Ok(())
    }
}
