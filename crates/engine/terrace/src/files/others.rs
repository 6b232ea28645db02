//! Tells processes of one machine which files others have open, and which of them have buffered bytes of a file.
//!
//! A process buffers bytes of a file only while no other process has it open. Otherwise older bytes would reach the store behind newer
//! ones, which another process wrote and made durable meanwhile. A process that opens a file waits until others have written what they had
//! buffered before.
//!
//! Both are locks on bytes of a file in the store's directory. They end with the process.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use terrace_system::lock::ByteLocks;

use crate::{Error, Result};

/// The file whose bytes are locked. It stays empty.
const OPEN_FILES_FILE: &str = "open-files";
/// The byte of an open file is the object's number, below this one; that of its buffered bytes is above.
const BUFFERED_BYTE: i64 = 1 << 62;
/// How long an opening waits for the buffered bytes of others. They look once in a second whether somebody does.
const MAX_BUFFERED_WAIT: Duration = Duration::from_secs(3);
const BUFFERED_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The open files of this process, as others see them.
pub struct Others(ByteLocks);

impl Others {
    /// Opens the file in a store's directory.
    pub fn open(dir: &Path) -> Result<Others> {
        let path = dir.join(OPEN_FILES_FILE);
        ByteLocks::open(&path).map(Others).map_err(Error::io(format!("opening {}", path.display())))
    }

    /// Tells others that this process has a file open.
    pub fn enter(&self, id: u64) {
        self.mark(byte_of(id), true);
    }

    /// Tells others that it has the file no longer open.
    pub fn leave(&self, id: u64) {
        self.mark(byte_of(id), false);
    }

    /// Tells others whether this process has buffered bytes of a file. Before bytes are buffered it is called, and then
    /// [`Others::have`]: an opener tells first, and then looks, so that one of the two sees the other.
    pub fn buffer(&self, id: u64, has_bytes: bool) {
        self.mark(byte_of(id) | BUFFERED_BYTE, has_bytes);
    }

    /// Returns whether another process has a file open. If the system cannot tell, it counts as open.
    pub fn have(&self, id: u64) -> bool {
        self.0.is_held(byte_of(id)).unwrap_or(true)
    }

    /// Waits until no other process has buffered bytes of a file, or for three seconds: one that is stopped does not stop this one.
    pub fn wait_for_buffered(&self, id: u64) {
        let begun = Instant::now();
        while self.0.is_held(byte_of(id) | BUFFERED_BYTE).unwrap_or(false) {
            if begun.elapsed() > MAX_BUFFERED_WAIT {
                tracing::warn!(
                    "another process has not written what it has buffered of a file that is opened here; it may come over what is written here"
                );
                return;
            }
            thread::sleep(BUFFERED_POLL_INTERVAL);
        }
    }

    fn mark(&self, byte: i64, is_so: bool) {
        let told = if is_so { self.0.try_share(byte).map(drop) } else { self.0.unlock(byte) };
        // Without locks, `have` says that others have every file open, so nothing is buffered.
        if let Err(error) = told {
            tracing::debug!(%error, "other processes are not told which files are open");
        }
    }
}

/// Objects of nodes have numbers of 63 bits. If two share a byte, less is buffered than could be.
fn byte_of(id: u64) -> i64 {
    (id as i64) & (BUFFERED_BYTE - 1)
}
