//! The memory of the copies of checkpoints that ranks do not wait for.

use std::mem;
use std::sync::{Arc, Weak};

use rustix_futex_sync::{Condvar, Mutex};
use terrace_dump::regions::CopiedRegions;

/// Copies of the regions. Never more exist than checkpoints may be under way at once: those that are dumped, those whose memory a thread
/// prepares, and those that are kept for the next checkpoints.
pub struct Copies {
    /// Held for a look or a change, and released during waits. Each copy that comes back is signalled.
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The greatest number of copies.
    limit: usize,
    /// The number of copies that checkpoints and threads have taken.
    taken: usize,
    /// The others.
    spare: Vec<CopiedRegions>,
}

impl State {
    /// Drops spare copies above the limit.
    fn trim(&mut self) {
        self.spare.truncate(self.limit.saturating_sub(self.taken));
    }
}

impl Default for Copies {
    fn default() -> Copies {
        let state = State { limit: 1, taken: 0, spare: Vec::new() };
        Copies { state: Mutex::new(state), changed: Condvar::new() }
    }
}

impl Copies {
    /// Returns the greatest number of copies.
    pub fn limit(&self) -> usize {
        self.state.lock().limit
    }

    pub fn set_limit(&self, limit: usize) {
        let mut state = self.state.lock();
        state.limit = limit;
        state.trim();
    }

    /// Takes a spare copy, or one without memory. Waits first while others have taken as many as there may be.
    pub fn take(self: &Arc<Self>) -> TakenCopy {
        let mut state = self.state.lock();
        while state.spare.is_empty() && state.taken >= state.limit {
            state = self.changed.wait(state);
        }
        state.taken += 1;
        TakenCopy { regions: state.spare.pop().unwrap_or_default(), copies: self.clone() }
    }

    /// Takes a copy without memory, unless there are as many copies as there may be.
    fn take_new(self: &Arc<Self>) -> Option<TakenCopy> {
        let mut state = self.state.lock();
        if state.taken + state.spare.len() >= state.limit {
            return None;
        }
        state.taken += 1;
        Some(TakenCopy { regions: CopiedRegions::new(), copies: self.clone() })
    }

    /// Makes spare copies by `prepare`, until there are as many copies as there may be, or nobody needs them any more.
    pub fn prepare(copies: &Weak<Self>, prepare: impl Fn() -> CopiedRegions) {
        while let Some(mut taken) = copies.upgrade().and_then(|copies| copies.take_new()) {
            taken.regions = prepare();
            if taken.regions.is_empty() {
                return;
            }
        }
    }
}

/// A copy that somebody uses. It is spare once this is dropped, unless it has no memory.
pub struct TakenCopy {
    pub regions: CopiedRegions,
    copies: Arc<Copies>,
}

impl Drop for TakenCopy {
    fn drop(&mut self) {
        let regions = mem::take(&mut self.regions);
        let mut state = self.copies.state.lock();
        state.taken -= 1;
        if !regions.is_empty() {
            state.spare.push(regions);
        }
        state.trim();
        self.copies.changed.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::cell::Cell;
    use std::sync::mpsc;
    use std::thread;

    use terrace_dump::regions::Protected;

    use super::*;

    fn memory(number: u8) -> CopiedRegions {
        CopiedRegions::from([(0, Protected::own(vec![number; 9]))])
    }

    fn copies(limit: usize) -> Arc<Copies> {
        let copies = Arc::<Copies>::default();
        copies.set_limit(limit);
        copies
    }

    /// Prepares memory. Returns the number of copies that were made.
    fn prepare(copies: &Arc<Copies>) -> u8 {
        let made = Cell::new(0);
        Copies::prepare(&Arc::downgrade(copies), || {
            made.set(made.get() + 1);
            memory(made.get())
        });
        made.get()
    }

    /// The copies of checkpoints under way were not counted: twice as many existed as the limit allows.
    #[test]
    fn copies_under_way_and_prepared_ones_are_no_more_than_the_limit() {
        for under_way in 0..=3 {
            let copies = copies(3);
            let mut taken: Vec<TakenCopy> = (0..under_way).map(|_| copies.take()).collect();
            taken.iter_mut().for_each(|taken| taken.regions = memory(7));
            assert_eq!(prepare(&copies), 3 - under_way);
            assert_eq!(prepare(&copies), 0);
            drop(taken);
            assert_eq!(copies.state.lock().spare.len(), 3);
            let again: Vec<TakenCopy> = (0..3).map(|_| copies.take()).collect();
            assert!(again.iter().all(|taken| !taken.regions.is_empty()) && copies.state.lock().spare.is_empty());
        }
    }

    #[test]
    fn a_checkpoint_takes_the_memory_that_a_thread_still_prepares() {
        let copies = copies(1);
        let ((begun, prepares), (end, ended)) = (mpsc::channel(), mpsc::channel::<()>());
        thread::scope(|scope| {
            let weak = Arc::downgrade(&copies);
            scope.spawn(move || {
                Copies::prepare(&weak, || {
                    begun.send(()).unwrap();
                    ended.recv().unwrap();
                    memory(5)
                });
            });
            prepares.recv().unwrap();
            let taken = scope.spawn(|| mem::take(&mut copies.take().regions));
            end.send(()).unwrap();
            assert_eq!(taken.join().unwrap(), memory(5));
        });
    }

    #[test]
    fn a_lower_limit_gives_memory_back_and_a_copy_without_memory_is_none() {
        let copies = copies(3);
        prepare(&copies);
        let taken = copies.take();
        copies.set_limit(1);
        assert!(copies.state.lock().spare.is_empty());
        drop(taken);
        assert_eq!((prepare(&copies), copies.state.lock().spare.len()), (0, 1));
        copies.take().regions.clear();
        assert_eq!(prepare(&copies), 1);
        let weak = Arc::downgrade(&copies);
        drop(copies);
        Copies::prepare(&weak, || panic!("the copies are closed"));
    }
}
