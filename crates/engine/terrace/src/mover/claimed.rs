//! Claims: no two threads of a process make the same replica.

use terrace_catalog::{TargetId, Task};

use super::Mover;

/// Tasks that a thread works on, until this is dropped.
pub(super) struct Claimed<'a> {
    mover: &'a Mover,
    tasks: Vec<Task>,
}

impl<'a> Claimed<'a> {
    /// Creates an empty set of claims.
    pub fn none(mover: &'a Mover) -> Self {
        Claimed { mover, tasks: Vec::new() }
    }

    /// Claims a task. Returns false if another thread of this process works on it.
    pub fn claim(&mut self, task: Task) -> bool {
        let free = self.mover.state.claimed.lock().insert(task);
        if free {
            self.tasks.push(task);
        }
        free
    }

    /// Claims a frame, for replicas that must be made one after the other. Returns false if another thread of this process
    /// has claimed it.
    pub fn claim_frame(&mut self, task: Task) -> bool {
        let frame = Task { target: TargetId::MAX, ..task };
        self.tasks.contains(&frame) || self.claim(frame)
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        // A leaf: no other lock is taken under it. See `State::claimed`.
        let mut claimed = self.mover.state.claimed.lock();
        self.tasks.iter().for_each(|task| {
            claimed.remove(task);
        });
    }
}
