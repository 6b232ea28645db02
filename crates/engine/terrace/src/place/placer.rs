//! Plans the replicas of one object's extents.

use std::sync::Arc;

use rustix_futex_sync::Mutex;
use terrace_catalog::{Extent, Replica, TargetId};
use terrace_codec::Encoding;
use terrace_cost::{Costs, Expected, Weights};
use terrace_format::frame::{Coded, with_scratch};
use terrace_plan::policy::{Ack, Budget, Policy};
use terrace_plan::snapshot::TierSet;
use terrace_predict::{Aim, MIN_STUDIED_BYTES, Pace};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::extent_plan::{ExtentPlan, ReplicaPlans};
use super::lessons::{SHORT_EXTENT_BYTES, StreamLessons};
use super::planner::PlanRequest;
use super::{MIN_EXPECTED_READS, Planning, UNKNOWN_ENCODING_COST};
use crate::devices::Device;
use crate::{Error, Result};

/// Plans the replicas of one object's extents.
pub(crate) struct Placer<'a> {
    pub(super) planning: &'a Planning,
    pub(super) key: &'a [u8],
    pub(super) wanted: Policy,
    /// The stream of the bytes, with its lessons. See `Lessons` for the lock order.
    pub(super) stream: Arc<Mutex<StreamLessons>>,
    /// A hash of the key, which tells the object from others of its stream.
    pub(super) key_hash: u64,
    /// The encoding that the rule for the object names.
    pub(super) pinned: Option<Encoding>,
}

impl<'a> Placer<'a> {
    /// Plans the replicas of `raw`, the object's bytes from `offset` on. If no targets have room for all of it, plans only a first
    /// part, and says its length. The plan is empty if no target has room.
    pub fn plan_extent(&self, offset: u64, raw: &[u8]) -> ExtentPlan {
        let reads = self.reads(offset, raw.len());
        let request = PlanRequest { wanted: self.wanted, beside: &[], reads, hash: self.hash(offset) };
        let costs = self.costs();
        let mut plan = self.plan_with(raw.len(), &request, &costs);
        if let Some(first) = plan.replicas.first()
            && let Ok(device) = self.planning.tiers.device(first.target)
        {
            self.study(offset, raw, device, &self.wanted.first, reads);
            // Another thread may have learned about the same stream meanwhile.
            let now = self.costs();
            if !Arc::ptr_eq(&now, &costs) {
                plan = self.plan_with(raw.len(), &request, &now);
            }
        }
        if !plan.replicas.is_empty() {
            return plan;
        }
        let out_of_reach = |most| self.planning.planner.is_out_of_reach(&self.planning.tiers, self.wanted.tiers, most);
        if self.wanted.max_latency.is_some_and(out_of_reach) {
            // No eviction makes a target faster. So the limit is dropped, and the receipt says so.
            let wanted = Policy { max_latency: None, ..self.wanted };
            let placed = self.plan_lasting_or_not(raw.len(), &PlanRequest { wanted, ..request });
            return ExtentPlan { is_slow: true, ..placed };
        }
        self.plan_lasting_or_not(raw.len(), &request)
    }

    /// Checks that there could be a place, if nothing was full or away.
    ///
    /// # Errors
    /// [`Error::Config`] if the object's rule or options allow no tier, or only tiers in memory although all replicas have to persist.
    pub fn check_possible(&self) -> Result<()> {
        let Planning { tiers, .. } = self.planning;
        if tiers.domains(self.wanted.tiers, self.wanted.is_all_persistent()) > 0 {
            return Ok(());
        }
        let key = terrace_format::key::show(self.key);
        let named = tiers.tiers.iter().zip(0..).filter(|(_, level)| self.wanted.tiers.has(*level));
        let named: Vec<&str> = named.map(|(tier, _)| tier.name.as_str()).collect();
        Err(Error::Config(if named.is_empty() {
            format!(
                "none of the tiers that the rule or the options of {key:?} name is there; `terrace tiers` lists those that are"
            )
        } else {
            let named = named.join(", ");
            format!(
                "all replicas of {key:?} have to persist, but its rule or options allow only tiers in memory ({named}); allow another one, or ask for less than `durable`"
            )
        }))
    }

