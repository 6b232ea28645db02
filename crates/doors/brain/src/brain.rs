//! [`Brain`]: plans for a host's bytes, and what was learned from the outcomes.

use std::sync::Arc;

use rustix_futex_sync::Mutex;
use serde_json::{Value, json};
use terrace_cost::Costs;
use terrace_plan::explain::{Explanation, explain};
use terrace_plan::plan::{Memo, Plan, Want, plan_within_budget};
use terrace_plan::policy::Policy;
use terrace_plan::snapshot::TargetSet;
use terrace_predict::{Aim, MIN_STUDIED_BYTES, Outcome, Predictor};

use crate::Failure;
use crate::outcome::Reported;
use crate::piece::{BrainPiece, BrainPlanSize, list_pieces};
use crate::request::{BrainRequest, Wanted};
use crate::saved::Saved;
use crate::storage::Storage;
use crate::streams::Streams;

/// A brain: the tiers of a host, and what was learned of them and of its bytes. Many threads may use one at once.
pub struct Brain {
    /// Held for a whole call, which does no I/O.
    state: Mutex<State>,
}

struct State {
    storage: Storage,
    predictor: Predictor,
    streams: Streams,
    memo: Memo,
}

/// The answer to a request.
pub(crate) struct Answer {
    pub pieces: Vec<BrainPiece>,
    pub size: BrainPlanSize,
}

impl Brain {
    pub(crate) fn new(storage: Storage) -> Brain {
        let (predictor, streams, memo) = (Predictor::default(), Streams::default(), Memo::default());
        Brain { state: Mutex::new(State { storage, predictor, streams, memo }) }
    }

    /// Plans the replicas of some bytes. The explanation is made if `with_reasons` is set, also if no target has room.
    pub(crate) fn plan(
        &self,
        given: &BrainRequest,
        raw: &[u8],
        with_reasons: bool,
    ) -> Result<(Result<Answer, Failure>, Option<Explanation>), Failure> {
        let State { storage, predictor, streams, memo } = &mut *self.state.lock();
        let wanted = Wanted::new(given, storage)?;
        let stream = streams.of(wanted.key, wanted.element, predictor);
        let bytes = raw.len() as u64;
        let want = Want { bytes, reads: wanted.reads, targets: TargetSet::ALL, hash: Some(wanted.hash()) };
        let policy = &wanted.policy;
        if raw.len() >= MIN_STUDIED_BYTES {
            // Without room there is nothing to aim at yet; the plan below returns that error.
            let first = plan_within_budget(&want, storage.snapshot(), policy, stream.costs(), memo).ok();
            let mut aims = list_aims(first, policy, want.reads, storage);
            if let Some(aim) = aims.first_mut().filter(|_| stream.is_new()) {
                aim.slowest = storage.slowest();
            }
            for aim in aims.iter().filter(|aim| aim.pays()) {
                stream.study(predictor, (wanted.file(), wanted.offset), raw, aim);
            }
        }
        let costs = stream.costs();
        // From the memo, if the study changed nothing.
        let planned = plan_within_budget(&want, storage.snapshot(), policy, costs, memo);
        let why = with_reasons.then(|| {
            explain(&want, storage.snapshot(), policy, costs, &wanted.resolutions, planned.as_ref().ok().copied())
        });
        let answer = planned.map_err(Failure::NoSpace).map(|plan| {
            let pieces = list_pieces(plan, bytes, costs, storage);
            let replicas = pieces.last().map_or(0, |piece| piece.replica + 1);
            let stored = pieces.iter().map(|piece| piece.stored).sum();
            let size = BrainPlanSize { pieces: pieces.len(), replicas, wanted: policy.replicas.into(), stored };
            Answer { pieces, size }
        });
        Ok((answer, why))
    }

    /// Changes the state of a target.
    pub(crate) fn update(&self, target: usize, free: u64, load: f64, up: bool) -> Result<(), Failure> {
        self.state.lock().storage.update(target, free, load, up)
    }

    /// Learns from the outcome of a piece.
    pub(crate) fn report(&self, reported: &Reported<'_>) -> Result<(), Failure> {
        let State { storage, predictor, streams, .. } = &mut *self.state.lock();
        let Reported { key, element, target, encoding, length, stored, is_write, .. } = *reported;
        storage.check(target)?;
        if is_write {
            storage.take(target, stored as u64)?;
        }
        if let Some(seconds) = reported.target_seconds {
            storage.learn(target, is_write, stored, seconds)?;
        }
        match (streams.find(key, element), reported.codec_seconds) {
            (Some(stream), encode) if is_write && length >= MIN_STUDIED_BYTES => {
                let outcome = Outcome { bytes: length, stored: Some(stored), encode, decode: None };
                stream.learn(predictor, encoding, &outcome);
            }
            (_, Some(decode)) if !is_write && stored < length => predictor.decoded(encoding, length, stored, decode),
            _ => {}
        }
        Ok(())
    }

    /// Returns what was learned.
    pub(crate) fn save(&self) -> Result<Vec<u8>, Failure> {
        let State { storage, predictor, streams, .. } = &*self.state.lock();
        Saved { model: predictor.save(), streams: streams.remember(predictor), tiers: storage.learned() }.to_bytes()
    }

    /// Replaces what was learned by what was saved.
    pub(crate) fn load(&self, bytes: &[u8]) -> Result<(), Failure> {
        let Saved { model, streams, tiers } = Saved::of_bytes(bytes)?;
        let predictor = Predictor::load(&model).map_err(|error| Failure::Damaged(error.to_string()))?;
        let state = &mut *self.state.lock();
        state.storage.recall(&tiers)?;
        (state.predictor, state.streams) = (predictor, Streams::recall(streams));
        Ok(())
    }

    /// Describes the tiers, the targets, and how good the predictions were.
    pub(crate) fn describe(&self) -> Value {
        let State { storage, predictor, streams, memo } = &*self.state.lock();
        let mut described = storage.report();
        described["streams"] = json!(streams.count());
        described["plans"] = json!({ "made": memo.misses, "remembered": memo.hits });
        described["predictions"] = json!(predictor.report());
        described
    }

    /// Returns the expected cost of each encoding on the next bytes of a key, if it was planned before. For tests.
    #[doc(hidden)]
    pub fn costs(&self, key: &str) -> Option<Arc<Costs>> {
        self.state.lock().streams.find(key, None).map(|stream| stream.costs().clone())
    }
}

/// Returns the purposes for which encodings are studied: each replica on its target. If nothing has room unencoded, replica 0 on the slowest tier.
fn list_aims(plan: Option<&Plan>, policy: &Policy, reads: f64, storage: &Storage) -> Vec<Aim> {
    let has_budget = policy.budget.is_some();
    let Some(plan) = plan else {
        return storage.slowest().map(|pace| Aim::new(pace, policy.first, reads, has_budget)).into_iter().collect();
    };
    let mut aims: Vec<Aim> = Vec::new();
    for (replica, pieces) in plan.replicas.iter().enumerate() {
        let Some(piece) = pieces.first() else { continue };
        let (weights, reads) = if replica == 0 { (policy.first, reads) } else { (policy.rest, 0.0) };
        let aim = Aim::new(storage.pace(piece.target.into()), weights, reads, has_budget);
        if !aims.contains(&aim) {
            aims.push(aim);
        }
    }
    aims
}
