//! Replicas that follow later are brought up to date in the background, each within its bound.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};

use crate::dataset::Shared;
use crate::declared::When;

/// Brings replicas up to date when it is time. Its thread starts when it is first needed, and ends with the dataset.
#[derive(Default)]
pub struct Follower {
    signal: Arc<Signal>,
}

#[derive(Default)]
struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    due: Option<Instant>,
    running: bool,
    ended: bool,
}

/// After a failure it is tried again in this time.
const AGAIN: Duration = Duration::from_secs(1);

impl Follower {
    /// Something is owed to replicas that get it then.
    pub fn expect(&self, shared: &Shared, later: Vec<When>) {
        let wait = |when: When| match when {
            When::Now => Some(Duration::ZERO),
            When::Within(bound) => Some(bound / 2),
            When::OnClose => None,
        };
        if let Some(wait) = later.into_iter().filter_map(wait).min() {
            self.wake(shared, Instant::now() + wait);
        }
    }

    fn wake(&self, shared: &Shared, due: Instant) {
        let mut state = self.signal.state.lock();
        if state.due.is_none_or(|known| due < known) {
            state.due = Some(due);
            self.signal.changed.notify_all();
        }
        if !state.running {
            let (signal, shared) = (self.signal.clone(), shared.this.clone());
            let thread = std::thread::Builder::new().name("terrace-datasets".into());
            match thread.spawn(move || follow(&signal, &shared)) {
                Ok(_) => state.running = true,
                Err(error) => {
                    tracing::warn!(%error, "replicas that follow later wait for whoever opens the dataset next")
                }
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.signal.state.lock().ended = true;
        self.signal.changed.notify_all();
    }
}

fn follow(signal: &Signal, shared: &Weak<Shared>) {
    loop {
        {
            let mut state = signal.state.lock();
            while !state.ended && state.due.is_none_or(|due| due > Instant::now()) {
                state = match state.due {
                    Some(due) => signal.changed.wait_timeout(state, due.saturating_duration_since(Instant::now())).0,
                    None => signal.changed.wait(state),
                };
            }
            if state.ended {
                return;
            }
            state.due = None;
        }
        let Some(shared) = shared.upgrade() else { return };
        if let Err(error) = shared.follow() {
            tracing::warn!(dataset = shared.name, %error, "replicas are behind");
            let mut state = signal.state.lock();
            state.due.get_or_insert(Instant::now() + AGAIN);
        }
    }
}

impl Shared {
    /// Brings up to date what does not wait for a view to be closed.
    fn follow(&self) -> crate::Result<()> {
        let (loaded, _) = self.now()?;
        let waits = |replica: usize| loaded.replicas.get(replica).is_some_and(|one| one.when == When::OnClose);
        self.settle(&mut |replica| !waits(replica), false)
    }

    /// Goes on with what others left.
    pub fn resume(&self) -> crate::Result<()> {
        let (loaded, state) = self.now()?;
        // Whoever changed it may have ended before its rules were set.
        if !self.ruled.swap(true, Ordering::Relaxed)
            && let Err(error) = self.set_rules(&loaded.declared)
        {
            tracing::warn!(dataset = self.name, %error, "its replicas are not stored as it declares");
        }
        if state.current(&loaded).contains(&false) {
            self.follower.wake(self, Instant::now());
        }
        Ok(())
    }
}
