//! Keeps the raw bytes of frames in memory until their pending replicas are made, so that they need not be read back from a
//! target.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_catalog::{TargetId, Task};

use crate::devices::OnceEncoded;

/// The limit for the bytes that are kept. Other frames are read back.
const MAX_KEPT_BYTES: usize = 32 << 20;
/// Bytes that are not needed are dropped after this time.
const KEPT_TIME: Duration = Duration::from_secs(10);

/// Frames with pending replicas. When there is no room, new frames are not kept, because the oldest ones are needed first.
/// The lock is a leaf, held for a lookup or an update, never while bytes are copied: so `keep` takes it twice, and reserves
/// the space first.
#[derive(Default)]
pub(crate) struct Kept(Mutex<Frames>);

#[derive(Default)]
struct Frames {
    bytes: usize,
    /// The frames by task, without its target.
    raw: HashMap<Task, Frame>,
}

struct Frame {
    since: Instant,
    /// The number of its pending replicas.
    owed: usize,
    bytes: Arc<KeptBytes>,
}

/// The bytes of a frame.
pub(crate) struct KeptBytes {
    pub raw: Vec<u8>,
    /// The same as stored, if several replicas are made of them. It counts for no limit of its own: it is not longer than `raw`.
    pub encoded: Option<OnceEncoded>,
}

impl Frames {
    fn forget(&mut self, task: &Task) {
        if let Some(kept) = self.raw.remove(&frame(task)) {
            self.bytes -= kept.bytes.raw.len();
        }
    }
}

fn frame(task: &Task) -> Task {
    Task { target: TargetId::MAX, ..*task }
}

impl Kept {
    /// Keeps a frame that will have `owed` pending replicas, if there is space.
    pub fn keep(&self, task: &Task, owed: usize, raw: &[u8], encoded: Option<OnceEncoded>) {
        {
            let mut frames = self.0.lock();
            if frames.bytes + raw.len() > MAX_KEPT_BYTES {
                return;
            }
            frames.bytes += raw.len();
        }
        let bytes = Arc::new(KeptBytes { raw: raw.to_vec(), encoded });
        let kept = Frame { since: Instant::now(), owed, bytes };
        // No other thread knows the frame before its commit, so nothing has changed since the space was reserved.
        self.0.lock().raw.insert(frame(task), kept);
    }

    /// Returns the bytes of a frame, if they are kept. Only the pointer is cloned under the lock.
    pub fn get(&self, task: &Task) -> Option<Arc<KeptBytes>> {
        self.0.lock().raw.get(&frame(task)).map(|kept| kept.bytes.clone())
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

    /// Drops the bytes of a frame. They stay in memory while a thread has a pointer to them.
    pub fn forget(&self, task: &Task) {
        self.0.lock().forget(task);
    }

    /// Returns the frames that were kept for long enough to be dropped.
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
        kept.keep(&task(1, TargetId::MAX), 2, &[7; 100], None);
        kept.made(&task(1, 0));
        assert_eq!(kept.get(&task(1, 3)).unwrap().raw, &[7; 100]);
        kept.made(&task(1, 3));
        assert!(kept.get(&task(1, 3)).is_none());
        kept.keep(&task(2, 0), 1, &vec![1; MAX_KEPT_BYTES], None);
        kept.keep(&task(3, 0), 1, &[1], None);
        assert!(kept.get(&task(3, 0)).is_none());
        kept.forget(&task(2, 9));
        kept.keep(&task(3, 0), 1, &[1], None);
        assert!(kept.get(&task(3, 0)).is_some());
    }
}
