//! Where streams go: files, objects of a bucket, keys of a store, and whatever else implements [`Destination`].

#[cfg(feature = "object")]
mod bucket;
mod files;
mod keys;

#[cfg(feature = "object")]
pub use bucket::Bucket;
pub use files::Files;
pub use keys::Keys;

use std::path::Path;

use terrace::Attributes;

use crate::entry::Position;
use crate::runs::Run;
use crate::{Error, Failure};

/// What becomes of a call to a destination.
pub type Outcome<T> = Result<T, Failure<Error>>;

/// How a file is once all of it is written.
#[derive(Clone, Debug)]
pub struct End {
    /// Its length.
    pub length: u64,
    /// Its time and mode.
    pub attributes: Attributes,
}

/// Somewhere that bytes go, under names. Names are paths without `..`. One thread at a time calls it for one name.
pub trait Destination: Send + Sync {
    /// Bytes that the name holds now: what a stream that appends goes on behind. None where that does not matter.
    fn length(&self, name: &[u8]) -> Outcome<Option<u64>>;

    /// The directory that the bytes go to, where it is one.
    fn root(&self) -> Option<&Path> {
        None
    }

    /// Whether the name leads to the file of this device and number.
    fn is_file(&self, _name: &[u8], _device: u64, _inode: u64) -> bool {
        false
    }

    /// Whether it takes appends and whole files alone, and no other bytes for an offset.
    fn appends_only(&self) -> bool {
        false
    }

    /// Called before the first write of a run: whatever is there of requests behind `done` was written by a run that
    /// did not get to note it, and comes again.
    fn resume(&self, _name: &[u8], _done: Position) -> Outcome<()> {
        Ok(())
    }

    /// Writes runs, which are in order of offsets and do not overlap. `first` is the first of their requests. The same runs may
    /// come again, also in other parts.
    fn write(&self, name: &[u8], first: Position, runs: &[Run]) -> Outcome<()>;

    /// Writes the next part of a file, which comes in order from its first byte on, and again from there where one part fails; with the
    /// last one, how it ends.
    fn write_part(&self, name: &[u8], runs: &[Run], end: Option<&End>) -> Outcome<()> {
        if !runs.is_empty() {
            self.write(name, Position::default(), runs)?;
        }
        let Some(end) = end else { return Ok(()) };
        self.set_length(name, end.length)?;
        self.set_attributes(name, &end.attributes)
    }

    /// Gives the name a file's time and mode, where it can have them.
    fn set_attributes(&self, _name: &[u8], _attributes: &Attributes) -> Outcome<()> {
        Ok(())
    }

    /// Cuts the name to `length` bytes, or extends it with zeros.
    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()>;

    /// Returns when a loss of power takes nothing of what was written to the name any more.
    fn sync(&self, name: &[u8]) -> Outcome<()>;
}
