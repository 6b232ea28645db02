//! Updates asynchronous replicas in the background, each within its declared bound.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};

use crate::dataset::Shared;
use crate::declared::UpdateTime;

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
    pub fn schedule(&self, shared: &Shared, later: Vec<UpdateTime>) {
        let wait = |when: UpdateTime| match when {
            UpdateTime::Now => Some(Duration::ZERO),
            UpdateTime::Within(bound) => Some(bound / 2),
            UpdateTime::OnClose => None,
        };
        if let Some(wait) = later.into_iter().filter_map(wait).min() {
            self.wake_by(shared, Instant::now() + wait);
        }
    }

    fn wake_by(&self, shared: &Shared, due: Instant) {
        let mut state = self.signal.state.lock();
        if state.due.is_none_or(|known| due < known) {
            state.due = Some(due);
            self.signal.changed.notify_all();
        }
        if !state.running {
            let (signal, shared) = (self.signal.clone(), shared.this.clone());
            let thread = std::thread::Builder::new().name("terrace-datasets".into());
            match thread.spawn(move || run_follower(&signal, &shared)) {
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

fn run_follower(signal: &Signal, shared: &Weak<Shared>) {
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
        if let Err(error) = shared.update_asynchronous_replicas() {
            tracing::warn!(dataset = shared.name, %error, "replicas are behind");
            let mut state = signal.state.lock();
            state.due.get_or_insert(Instant::now() + RETRY_DELAY);
        }
    }
}

impl Shared {
    /// Updates every replica that does not wait for a view to be closed.
    fn update_asynchronous_replicas(&self) -> crate::Result<()> {
        let (loaded, _) = self.load()?;
        let waits = |replica: usize| loaded.replicas.get(replica).is_some_and(|one| one.when == UpdateTime::OnClose);
        self.update_replicas(&mut |replica| !waits(replica), false)
    }

    /// Resumes the work that earlier processes left unfinished: the store's rules and pending updates.
    pub fn resume_updates(&self) -> crate::Result<()> {
        let (loaded, state) = self.load()?;
        // The process that changed the declaration may have died before it set the rules, so set them once per open.
        if !self.rules_checked.swap(true, Ordering::Relaxed)
            && let Err(error) = self.set_rules(&loaded.declared)
        {
            tracing::warn!(dataset = self.name, %error, "its replicas are not stored as it declares");
        }
        if state.current(&loaded).contains(&false) {
            self.follower.wake_by(self, Instant::now());
        }
        Ok(())
    }
}
