//! A connection's fids: the numbers by which it names files.

use std::collections::HashMap;

use terrace_tree::Open;

use super::directory::Directory;
use super::held::Held;
use super::refusal::{Answer, FID_IN_USE, UNKNOWN_FID, errno};

/// The largest number of fids of a connection.
const MAX_FIDS: usize = 1 << 14;
/// The largest number of fids that are checked for open files.
const MAX_CHECKED_FIDS: usize = 64;

/// A fid.
pub struct Fid {
    pub held: Held,
    pub state: State,
}

/// Whether it is open.
pub enum State {
    Closed,
    Directory(Directory),
    File {
        open: Open,
        reads: bool,
        writes: bool,
        /// Whether writes go to the end.
        appends: bool,
        /// Whether the file is removed on close.
        removed: bool,
    },
}

impl Fid {
    pub fn new(held: Held) -> Fid {
        Fid { held, state: State::Closed }
    }

    /// Returns the open file, if any.
    pub fn open(&self) -> Option<&Open> {
        match &self.state {
            State::File { open, .. } => Some(open),
            _ => None,
        }
    }

    pub fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed)
    }
}

/// A connection's fids.
#[derive(Default)]
pub struct Fids(HashMap<u32, Fid>);

impl Fids {
    pub fn get(&self, fid: u32) -> Answer<&Fid> {
        self.0.get(&fid).ok_or(UNKNOWN_FID)
    }

    pub fn get_mut(&mut self, fid: u32) -> Answer<&mut Fid> {
        self.0.get_mut(&fid).ok_or(UNKNOWN_FID)
    }

    /// Checks that a fid is unused.
    pub fn check_free(&self, fid: u32) -> Answer<()> {
        match () {
            () if self.0.contains_key(&fid) => Err(FID_IN_USE),
            () if self.0.len() >= MAX_FIDS => Err(errno(libc::EMFILE)),
            () => Ok(()),
        }
    }

    pub fn insert(&mut self, fid: u32, held: Held) {
        self.0.insert(fid, Fid::new(held));
    }

    pub fn take(&mut self, fid: u32) -> Answer<Fid> {
        self.0.remove(&fid).ok_or(UNKNOWN_FID)
    }

    /// Whether a file or directory is open. Assumes so if there are very many fids, because the check runs after each request.
    pub fn may_be_open(&self) -> bool {
        self.0.len() > MAX_CHECKED_FIDS || self.0.values().any(Fid::is_open)
    }

    pub fn take_all(&mut self) -> Vec<Fid> {
        self.0.drain().map(|(_, fid)| fid).collect()
    }
}
