//! Checkpoints in the background: one thread makes them, one after another, while the program continues.
//!
//! ```
//! use terrace_dump::background::Background;
//!
//! let background = Background::default();
//! std::thread::scope(|scope| {
//!     scope.spawn(|| background.run());
//!     background.begin(1, || Ok(7));
//!     assert!(matches!(background.wait(), Ok(Some(7))));
//!     background.close();
//! });
//! ```

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use rustix_futex_sync::{Condvar, Mutex};

use crate::{Error, Result};

/// Makes a checkpoint, and returns its version.
type Make<'w> = Box<dyn FnOnce() -> Result<u32> + Send + 'w>;

/// The checkpoints of a rank that have begun. One thread calls [`Background::run`], another one begins them and waits for
/// them. All ranks begin the same checkpoints in the same order.
#[derive(Default)]
pub struct Background<'w> {
    /// Held for a look or a change, and released during waits. Each change is signalled.
    state: Mutex<State<'w>>,
    changed: Condvar,
}

#[derive(Default)]
struct State<'w> {
    waiting: VecDeque<Make<'w>>,
    /// The number of checkpoints that have begun and not ended.
    under_way: usize,
    /// The newest version that was made.
    newest: Option<u32>,
    /// The first failure that `wait` has not returned yet.
    failed: Option<Error>,
    closed: bool,
}

impl<'w> Background<'w> {
    /// Waits until fewer than `limit` checkpoints are under way. All ranks wait for the same ones.
    pub fn wait_for_room(&self, limit: usize) {
        let mut state = self.state.lock();
        while state.under_way >= limit.max(1) {
            state = self.changed.wait(state);
        }
    }

    /// Begins a checkpoint, which `make` makes in the other thread. Waits first while `limit` of them are under way.
    pub fn begin(&self, limit: usize, make: impl FnOnce() -> Result<u32> + Send + 'w) {
        self.wait_for_room(limit);
        let mut state = self.state.lock();
        state.under_way += 1;
        state.waiting.push_back(Box::new(make));
        self.changed.notify_all();
    }

    /// Returns whether all checkpoints that have begun have ended.
    pub fn is_idle(&self) -> bool {
        self.state.lock().under_way == 0
    }

    /// Waits until all checkpoints have ended. Returns the newest version that was made, if any.
    ///
    /// # Errors
    /// The first failure since the last call. Later ones are in the log.
    pub fn wait(&self) -> Result<Option<u32>> {
        self.wait_for_room(1);
        let mut state = self.state.lock();
        match state.failed.take() {
            Some(error) => Err(error),
            None => Ok(state.newest),
        }
    }

    /// Makes the checkpoints that begin, until [`Background::close`].
    pub fn run(&self) {
        while let Some(make) = self.next() {
            // The state is not locked meanwhile: the program may begin and look.
            let made = catch_unwind(AssertUnwindSafe(make));
            let made = made.unwrap_or_else(|_| Err(Error::Refused("it panicked; this is a bug of Terrace".into())));
            let mut state = self.state.lock();
            state.under_way -= 1;
            match made {
                Ok(version) => state.newest = Some(version),
                Err(error) if state.failed.is_none() => state.failed = Some(error),
                Err(error) => tracing::warn!("another checkpoint failed: {error}"),
            }
            self.changed.notify_all();
        }
    }

    /// Returns the next checkpoint to make; `None` once all are made and no more will begin.
    fn next(&self) -> Option<Make<'w>> {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && !state.closed {
            state = self.changed.wait(state);
        }
        state.waiting.pop_front()
    }

    /// Lets [`Background::run`] return once all checkpoints that have begun are made.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn checkpoints_end_in_order_and_a_failed_one_stops_no_other() {
        let background = Background::default();
        thread::scope(|scope| {
            scope.spawn(|| background.run());
            background.begin(2, || Ok(3));
            background.begin(2, || Err(Error::Refused("no room".into())));
            background.begin(2, || Err(Error::Refused("still none".into())));
            background.begin(2, || panic!("a panic on purpose"));
            background.begin(2, || Ok(4));
            background.close();
        });
        let told = background.wait().map_err(|error| error.to_string());
        assert_eq!(told, Err("no room".to_owned()));
        assert!(matches!(background.wait(), Ok(Some(4))), "it was said before that one failed");
    }

    #[test]
    fn at_most_the_limit_are_under_way_and_close_waits_for_them() {
        let (end, ended) = mpsc::channel::<()>();
        let (begun, third) = mpsc::channel::<()>();
        let ended = Mutex::new(ended);
        let make = || ended.lock().recv().map(|()| 1).map_err(|_| Error::Refused("nobody ends it".into()));
        let background = Background::default();
        let (early, idle) = thread::scope(|scope| {
            scope.spawn(|| background.run());
            background.begin(2, make);
            background.begin(2, make);
            scope.spawn(|| {
                background.begin(2, make);
                // The receiver is there until the scope ends.
                begun.send(()).unwrap();
                background.close();
            });
            let (early, idle) = (third.try_recv().is_ok(), background.is_idle());
            (0..3).for_each(|_| end.send(()).unwrap());
            (early, idle)
        });
        assert!(!early && !idle, "two are under way, so the third one waits");
        assert!(matches!(background.wait(), Ok(Some(1))) && background.is_idle());
    }
}
