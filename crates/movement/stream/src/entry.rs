//! The unit that the pipeline moves: a request with its position in its source.

use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use terrace::Attributes;
use terrace_pipeline::Move;

use crate::request::{Name, Request};

/// A request's position in the order of its source: the sequence in the log, or both halves of a Redis id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64, pub u64);

impl Position {
    /// Parses the output of `Display`.
    pub fn parse(text: &str) -> Option<Position> {
        let (high, low) = text.split_once('-').unwrap_or((text, "0"));
        Some(Position(high.parse().ok()?, low.parse().ok()?))
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            0 => write!(f, "{}", self.0),
            low => write!(f, "{}-{low}", self.0),
        }
    }
}

/// The file that a request is a part of.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The attributes of the complete file.
    pub attributes: Attributes,
    /// The device that holds the file.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// The folder that holds it at the destination, once its last part is written there.
    pub delivered_to: OnceLock<FolderId>,
}

/// The identity of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FolderId {
    /// Its device.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// When it was made, in nanoseconds since 1970: a later folder may get the inode of one that is gone. 0 where the file system does not
    /// say.
    pub born: u64,
}

impl FolderId {
    /// Returns the identity of the folder with this metadata.
    pub fn of(metadata: &Metadata) -> FolderId {
        let born = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        FolderId { device: metadata.dev(), inode: metadata.ino(), born: born.map_or(0, |born| born.as_nanos() as u64) }
    }
}

/// A request that was pulled from a source.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// The number of its source in the stream.
    pub source: usize,
    /// Its position in that source.
    pub position: Position,
    /// The file that the request is a part of, or `None` for an independent request. The parts of a file arrive in order, and restart
    /// from the first byte after a failed write. Only an independent request is recorded as done in its destination's mark.
    pub file: Option<Arc<SourceFile>>,
    /// The followed file that the request was read from; `None` if the position in the source itself is recorded.
    pub lane: Option<Lane>,
}

/// A file that is followed. Its progress is recorded under a name of its own.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its name in the destinations' marks.
    pub name: Arc<str>,
    /// The progress to record once the request is done.
    pub until: Position,
    /// The device that holds the file.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
}

impl Move for Entry {
    type Destination = Name;
    type Order = (usize, Position);

    fn destination(&self) -> &Name {
        &self.request.destination
    }

    fn order(&self) -> (usize, Position) {
        (self.source, self.position)
    }

    fn weight(&self) -> usize {
        // A request takes memory besides its bytes.
        self.request.bytes.len() + 128
    }

    fn is_progress(&self) -> bool {
        // A failed file restarts from its first byte, so only its last part is progress.
        self.file.is_none() || self.request.ends
    }
}
