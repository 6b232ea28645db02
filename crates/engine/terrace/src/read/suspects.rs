//! Replicas that reads found bad and that are not yet repaired.

use rustix_futex_sync::Mutex;
use terrace_catalog::{Replica, Task};

/// A replica that a read found bad.
#[derive(Clone)]
pub(crate) struct Suspect {
    pub key: Vec<u8>,
    pub task: Task,
    pub replica: Replica,
}

/// The bad replicas that this process has found.
#[derive(Default)]
pub(crate) struct Suspects(Mutex<Vec<Suspect>>);

impl Suspects {
    /// Adds a replica to be repaired.
    pub fn report(&self, suspect: Suspect) {
        let mut suspects = self.0.lock();
        if !suspects.iter().any(|known| known.replica == suspect.replica) {
            suspects.push(suspect);
        }
    }

    /// Removes and returns all of them.
    pub fn take(&self) -> Vec<Suspect> {
        std::mem::take(&mut *self.0.lock())
    }
}
