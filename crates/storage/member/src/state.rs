//! The state that the threads of a member share.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use rustix_futex_sync::{Condvar, Mutex};
use terrace_catalog::{Catalog, Verdict};
use terrace_format::{Step, TargetId};
use terrace_order::{Fate, Order, Proposer};

use crate::error::{MemberError, Result};
use crate::heads::Heads;
use crate::snapshots::SnapshotFolder;

/// The number of the step that begins a session.
pub const BEGIN_NUMBER: u64 = 0;
/// The number of the step that ends it.
pub const END_NUMBER: u64 = u64::MAX;

/// A client's step: its session, and its number there. Steps of the node itself have none.
pub type Whose = Option<(u64, u64)>;

/// The outcome of a client's step.
#[derive(Clone, Debug)]
pub enum Outcome {
    Decided(Verdict),
    /// It is not in the log. The same step may be proposed again.
    NotCarriedOut,
}

/// A target that this node serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTarget {
    /// Its number.
    pub target: TargetId,
    /// Whether synced frames survive a loss of power.
    pub persistent: bool,
    /// Whether frames that were not synced may be gone: the machine went down since the node's last incarnation.
    pub doubtful: bool,
}

impl OwnTarget {
    /// The step that says that this node serves it.
    pub fn step(&self) -> Step {
        let OwnTarget { target, persistent, doubtful } = *self;
        Step::Serve { target, persistent, doubtful }
    }
}

pub struct Shared {
    pub order: Box<dyn Order + Send + Sync>,
    pub catalog: Arc<Catalog>,
    pub name: String,
    pub snapshots: SnapshotFolder,
    /// Never held during a call of the log or the catalog, so that no client waits for them behind it.
    pub state: Mutex<State>,
    /// Told of each change of the state.
    pub changed: Condvar,
    pub heads: Heads,
}

#[derive(Default)]
pub struct State {
    /// The present incarnation's appends. None before it has joined.
    pub proposer: Option<Proposer<Whose>>,
    /// The incarnation of the last fence.
    pub last_incarnation: Option<u64>,
    /// The short number of the present incarnation, once the catalog has it.
    pub short: Option<u32>,
    /// The number of sessions that the present incarnation has begun.
    pub sessions: u64,
    /// The count of numbers that the present incarnation has given out.
    pub numbers: u64,
    /// Steps that are in the log, with the slot at which the catalog knows their verdicts.
    pub decided: Vec<(u64, (u64, u64))>,
    /// The outcomes that clients have not taken yet. None: it is not known.
    pub outcomes: HashMap<(u64, u64), Option<Outcome>>,
    /// The targets that this node serves.
    pub targets: Vec<OwnTarget>,
    /// Sessions of incarnations that are over, as the keeper first saw them.
    pub orphans: HashMap<u64, Instant>,
    /// A commit for the floor, and the time when all nodes had it.
    pub next_floor: Option<(Instant, u64)>,
    /// How far the catalog has followed the log.
    pub slot: u64,
    pub is_stopping: bool,
    /// The reason for which the member has stopped for good.
    pub halted: Option<String>,
}

impl State {
    /// Returns an error if the member has stopped for good.
    pub fn check(&self) -> Result<()> {
        match &self.halted {
            Some(reason) => Err(MemberError::Halted { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    pub fn is_ended(&self) -> bool {
        self.is_stopping || self.halted.is_some()
    }

    /// Adds a step of the node itself to the next record. Without an incarnation it is left out: the next one says it again.
    pub fn propose_own(&mut self, step: Step) {
        if let Some(proposer) = &mut self.proposer
            && let Err(error) = proposer.propose(None, step)
        {
            tracing::error!(%error, "a step of this node was left out");
        }
    }

    /// Notes the fates of steps. `head` is a slot at or after those of records that were trimmed.
    pub fn note_fates(&mut self, fates: Vec<(Whose, Fate)>, head: u64) {
        for (whose, fate) in fates {
            let Some(whose) = whose else { continue };
            match fate {
                Fate::At { slot, .. } => self.decided.push((slot, whose)),
                Fate::BeforeHead => self.decided.push((head, whose)),
                Fate::NotCarriedOut => self.note_outcome(whose, Outcome::NotCarriedOut),
            }
        }
    }

    pub fn note_outcome(&mut self, whose: (u64, u64), outcome: Outcome) {
        // A client that has given up takes no outcome.
        if let Some(known) = self.outcomes.get_mut(&whose) {
            *known = Some(outcome);
        }
    }
}

impl Shared {
    /// Stops the member for good.
    pub fn halt(&self, reason: &dyn std::fmt::Display) {
        tracing::error!(node = self.name, %reason, "this node follows the shared log no more");
        self.state.lock().halted.get_or_insert(reason.to_string());
        self.changed.notify_all();
    }

    /// Waits until `ready` returns something, or the time has come.
    pub fn wait<T>(&self, until: Instant, mut ready: impl FnMut(&mut State) -> Option<T>) -> Result<Option<T>> {
        let mut state = self.state.lock();
        loop {
            if let Some(found) = ready(&mut state) {
                return Ok(Some(found));
            }
            state.check()?;
            if state.is_stopping {
                return Ok(None);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            state = self.changed.wait_timeout(state, left).0;
        }
    }
}