    /// Plans the replicas. If the persistent targets are full or away for now, plans a replica in memory alone, and the
    /// others become pending.
    fn plan_lasting_or_not(&self, length: usize, request: &PlanRequest<'_>) -> ExtentPlan {
        let plan = self.plan(length, request);
        if plan.replicas.is_empty() && !request.wanted.volatile && !request.wanted.is_all_persistent() {
            return self.plan(length, &PlanRequest { wanted: Policy { volatile: true, ..request.wanted }, ..*request });
        }
        plan
    }

    /// Returns targets on these tiers for replicas that no target takes now. They become pending there.
    pub fn for_later(&self, tiers: impl Iterator<Item = usize>, missing: usize, beside: &[TargetId]) -> Vec<TargetId> {
        let levels = &self.planning.tiers.tiers;
        let all_persistent = self.wanted.is_all_persistent();
        let fits = |level: &usize| !all_persistent || levels.get(*level).is_some_and(|tier| tier.persistent);
        let allowed = self.allowed(tiers.filter(fits));
        self.planning.tiers.for_later(beside, missing, allowed, self.wanted.volatile)
    }

    /// Returns a persistent target for a pending replica, if none of `chosen` is persistent and one must be.
    pub fn lasting_for_later(&self, chosen: &[TargetId]) -> Option<TargetId> {
        let lasts = |id: &TargetId| {
            self.planning.tiers.device(*id).is_ok_and(|device| self.planning.tiers.tier(device).persistent)
        };
        let lacks = !self.wanted.volatile && !chosen.iter().any(lasts);
        let owed = || self.planning.tiers.for_later(chosen, 1, self.wanted.tiers, false);
        if lacks { owed().first().copied() } else { None }
    }

    /// Plans up to `missing` more replicas of an extent, in addition to those on `beside`.
    pub fn plan_more(&self, extent: &Extent, missing: usize, beside: &[TargetId]) -> ReplicaPlans {
        let wanted = Policy { replicas: missing.min(255) as u8, ..self.wanted };
        let request = PlanRequest { wanted, beside, reads: 0.0, hash: self.hash(extent.offset) };
        self.plan(extent.raw_len as usize, &request).replicas
    }

    /// Returns a target for one more replica of an extent on these tiers. `volatile` alone decides whether it may be in
    /// memory.
    pub fn choose_target(
        &self,
        tiers: TierSet,
        extent: &Extent,
        beside: &[TargetId],
        volatile: bool,
    ) -> Option<TargetId> {
        self.choose_one_target(Policy { tiers, volatile, persistent: false, ..self.wanted }, extent, beside)
    }

    /// Like [`Placer::choose_target`], for a replica that leaves another tier. If all replicas have to persist, this one has to.
    pub fn choose_target_of_move(
        &self,
        tiers: TierSet,
        extent: &Extent,
        beside: &[TargetId],
        volatile: bool,
    ) -> Option<TargetId> {
        let persistent = self.wanted.is_all_persistent();
        self.choose_one_target(Policy { tiers, volatile, persistent, ..self.wanted }, extent, beside)
    }

    /// Like [`Placer::choose_target_of_move`], but on a tier that the object's policy allows if one takes it, and on a persistent one rather than
    /// in memory if the replica `lasts` where it is.
    pub fn choose_target_of_move_off(
        &self,
        tiers: TierSet,
        extent: &Extent,
        beside: &[TargetId],
        volatile: bool,
        lasts: bool,
    ) -> Option<TargetId> {
        let levels = &self.planning.tiers.tiers;
        let on = |is_allowed: bool, is_persistent: bool| {
            let of = |level: &usize| {
                tiers.has(*level as u8)
                    && (!is_allowed || self.wanted.tiers.has(*level as u8))
                    && (!is_persistent || levels[*level].persistent)
            };
            let tiers = TierSet::of((0..levels.len()).filter(of));
            self.choose_target_of_move(tiers, extent, beside, volatile)
        };
        on(true, lasts).or_else(|| on(true, false)).or_else(|| on(false, lasts)).or_else(|| on(false, false))
    }

