//! Locks of files: `flock`'s, which end where they were taken.

use std::fs::File;
use std::io;
use std::ops::Deref;

use rustix::fs::FlockOperation;
use rustix::io::{Errno, retry_on_intr};

use crate::fork;

/// A locked file. A fork shares the lock: it ends when the process that took it drops this, and not only when the fork
/// has closed the file, too.
#[derive(Debug)]
pub struct Locked {
    file: File,
    forks: u32,
}

impl Locked {
    /// Locks a file for this holder alone, once no other has it.
    pub fn wait(file: File) -> io::Result<Locked> {
        Locked::take(file, FlockOperation::LockExclusive)
    }

    /// Locks a file for this holder and others of its kind.
    pub fn share(file: File) -> io::Result<Locked> {
        Locked::take(file, FlockOperation::LockShared)
    }

    /// Locks a file for this holder alone; none where another has it.
    pub fn at_once(file: File) -> io::Result<Option<Locked>> {
        match Locked::take(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(locked) => Ok(Some(locked)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn take(file: File, how: FlockOperation) -> io::Result<Locked> {
        let locked = Locked { file, forks: fork::count() };
        locked.change(how)?;
        Ok(locked)
    }

    /// Takes the lock in another way; where that fails it may not be held any more.
    pub(crate) fn change(&self, how: FlockOperation) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::flock(&self.file, how)).map_err(|e: Errno| e.into())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.forks == fork::count() {
            // Where this fails, closing the file does it.
            let _ = self.change(FlockOperation::Unlock);
        }
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}
