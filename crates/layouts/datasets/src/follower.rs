//! The thread that updates asynchronous replicas.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};

use crate::Result;
use crate::declared::UpdateTime;

/// A dataset whose asynchronous replicas the thread updates.
pub trait Follow: Send + Sync {
    /// The dataset's name.
    fn name(&self) -> &str;

    /// Updates every replica that does not wait for a view to be closed.
    fn update_asynchronous_replicas(&self) -> Result<()>;
}

/// Updates asynchronous replicas when they are due. The thread starts when it is first needed and ends with the
/// dataset.
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

/// After a failed update, the follower retries after this delay.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl Follower {
    /// Schedules an update for the earliest of the given times.
    pub fn schedule(&self, follow: Weak<dyn Follow>, later: Vec<UpdateTime>) {
        let wait = |when: UpdateTime| match when {
            UpdateTime::Now => Some(Duration::ZERO),
            UpdateTime::Within(bound) => Some(bound / 2),
            UpdateTime::OnClose => None,
        };
        if let Some(wait) = later.into_iter().filter_map(wait).min() {
            self.wake_by(follow, Instant::now() + wait);
        }
    }

    /// Schedules an update.
    pub fn wake_by(&self, follow: Weak<dyn Follow>, due: Instant) {
        let mut state = self.signal.state.lock();
        if state.due.is_none_or(|known| due < known) {
            state.due = Some(due);
            self.signal.changed.notify_all();
        }
        if !state.running {
            let signal = self.signal.clone();
            let thread = std::thread::Builder::new().name("terrace-datasets".into());
            match thread.spawn(move || run_follower(&signal, &follow)) {
                Ok(_) => state.running = true,
                Err(error) => {
                    tracing::warn!(%error, "asynchronous replicas wait for the next process that opens the dataset")
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

fn run_follower(signal: &Signal, follow: &Weak<dyn Follow>) {
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
        let Some(follow) = follow.upgrade() else { return };
        if let Err(error) = follow.update_asynchronous_replicas() {
            tracing::warn!(dataset = follow.name(), %error, "replicas are behind");
            let mut state = signal.state.lock();
            state.due.get_or_insert(Instant::now() + RETRY_DELAY);
        }
    }
}
