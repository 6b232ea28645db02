//! Group commit: the first of the waiting threads leads, and commits all changes that have arrived during the commit before.
//!
//! A thread that waits spins for 50 us before it sleeps: a commit takes some 12 us, and waking a thread takes longer. In a
//! process, at most one waiting thread for each core but one spins. For LMDB's lock, only one of all processes spins
//! (`commit_flag.rs`).

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use super::{Change, Commit};
use crate::{Error, Result};

/// The time that a waiting thread spins before it sleeps. Waking a thread takes longer than a commit.
pub(super) const MAX_SPIN_TIME: Duration = Duration::from_micros(50);

/// The threads of this process that commit: one leads, the others wait.
pub(super) struct CommitQueue {
    /// Held for a look at the queue or a change of it, never during a commit. No other lock is taken under it.
    queue: Mutex<Queue>,
    /// The most threads that spin: more would keep the leader from a core.
    watchers: usize,
}

impl Default for CommitQueue {
    fn default() -> CommitQueue {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        CommitQueue { queue: Mutex::default(), watchers: cores - 1 }
    }
}

#[derive(Default)]
struct Queue {
    /// Whether a thread commits. While it is true, changes are queued, and the leader hands on to the first one.
    led: bool,
    waiting: Vec<Arc<Waiting>>,
}

struct Waiting {
    change: Change,
    /// Changed by swap and compare-exchange only, so that exactly one side sees that the thread sleeps, and wakes it. Release
    /// and acquire: a thread that reads `STATE_DONE` sees the result.
    state: AtomicU8,
    thread: Thread,
    /// The leader fills it before it sets `STATE_DONE`; the waiting thread empties it after that. The lock is never contended.
    result: Mutex<Option<Result<Commit>>>,
}

const STATE_SPINS: u8 = 0;
const STATE_SLEEPS: u8 = 1;
const STATE_LEADS: u8 = 2;
const STATE_DONE: u8 = 3;

impl CommitQueue {
    /// Commits a change by `carry_out`, alone or together with the changes of other threads.
    pub fn commit(
        &self,
        change: Change,
        carry_out: impl Fn(&[&Change]) -> Result<Vec<Result<Commit>>>,
    ) -> Result<Commit> {
        let mut queue = self.queue.lock();
        if !queue.led {
            queue.led = true;
            drop(queue);
            let results = carry_out(&[&change]);
            self.hand_on();
            return results.and_then(|mut results| results.pop().unwrap_or_else(no_result));
        }
        let waiting = Arc::new(Waiting {
            change,
            state: AtomicU8::new(STATE_SPINS),
            thread: thread::current(),
            result: Mutex::default(),
        });
        queue.waiting.push(waiting.clone());
        let watches = queue.waiting.len() <= self.watchers;
        drop(queue);
        if waiting.wait(watches) == STATE_LEADS {
            self.lead(&carry_out);
        }
        waiting.result.lock().take().unwrap_or_else(no_result)
    }

    /// Commits all waiting changes, including that of this thread.
    fn lead(&self, carry_out: &impl Fn(&[&Change]) -> Result<Vec<Result<Commit>>>) {
        let group = std::mem::take(&mut self.queue.lock().waiting);
        let changes: Vec<&Change> = group.iter().map(|one| &one.change).collect();
        let results = carry_out(&changes);
        self.hand_on();
        let results = results.unwrap_or_else(|e| {
            let shared = |_| Err(e.share());
            group.iter().map(shared).collect()
        });
        for (one, result) in group.iter().zip(results) {
            *one.result.lock() = Some(result);
            one.wake_with(STATE_DONE);
        }
    }

    /// Makes the first waiting thread the leader. `led` stays true until none waits, so no newcomer overtakes the queue.
    fn hand_on(&self) {
        let mut queue = self.queue.lock();
        match queue.waiting.first().cloned() {
            None => queue.led = false,
            Some(next) => {
                drop(queue);
                next.wake_with(STATE_LEADS);
            }
        }
    }
}

impl Waiting {
    /// Waits until the state is `STATE_LEADS` or `STATE_DONE`, and returns it.
    fn wait(&self, watches: bool) -> u8 {
        let until = Instant::now() + MAX_SPIN_TIME;
        while watches && Instant::now() < until {
            match self.state.load(Ordering::Acquire) {
                STATE_SPINS => (0..16).for_each(|_| std::hint::spin_loop()),
                told => return told,
            }
        }
        match self.state.compare_exchange(STATE_SPINS, STATE_SLEEPS, Ordering::AcqRel, Ordering::Acquire) {
            Err(told) => told,
            // `park` may return early, so the state is checked again. An `unpark` before `park` is not lost.
            Ok(_) => loop {
                thread::park();
                match self.state.load(Ordering::Acquire) {
                    STATE_SLEEPS => {}
                    told => return told,
                }
            },
        }
    }

    fn wake_with(&self, what: u8) {
        if self.state.swap(what, Ordering::AcqRel) == STATE_SLEEPS {
            self.thread.unpark();
        }
    }
}

fn no_result() -> Result<Commit> {
    Err(Error::Lmdb("the commit was given no result".into()))
}
