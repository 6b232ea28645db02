//! Destinations of streams: files, objects of a bucket, keys of a store, and any other implementation of [`Destination`].

#[cfg(feature = "object")]
mod bucket;
mod files;
mod keys;
mod part;

#[cfg(feature = "object")]
pub use bucket::Bucket;
pub use files::Files;
pub use keys::Keys;

use std::path::Path;

use terrace::Attributes;

use crate::entry::{FolderId, Position};
use crate::places::PlacesCheck;
use crate::runs::Run;
use crate::{Error, Failure};

/// The result of a call to a destination.
pub type Outcome<T> = Result<T, Failure<Error>>;

/// The final state of a file that is completely written.
#[derive(Clone, Debug)]
pub struct End {
    /// Its length.
    pub length: u64,
    /// Its modification time and mode.
    pub attributes: Attributes,
}

/// A place that accepts bytes under names. Names are paths without `..`. At most one thread at a time calls it for one name.
pub trait Destination: Send + Sync {
    /// The number of bytes that the name holds, which is the offset of the first append. `None` for a destination that does not need it.
    fn length(&self, name: &[u8]) -> Outcome<Option<u64>>;

    /// The directory that receives the bytes, for a destination that is a directory.
    fn root(&self) -> Option<&Path> {
        None
    }

    /// The place in a few words, such as its path or address. The reasons of parked destinations contain it.
    fn describe(&self) -> String {
        self.root().map_or_else(|| "the destination".into(), |root| root.display().to_string())
    }

    /// Identifies the folder that holds the name, at the place where the destination's path leads now. `None` if there is no such folder, and
    /// for a destination without folders.
    fn folder(&self, _name: &[u8]) -> Outcome<Option<FolderId>> {
        Ok(None)
    }

    /// Whether the delivery of the name began in another directory than the one that the destination's path leads to now. Answers yes once.
    fn take_moved(&self, _name: &[u8]) -> bool {
        false
    }

    /// Sets or removes a check that must pass before the destination follows its path to another directory.
    fn set_check(&self, _check: Option<PlacesCheck>) {}

    /// Whether the name refers to the file with this device and inode.
    fn is_file(&self, _name: &[u8], _device: u64, _inode: u64) -> bool {
        false
    }

    /// Whether the destination accepts only appends and whole files, and no writes at offsets.
    fn appends_only(&self) -> bool {
        false
    }

    /// Prepares a name before this process writes to it for the first time. It may hold bytes of requests after
    /// `done`, if their process ended before it recorded them; these requests are delivered again.
    fn resume(&self, _name: &[u8], _done: Position) -> Outcome<()> {
        Ok(())
    }

    /// Writes runs, which are ordered by offset and do not overlap. `first` is the position of their first request. The same bytes may be
    /// written again, possibly divided into other runs.
    fn write(&self, name: &[u8], first: Position, runs: &[Run]) -> Outcome<()>;

    /// Writes the next part of a file. Parts arrive in order from the first byte on; after a failure they restart from the first byte.
    /// The last part carries the file's final state in `end`. Until it is written, nobody must take the parts for the whole file: if
    /// the process ends first, and the source file is then renamed or removed, no last part ever comes. Attributes are set where the
    /// destination supports them.
    fn write_part(&self, name: &[u8], runs: &[Run], end: Option<&End>) -> Outcome<()> {
        if !runs.is_empty() {
            self.write(name, Position::default(), runs)?;
        }
        let Some(end) = end else { return Ok(()) };
        self.set_length(name, end.length)
    }

    /// Truncates the name to `length` bytes, or extends it with zeros.
    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()>;

    /// Returns once all bytes written to the name survive a power cut.
    fn sync(&self, name: &[u8]) -> Outcome<()>;
}
