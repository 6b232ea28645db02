//! What moves through the pipeline: a request, with its place in its source.

use std::fmt;
use std::sync::Arc;

use terrace::Attributes;
use terrace_pipeline::Move;

use crate::request::{Name, Request};

/// A request's place in the order of its source: for the log its sequence, for Redis both halves of its id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64, pub u64);

impl Position {
    /// What `Display` wrote.
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

/// A file that a request is a part of.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// As it is to be at the end.
    pub attributes: Attributes,
    /// The device that it is on.
    pub device: u64,
    /// Its number there.
    pub inode: u64,
}

/// A request that was pulled.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// Its source's number in the stream.
    pub source: usize,
    /// Its place there.
    pub position: Position,
    /// The file that it is a part of. All parts of a file come in order, and again from the first byte
    /// where one was not written. Where it is a request by itself, none: then it is noted with its destination that it is done.
    pub file: Option<Arc<SourceFile>>,
    /// The file that it was added to, where files are followed; none where the source itself is what is followed.
    pub lane: Option<Lane>,
}

/// A file that is followed: how far it is delivered is noted under a name of its own.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Its name in the marks of destinations.
    pub name: Arc<str>,
    /// How far it is delivered once the request is done.
    pub until: Position,
    /// The device that the file is on.
    pub device: u64,
    /// Its number there.
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
        // A file is begun with again from its first byte.
        self.file.is_none() || self.request.ends
    }
}
