//! Keeps the raw bytes of owed replicas until these are made, so that they need not be read back from a target.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_catalog::{TargetId, Task};

/// At most this many bytes are kept. Further frames are read back.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// Bytes are dropped after this time if nothing needs them.
const KEPT_TIME: Duration = Duration::from_secs(10);

/// Frames with owed replicas. The oldest stay, because they are made first. The lock is a leaf, held for a lookup or an update,
/// never while bytes are copied: so `keep` takes it twice, and reserves the space first.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Frames>);

#[derive(Default)]
struct Frames {
    bytes: usize,
    /// By tasks without a target.
    raw: HashMap<Task, Frame>,
}

struct Frame {
    since: Instant,
    /// How many replicas are still to be made of it.
    owed: usize,
    raw: Arc<Vec<u8>>,
}

impl Frames {
    fn forget(&mut self, task: &Task) {
        if let Some(kept) = self.raw.remove(&frame(task)) {
            self.bytes -= kept.raw.len();
        }
    }
}

fn frame(task: &Task) -> Task {
    Task { target: TargetId::MAX, ..*task }
}

impl Kept {
    /// Keeps a frame that will have `owed` pending replicas, if there is space.
    pub fn keep(&self, task: &Task, owed: usize, raw: &[u8]) {
        {
            let mut frames = self.0.lock();
            if frames.bytes + raw.len() > MAX_KEPT_BYTES {
                return;
            }
            frames.bytes += raw.len();
        }
        let kept = Frame { since: Instant::now(), owed, raw: Arc::new(raw.to_vec()) };
        // Nobody else knows the frame before its commit, so nothing has come between the two.
        self.0.lock().raw.insert(frame(task), kept);
    }

    /// The bytes of a frame, if they are kept. Only the pointer is cloned under the lock.
    pub fn get(&self, task: &Task) -> Option<Arc<Vec<u8>>> {
        self.0.lock().raw.get(&frame(task)).map(|kept| kept.raw.clone())
    }

    /// Notes that one replica was made. After the last one, the bytes are dropped.
    pub fn made(&self, task: &Task) {
        let mut frames = self.0.lock();
        if let Some(kept) = frames.raw.get_mut(&frame(task)) {
            kept.owed = kept.owed.saturating_sub(1);
            if kept.owed == 0 {
                frames.forget(task);
            }
        }
    }

    /// Drops the bytes of a frame. A thread that still has a pointer to them keeps them.
    pub fn forget(&self, task: &Task) {
        self.0.lock().forget(task);
    }

    /// Returns the frames that were kept for long.
    pub fn old(&self) -> Vec<Task> {
        let frames = self.0.lock();
        frames.raw.iter().filter(|(_, kept)| kept.since.elapsed() > KEPT_TIME).map(|(task, _)| *task).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(write: u64, target: TargetId) -> Task {
        Task { object: 1, frame_offset: 0, write, target }
    }

    #[test]
    fn bytes_are_kept_until_the_last_replica_is_made_and_never_too_many() {
        let kept = Kept::default();
        kept.keep(&task(1, TargetId::MAX), 2, &[7; 100]);
        kept.made(&task(1, 0));
        assert_eq!(kept.get(&task(1, 3)).unwrap().as_slice(), &[7; 100]);
        kept.made(&task(1, 3));
        assert!(kept.get(&task(1, 3)).is_none());
        kept.keep(&task(2, 0), 1, &vec![1; MAX_KEPT_BYTES]);
        kept.keep(&task(3, 0), 1, &[1]);
        assert!(kept.get(&task(3, 0)).is_none());
        kept.forget(&task(2, 9));
        kept.keep(&task(3, 0), 1, &[1]);
        assert!(kept.get(&task(3, 0)).is_some());
    }
}
