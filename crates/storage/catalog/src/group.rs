//! Group commit: changes that come while others are being committed are committed together, by one of those who wait.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;

use super::{Change, Commit};
use crate::{Error, Result};

/// How long one watches for its turn before it sleeps: to be woken takes longer than a commit.
pub(super) const MAX_SPIN_TIME: Duration = Duration::from_micros(50);

/// Whose turn it is to commit.
pub(super) struct Turns {
    queue: Mutex<Queue>,
    /// Who would watch beyond these only keeps the leader from a core.
    watchers: usize,
}

impl Default for Turns {
    fn default() -> Turns {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        Turns { queue: Mutex::default(), watchers: cores - 1 }
    }
}

#[derive(Default)]
struct Queue {
    /// Whether somebody commits.
    led: bool,
    waiting: Vec<Arc<Waiting>>,
}

struct Waiting {
    change: Change,
    state: AtomicU8,
    thread: Thread,
    result: Mutex<Option<Result<Commit>>>,
}

const STATE_SPINS: u8 = 0;
const STATE_SLEEPS: u8 = 1;
const STATE_LEADS: u8 = 2;
const STATE_DONE: u8 = 3;

impl Turns {
    /// Commits a change by `carry_out`, alone or with those of others.
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

    /// Commits all that wait now, this thread's own change among them.
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
            one.tell(STATE_DONE);
        }
    }

    /// The first of those who wait commits next.
    fn hand_on(&self) {
        let mut queue = self.queue.lock();
        match queue.waiting.first().cloned() {
            None => queue.led = false,
            Some(next) => {
                drop(queue);
                next.tell(STATE_LEADS);
            }
        }
    }
}

impl Waiting {
    /// Returns what it is told.
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
            Ok(_) => loop {
                thread::park();
                match self.state.load(Ordering::Acquire) {
                    STATE_SLEEPS => {}
                    told => return told,
                }
            },
        }
    }

    fn tell(&self, what: u8) {
        if self.state.swap(what, Ordering::AcqRel) == STATE_SLEEPS {
            self.thread.unpark();
        }
    }
}

fn no_result() -> Result<Commit> {
    Err(Error::Lmdb("the commit was given no result".into()))
}
