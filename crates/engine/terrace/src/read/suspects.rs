//! Replicas that reads found bad, until they are repaired.

use rustix_futex_sync::Mutex;
use terrace_catalog::{Replica, Task};

/// A replica that a read found bad.
#[derive(Clone)]
pub(crate) struct Suspect {
    pub key: Vec<u8>,
    pub task: Task,
    pub replica: Replica,
}

/// The bad replicas that this process has met.
#[derive(Default)]
pub(crate) struct Suspects(Mutex<Vec<Suspect>>);

impl Suspects {
    /// Notes a replica to be repaired.
    pub fn report(&self, suspect: Suspect) {
        let mut suspects = self.0.lock();
        if !suspects.iter().any(|known| known.replica == suspect.replica) {
            suspects.push(suspect);
        }
    }

    /// Those that were reported since the last call.
    pub fn take(&self) -> Vec<Suspect> {
        std::mem::take(&mut *self.0.lock())
    }
}