    fn choose_one_target(&self, wanted: Policy, extent: &Extent, beside: &[TargetId]) -> Option<TargetId> {
        let wanted = Policy { replicas: 1, ack: Ack::Placed, max_latency: None, ..wanted };
        let request = PlanRequest { wanted, beside, reads: 0.0, hash: self.hash(extent.offset) };
        self.plan(extent.raw_len as usize, &request).replicas.first().map(|placed| placed.target)
    }

    /// Returns the tiers on which replicas may be.
    pub fn tiers(&self) -> TierSet {
        self.wanted.tiers
    }

    /// Returns whether replicas must not be on some tier.
    pub fn is_bound(&self) -> bool {
        (0..self.planning.tiers.tiers.len()).any(|level| !self.wanted.tiers.has(level as u8))
    }

    /// Returns those of these tiers on which replicas may be.
    pub fn allowed(&self, tiers: impl IntoIterator<Item = usize>) -> TierSet {
        TierSet::of(tiers.into_iter().filter(|level| self.wanted.tiers.has(*level as u8)))
    }

    /// Plans the replicas of a stored extent again, such that few of them move. With `stay`, they keep their targets.
    /// Returns none if no better plan is known.
    pub fn replan(&self, extent: &Extent, raw: &[u8], stay: bool) -> ReplicaPlans {
        let (reads, hash) = (self.reads(extent.offset, raw.len()), self.hash(extent.offset));
        let request = PlanRequest { wanted: self.wanted, beside: &[], reads, hash };
        let costs = match self.pinned {
            Some(_) => self.costs(),
            None => Arc::new(self.surveyed(extent, raw)),
        };
        self.planning.planner.replan(&self.planning.tiers, raw.len(), &request, &costs, &extent.replicas, stay)
    }

    /// Returns the expected cost of every encoding on a stored extent, with the measured sizes for the encodings of its
    /// replicas.
    fn surveyed(&self, extent: &Extent, raw: &[u8]) -> Costs {
        let mut expected = self.planning.lessons.survey_extent(&self.stream, raw, &self.planning.tiers, &self.wanted);
        let encoded = || extent.replicas.iter().filter(|replica| replica.encoding != Encoding::NONE);
        let made = |replica: &Replica| f64::from(replica.stored.max(1)) / f64::from(extent.raw_len);
        let of = |encoding| expected.iter().find(|(known, _)| *known == encoding).map(|(_, expected)| expected.stored);
        // Short extents were not surveyed one by one. The result of one encoding on these bytes scales the expected results
        // of the others.
        let share = encoded().find_map(|replica| Some(made(replica) / of(replica.encoding)?));
        if let Some(share) = share.filter(|_| raw.len() < SHORT_EXTENT_BYTES) {
            expected.iter_mut().for_each(|(_, expected)| expected.stored *= share);
        }
        for replica in encoded() {
            let stored = made(replica);
            match expected.iter_mut().find(|(encoding, _)| *encoding == replica.encoding) {
                Some((_, known)) => known.stored = stored,
                None => expected.push((replica.encoding, Expected { stored, ..UNKNOWN_ENCODING_COST })),
            }
        }
        Costs::new(expected)
    }

