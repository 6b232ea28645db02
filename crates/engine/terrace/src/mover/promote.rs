//! Promotion: makes replicas on faster tiers for bytes that are read often, where there is room. `displace.rs` makes room.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use terrace_catalog::{Change, Edit, Extent, TargetId, frames};
use terrace_plan::hotness::{Entry, promotions};

use super::Mover;
use super::edits::owe;
use crate::Result;
use crate::devices::{Device, TierList};

/// The time between two searches for bytes worth promoting.
const PROMOTION_INTERVAL: Duration = Duration::from_secs(5);
/// Extents with a lower score stay where they are.
const MIN_WARM_SCORE: f64 = 2.0;

/// An extent that may be promoted.
pub(super) struct Candidate {
    pub key: Vec<u8>,
    object: u64,
    extent: Extent,
    /// Its nearest replica. The key of this is the candidate's place in their list.
    pub entry: Entry,
}

impl Mover {
    /// Promotes, if the last search was long enough ago.
    pub(super) fn promote_in_time(&self) -> Result<()> {
        let mut promoted = self.state.promoted.lock();
        if promoted.get_or_insert_with(Instant::now).elapsed() > PROMOTION_INTERVAL {
            self.promote()?;
            *promoted = Some(Instant::now());
        }
        Ok(())
    }

    /// Makes replicas pending on faster tiers for bytes that are read often enough to pay for them. Returns their number.
    pub fn promote(&self) -> Result<usize> {
        // One list, since targets are named by their place in it.
        let tiers: &TierList = &self.tiers;
        let candidates = self.find_candidates(tiers)?;
        let mut entries: Vec<Entry> = candidates.iter().map(|candidate| candidate.entry).collect();
        let Some(mut snapshot) = self.planning.planner.tiers(tiers).filter(|_| !entries.is_empty()) else {
            return Ok(0);
        };
        for (at, device) in tiers.devices.iter().enumerate() {
            // Bytes above the high watermark would be evicted again.
            snapshot.set_space(at, device.free_below(tiers.tier(device).high_watermark), 0);
        }
        let moves = promotions(&entries, &snapshot);
        let mut promoted = 0;
        for hint in &moves {
            let candidate = &candidates[hint.key as usize];
            promoted += usize::from(self.promote_one(candidate, &tiers.devices[usize::from(hint.to)])?);
        }
        let chosen: HashSet<u64> = moves.iter().map(|hint| hint.key).collect();
        entries.retain(|entry| !chosen.contains(&entry.key));
        self.displace_colder(tiers, &candidates, &entries, snapshot)?;
        Ok(promoted)
    }

    /// Returns the extents that are read often.
    fn find_candidates(&self, tiers: &TierList) -> Result<Vec<Candidate>> {
        let mut candidates = Vec::new();
        for key in self.planning.hotness.objects() {
            let Some((object, extents)) = self.catalog.locate(&key, 0, u64::MAX)? else { continue };
            for extent in frames(&extents) {
                let score = self.planning.hotness.score(&key, extent.offset, object.length);
                let Some(target) = nearest(tiers, extent).filter(|_| score >= MIN_WARM_SCORE) else { continue };
                let is_faster = |device: &&Device| device.tier < tiers.devices[target].tier;
                if !tiers.devices.iter().filter(is_faster).any(|device| self.may_be_on(&key, device)) {
                    continue;
                }
                let Some(replica) = extent.replicas.iter().find(|r| r.target == tiers.devices[target].id) else {
                    continue;
                };
                let entry = Entry {
                    key: candidates.len() as u64,
                    bytes: u64::from(replica.stored),
                    target: target as u16,
                    score,
                };
                candidates.push(Candidate { key: key.clone(), object: object.id, extent: extent.clone(), entry });
            }
        }
        Ok(candidates)
    }

    /// Makes a replica of an extent pending on a target. It replaces a replica in the same failure domain, if there is one.
    fn promote_one(&self, candidate: &Candidate, to: &Device) -> Result<bool> {
        let Candidate { key, object, extent, .. } = candidate;
        let task = extent.task(*object, to.id);
        if !self.may_be_on(key, to) || self.catalog.owed_to(&task)?.contains(&to.id) {
            return Ok(false);
        }
        let shares = |id: TargetId| self.tiers.device(id).is_ok_and(|device| device.domain == to.domain);
        let there = extent.replicas.iter().find(|replica| shares(replica.target));
        if there.is_some_and(|replica| self.outlives(replica) && !self.tiers.tier(to).persistent) {
            return Ok(false);
        }
        let edit: Edit = owe(key, task, extent, there.map(|replica| replica.target));
        self.catalog.commit(Change { expect: Vec::new(), edits: vec![edit] })?;
        Ok(true)
    }

    /// Returns whether the rule of a key allows a replica on a target.
    pub(super) fn may_be_on(&self, key: &[u8], device: &Device) -> bool {
        let rules = self.planning.rules.now();
        let allowed = rules.rule_for(key).and_then(|rule| rule.tiers.as_deref());
        allowed.is_none_or(|names| names.contains(&self.tiers.tier(device).name))
    }
}

/// Returns the index of the nearest target with a replica.
fn nearest(tiers: &TierList, extent: &Extent) -> Option<usize> {
    let holds = |id: TargetId| extent.replicas.iter().any(|replica| replica.target == id);
    (0..tiers.devices.len()).filter(|at| holds(tiers.devices[*at].id)).min_by_key(|at| tiers.devices[*at].tier)
}
