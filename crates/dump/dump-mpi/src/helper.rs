//! The thread that makes checkpoints while the program continues.

// The ranks are lent to a thread; the comment says why that is safe.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use terrace_dump::background::Background;
use terrace_dump::{Error, Result};

use crate::MpiWorld;

/// The thread that makes checkpoints. Dropping it waits for those that have begun.
pub struct Helper {
    background: Arc<Background<'static>>,
    thread: Option<JoinHandle<()>>,
}

impl Helper {
    /// Starts the thread.
    pub fn start() -> Result<Helper> {
        let background = Arc::<Background<'static>>::default();
        let run = background.clone();
        let thread = thread::Builder::new().name("terrace-dump".into()).spawn(move || run.run());
        let thread = thread.map_err(|error| Error::Refused(format!("starting a thread for checkpoints: {error}")))?;
        Ok(Helper { background, thread: Some(thread) })
    }
}

impl Deref for Helper {
    type Target = Background<'static>;

    fn deref(&self) -> &Background<'static> {
        &self.background
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.background.close();
        if let Some(thread) = self.thread.take() {
            // Ignoring the error is safe: the thread catches the panics of checkpoints, and does nothing else.
            let _ = thread.join();
        }
        if let Err(error) = self.background.wait() {
            tracing::warn!("a checkpoint failed, and the program did not wait for it: {error}");
        }
    }
}

/// The ranks, which the program's thread and the helper use in turn.
pub struct SharedWorld(pub MpiWorld);

// SAFETY: there is a helper only if MPI lets all threads call it. A communicator is a handle that any of them may use. The two
// do not use it at once: functions that communicate wait until the helper makes no checkpoint, and the one that begins a
// checkpoint does not communicate.
unsafe impl Send for SharedWorld {}
// SAFETY: as above.
unsafe impl Sync for SharedWorld {}

impl Deref for SharedWorld {
    type Target = MpiWorld;

    fn deref(&self) -> &MpiWorld {
        &self.0
    }
}