    /// Chooses the encoding of one more replica of an extent on `device`.
    pub fn encoding(&self, device: &Device, extent: &Extent, raw: &[u8], missing: usize) -> Encoding {
        if let Some(pinned) = self.pinned {
            return pinned;
        }
        let nearest = extent.replicas.iter().all(|r| {
            r.target == device.id || self.planning.tiers.device(r.target).is_ok_and(|other| other.tier > device.tier)
        });
        let (weights, reads) = self.wanted.weights_and_reads(nearest, self.reads(extent.offset, raw.len()));
        self.study(extent.frame_offset(), raw, device, &weights, reads);
        let stored: u64 = extent.replicas.iter().filter(|r| r.target != device.id).map(|r| u64::from(r.stored)).sum();
        let left = |Budget(times): Budget| (times - stored as f64 / raw.len() as f64) / missing.max(1) as f64;
        let wanted = Policy {
            first: weights,
            raw_first: nearest && self.wanted.raw_first,
            budget: self.wanted.budget.map(|budget| Budget(left(budget).max(0.0))),
            ..self.wanted
        };
        // Cloned, so that the lock is not held while the planner is locked.
        let costs = self.stream.lock().costs().clone();
        self.planning.planner.encoding(&self.planning.tiers, device, raw.len(), reads, wanted, &costs)
    }

    /// Returns the encoding of a replica for which this one is planned: the one that a rule names, if there is one.
    pub fn pinned_or(&self, planned: Encoding) -> Encoding {
        self.pinned.unwrap_or(planned)
    }

    /// Notes a replica that this thread has just appended from raw bytes, and learns from their encoding.
    pub fn note_appended(&self, device: &Device, offset: u64, encoding: Encoding, raw_bytes: usize) {
        self.planning.note_arrival(device, self.key, offset);
        if raw_bytes < MIN_STUDIED_BYTES {
            return;
        }
        let encoded = match encoding {
            Encoding::NONE => Coded { raw: raw_bytes, stored: raw_bytes, seconds: 0.0 },
            _ => with_scratch(|scratch| scratch.encoded),
        };
        self.planning.lessons.learn(&self.stream, encoding, encoded);
    }

    /// Returns a hash of the object and an extent's place in it.
    fn hash(&self, offset: u64) -> u64 {
        xxh3_64_with_seed(&offset.to_le_bytes(), self.key_hash)
    }

    /// Returns how often bytes are expected to be read.
    fn reads(&self, offset: u64, length: usize) -> f64 {
        MIN_EXPECTED_READS.max(self.planning.hotness.reads(self.key, offset, offset + length as u64))
    }

    /// Returns the expected costs of the permitted encodings.
    fn costs(&self) -> Arc<Costs> {
        let mut stream = self.stream.lock();
        match self.pinned {
            Some(pinned) => stream.pinned(pinned).clone(),
            None => stream.costs().clone(),
        }
    }

    fn plan(&self, length: usize, request: &PlanRequest<'_>) -> ExtentPlan {
        self.plan_with(length, request, &self.costs())
    }

    fn plan_with(&self, length: usize, request: &PlanRequest<'_>, costs: &Costs) -> ExtentPlan {
        self.planning.planner.plan_extent(&self.planning.tiers, length, request, costs)
    }

    /// Studies the bytes for a device, if that may pay.
    fn study(&self, offset: u64, raw: &[u8], device: &Device, weights: &Weights, reads: f64) {
        if self.pinned.is_some() || raw.len() < MIN_STUDIED_BYTES {
            return;
        }
        let tiers = &self.planning.tiers;
        let pace = self.planning.planner.pace(tiers, device);
        let rate = |device: &Device| Pace { write: device.writing.rate(), read: device.reading.rate() };
        let slowest = || tiers.devices.iter().map(rate).min_by(|a, b| a.write.total_cmp(&b.write));
        // Only rates of devices are read under the lock, and it is released before `study` takes the predictor's.
        let slowest = self.stream.lock().is_new().then(slowest).flatten();
        let aim = Aim { slowest, ..Aim::new(pace, *weights, reads, self.wanted.budget.is_some()) };
        if aim.pays() {
            self.planning.lessons.study(&self.stream, (self.key_hash, offset), raw, &aim);
        }
    }
}
