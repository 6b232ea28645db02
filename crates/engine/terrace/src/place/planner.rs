//! The planner, its memo, and the state of the store's tiers in its form.

use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use smallvec::SmallVec;
use terrace_catalog::{Replica, TargetId};
use terrace_codec::Encoding;
use terrace_cost::{ASSUMED_CORE_WATTS, Costs};
use terrace_format::frame::MAX_EXTENT_BYTES;
use terrace_plan::explain::{Explanation, explain};
use terrace_plan::plan::{Memo, NoRoom, Piece, Plan, Want, plan, plan_within_budget, replan};
use terrace_plan::policy::{Ack, Policy, Resolution};
use terrace_plan::snapshot::{PAGE_BYTES, Snapshot, Target, TargetSet, Tier, TierSet};
use terrace_predict::Pace;

use super::extent_plan::{ExtentPlan, ReplicaPlan, ReplicaPlans};
use crate::devices::{self, AssumedTimes, Device, TierList};
use crate::report::TierState;

/// Speeds and domains are read again after this time. Space, load and whether a target works are read for each request.
const TIERS_FRESH_TIME: Duration = Duration::from_millis(100);
/// A speed in the snapshot is kept while the measured one differs by at most this share.
const SPEED_TOLERANCE_SHARE: f64 = 0.2;
/// A latency in the snapshot is kept while the measured one differs by at most these seconds.
const LATENCY_TOLERANCE_SECONDS: f64 = 10e-6;

/// Plans for all threads of this process.
#[derive(Default)]
pub(crate) struct Planner {
    /// Held while a plan is computed, which does no I/O except a look at the tiers' space. No lock of streams is taken under it.
    state: Mutex<State>,
}

/// A question to the planner about some bytes.
pub(crate) struct PlanRequest<'a> {
    pub wanted: Policy,
    /// Targets that hold a replica of them, or are owed one.
    pub beside: &'a [TargetId],
    /// The number of expected reads.
    pub reads: f64,
    /// A hash of their key and place.
    pub hash: u64,
}

#[derive(Default)]
struct State {
    memo: Memo,
    tiers: Option<(Instant, Snapshot)>,
    planned: Planned,
}

/// The plans that this process has made so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Planned {
    /// The number of requests: blocks to write, pending replicas, and extents to move or to plan again.
    pub requests: u64,
    /// The number of requests that were answered from the memo.
    pub remembered: u64,
    /// The time that reading the state of the tiers and planning took.
    pub spent: Duration,
}

impl Planner {
    /// Plans the replicas of these bytes. The plan has none if no target has space.
    pub fn plan_extent(&self, tiers: &TierList, bytes: usize, request: &PlanRequest<'_>, costs: &Costs) -> ExtentPlan {
        let mut wanted = request.wanted;
        if !request.beside.is_empty() {
            (wanted.first, wanted.raw_first, wanted.budget) = (wanted.rest, false, None);
            // The limit holds for the first replica, which exists already.
            wanted.max_latency = None;
            let lasts = |id: &TargetId| tiers.device(*id).is_ok_and(|device| tiers.tier(device).persistent);
            wanted.volatile |= request.beside.iter().any(lasts);
        }
        let taken: SmallVec<[u32; 4]> =
            request.beside.iter().filter_map(|id| Some(tiers.device(*id).ok()?.domain)).collect();
        let targets = match taken[..] {
            [] => TargetSet::ALL,
            _ => set_of_targets(tiers, |device| !taken.contains(&device.domain)),
        };
        let want = Want { bytes: bytes as u64, reads: request.reads, targets, hash: Some(request.hash) };
        let placed = self.plan_now(tiers, |snapshot, memo| {
            let plan = plan_or_no_room(plan_within_budget(&want, snapshot, &wanted, costs, memo))?;
            let placed = plan_of_first_extent(plan, tiers, bytes);
            let is_slow = wanted.max_latency.is_some_and(|most| latency_of_first(&placed, tiers, snapshot) > most);
            Some(ExtentPlan { is_slow, ..placed })
        });
        placed.unwrap_or_default()
    }

    /// Returns whether no working target on these tiers, full or not, has a latency of at most `most`.
    pub fn is_out_of_reach(&self, tiers: &TierList, allowed: TierSet, most: f64) -> bool {
        let (_, targets) = describe_tiers(tiers);
        !targets.iter().any(|target| target.up && allowed.has(target.tier) && target.latency <= most)
    }

    /// Plans with the current state of the tiers, and counts the request and its time.
    fn plan_now<T>(&self, tiers: &TierList, make: impl FnOnce(&mut Snapshot, &mut Memo) -> Option<T>) -> Option<T> {
        let State { memo, tiers: held, planned } = &mut *self.state.lock();
        let (started, hits, misses) = (Instant::now(), memo.hits, memo.misses);
        let made = refresh_snapshot(held, tiers).and_then(|snapshot| make(snapshot, memo));
        let (hit, missed) = (memo.hits > hits, memo.misses > misses);
        planned.requests += u64::from(hit || missed);
        planned.remembered += u64::from(hit && !missed);
        planned.spent += started.elapsed();
        made
    }

    /// The bytes per second at which the planner expects a device to be written and read. On a filling device this includes the
    /// cost of displacing other bytes.
    pub fn pace(&self, tiers: &TierList, device: &Device) -> Pace {
        let at = tiers.position(device.id);
        let State { tiers: held, .. } = &mut *self.state.lock();
        // No plan was made since, so the speeds are current.
        let is_fresh = held.as_ref().is_some_and(|(made, _)| made.elapsed() < TIERS_FRESH_TIME);
        let snapshot =
            if is_fresh { held.as_mut().map(|(_, snapshot)| snapshot) } else { refresh_snapshot(held, tiers) };
        let rates = snapshot.and_then(|snapshot| snapshot.rates().get(at?).copied());
        rates.map_or_else(
            || Pace { write: device.writing.rate(), read: device.reading.rate() },
            |rates| Pace {
                write: 1.0 / (rates.write + rates.displaced_write),
                read: 1.0 / (rates.read + rates.displaced_read),
            },
        )
    }

    /// Returns the number of plans so far.
    pub fn planned(&self) -> Planned {
        self.state.lock().planned
    }

    /// Plans the replicas of `length` bytes that are partly stored already. With `stay`, they keep their targets. Returns
    /// none if there is no such plan, or only one that divides the bytes.
    pub fn replan(
        &self,
        tiers: &TierList,
        bytes: usize,
        request: &PlanRequest<'_>,
        costs: &Costs,
        stored: &[Replica],
        stay: bool,
    ) -> ReplicaPlans {
        let holds = |device: &Device| stored.iter().any(|replica| replica.target == device.id);
        let targets = if stay { set_of_targets(tiers, holds) } else { TargetSet::ALL };
        let want = Want { bytes: bytes as u64, reads: request.reads, targets, hash: Some(request.hash) };
        let pages = (bytes as u64).div_ceil(PAGE_BYTES) as u32;
        let piece = |replica: &Replica| {
            let target = tiers.position(replica.target)? as u16;
            Some(Piece { start: 0, pages, target, encoding: replica.encoding, stored: replica.stored.into() })
        };
        let present: Vec<Piece> = stored.iter().filter_map(piece).collect();
        let planned = self.plan_now(tiers, |snapshot, memo| {
            let plan = plan_or_no_room(replan(&want, &present, snapshot, &request.wanted, costs, memo))?;
            Some(plan_of_first_extent(plan, tiers, bytes)).filter(|planned| planned.length == bytes)
        });
        planned.unwrap_or_default().replicas
    }

    /// Returns the current state of the tiers.
    pub fn tiers(&self, tiers: &TierList) -> Option<Snapshot> {
        let (levels, targets) = describe_tiers(tiers);
        snapshot_of(tiers, levels, targets)
    }

    /// Explains the plan for `length` bytes on these tiers.
    pub fn explain(
        &self,
        snapshot: &Snapshot,
        bytes: u64,
        request: &PlanRequest<'_>,
        costs: &Costs,
        resolutions: &[Resolution],
    ) -> Explanation {
        let State { memo, .. } = &mut *self.state.lock(); // see the field
        let want = Want { reads: request.reads, hash: Some(request.hash), ..Want::bytes(bytes) };
        // Without a plan the explanation says why there is none.
        let plan = plan_or_no_room(plan(&want, snapshot, &request.wanted, costs, memo));
        explain(&want, snapshot, &request.wanted, costs, resolutions, plan)
    }

    /// Chooses the encoding of a replica of `length` bytes, as if this device were the only one.
    pub fn encoding(
        &self,
        tiers: &TierList,
        device: &Device,
        bytes: usize,
        reads: f64,
        wanted: Policy,
        costs: &Costs,
    ) -> Encoding {
        let targets = set_of_targets(tiers, |other| other.id == device.id);
        let want = Want { reads, targets, ..Want::bytes(bytes as u64) };
        let (all, ack, max_latency) = (TierSet::ALL, Ack::Placed, None);
        let wanted = Policy { replicas: 1, volatile: true, persistent: false, tiers: all, ack, max_latency, ..wanted };
        let planned = self.plan_now(tiers, |snapshot, memo| {
            // Its space was reserved when it was chosen. The next plan measures the space again.
            (0..snapshot.targets().len()).for_each(|at| snapshot.set_space(at, u64::MAX, 0));
            let plan = plan_or_no_room(plan_within_budget(&want, snapshot, &wanted, costs, memo))?;
            Some(plan.replicas.first()?.first()?.encoding)
        });
        planned.unwrap_or(Encoding::NONE)
    }
}

/// Returns the snapshot of the tiers, after an update.
fn refresh_snapshot<'a>(held: &'a mut Option<(Instant, Snapshot)>, tiers: &TierList) -> Option<&'a mut Snapshot> {
    let old = held.as_ref().is_none_or(|(made, snapshot)| {
        let up = snapshot.targets().iter().map(|target| target.up);
        made.elapsed() > TIERS_FRESH_TIME || !up.eq(tiers.devices.iter().map(|device| device.state() == TierState::Ok))
    });
    if old {
        let (levels, mut targets) = describe_tiers(tiers);
        if let Some((_, before)) = held {
            targets.iter_mut().zip(before.targets()).for_each(|(now, before)| keep_similar_speeds(now, before));
        }
        *held = snapshot_of(tiers, levels, targets).map(|snapshot| (Instant::now(), snapshot));
    } else if let Some((_, snapshot)) = held {
        for (at, device) in tiers.devices.iter().enumerate() {
            snapshot.set_space(at, device.free(), 0);
            snapshot.set_load(at, device.load());
        }
        snapshot.set_filled(filled(tiers));
    }
    held.as_mut().map(|(_, snapshot)| snapshot)
}

/// Keeps the old speeds of a target if they differ little from the new ones, because each change makes the memo useless.
fn keep_similar_speeds(now: &mut Target, before: &Target) {
    let keep = |now: &mut f64, before: f64, hardly: f64| {
        if (*now - before).abs() <= hardly.max(SPEED_TOLERANCE_SHARE * before) {
            *now = before;
        }
    };
    keep(&mut now.read, before.read, 0.0);
    keep(&mut now.write, before.write, 0.0);
    keep(&mut now.latency, before.latency, LATENCY_TOLERANCE_SECONDS);
}

/// Returns the set of targets that these devices are.
fn set_of_targets(tiers: &TierList, usable: impl Fn(&Device) -> bool) -> TargetSet {
    TargetSet::of(tiers.devices.iter().enumerate().filter(|(_, device)| usable(device)).map(|(at, _)| at))
}

/// Returns the plan, or none if there is no room, which is the only error of the planner: callers then make replicas pending.
fn plan_or_no_room(plan: Result<&Plan, NoRoom>) -> Option<&Plan> {
    #[allow(clippy::manual_ok_err, reason = "another error of the planner must not read as this one")]
    match plan {
        Ok(plan) => Some(plan),
        Err(NoRoom) => None,
    }
}

/// Converts tiers and targets for the planner. None if it does not accept them, which cannot happen with a checked
/// configuration. Since writes then fail as if no target had room, the log says why.
pub(crate) fn snapshot_of(tiers: &TierList, levels: Vec<Tier>, targets: Vec<Target>) -> Option<Snapshot> {
    let snapshot = Snapshot::new(levels, targets, ASSUMED_CORE_WATTS);
    let snapshot = snapshot.inspect_err(|error| tracing::error!(%error, "the planner does not accept the state of the tiers, so it finds no room; report this fault"));
    Some(snapshot.ok()?.filled(filled(tiers)))
}

/// Returns the used share of each tier, from 0 to 1. Each tier has targets.
fn filled(tiers: &TierList) -> impl Iterator<Item = f64> + '_ {
    tiers.devices.chunk_by(|a, b| a.tier == b.tier).map(|devices| {
        let (taken, all) = devices.iter().fold((0.0, 0.0), |(taken, all), device| {
            let used = device.filled() as f64;
            (taken + used, all + used + device.free() as f64)
        });
        taken / f64::max(all, 1.0)
    })
}

/// Describes the tiers and targets as plain data. Tiers are listed fastest first, and this order stands: a target that was
/// measured to be faster than one of an earlier tier counts as equally fast, because its first writes may have gone to
/// memory.
pub(crate) fn describe_tiers(tiers: &TierList) -> (Vec<Tier>, Vec<Target>) {
    let levels =
        tiers.tiers.iter().map(|tier| Tier { name: tier.name.clone(), persistent: tier.persistent, watts: tier.watts });
    let mut targets: Vec<Target> = Vec::with_capacity(tiers.devices.len());
    for peers in tiers.devices.chunk_by(|a, b| a.tier == b.tier) {
        let limit = |of: fn(&Target) -> f64| targets.iter().map(of).fold(f64::INFINITY, f64::min);
        let (most_read, most_write) = (limit(|target| target.read), limit(|target| target.write));
        let least_latency = targets.iter().map(|target| target.latency).fold(0.0, f64::max);
        let (long, short) = (MAX_EXTENT_BYTES as usize, 0);
        let read = |device: &Device| 1.0 / device.reading.rate();
        let write = |device: &Device| 1.0 / device.writing.rate();
        let latency = |device: &Device| device.writing.latency();
        let mut reads = AssumedTimes::new(peers, read, |device| device.reading.link_time(long), 0.0);
        let mut writes = AssumedTimes::new(peers, write, |device| device.writing.link_time(long), 0.0);
        let link = |device: &Device| device.writing.link_time(short);
        let mut latencies = AssumedTimes::new(peers, latency, link, devices::MAX_QUEUE_SECONDS);
        for device in peers {
            targets.push(Target {
                tier: device.tier as u8,
                domain: device.domain,
                read: (1.0 / reads.seconds(device)).min(most_read),
                write: (1.0 / writes.seconds(device)).min(most_write),
                latency: latencies.seconds(device).max(least_latency),
                free: device.free(),
                reserved: 0,
                load: device.load(),
                lanes: Device::DEVICE_LANES,
                plain: tiers.tier(device).plain,
                near: device.is_near,
                up: device.state() == TierState::Ok,
            });
        }
    }
    (levels.collect(), targets)
}

/// Returns the latency, in seconds, of the target of a plan's first replica.
fn latency_of_first(placed: &ExtentPlan, tiers: &TierList, snapshot: &Snapshot) -> f64 {
    let first = placed.replicas.first().map(|first| first.target);
    let at = first.and_then(|first| tiers.position(first));
    at.and_then(|at| snapshot.targets().get(at)).map_or(0.0, |target| target.latency)
}

/// Returns the first extent of a plan.
fn plan_of_first_extent(plan: &Plan, tiers: &TierList, bytes: usize) -> ExtentPlan {
    let pieces = || plan.replicas.iter().filter_map(|pieces| pieces.first());
    let pages = pieces().map(|piece| piece.pages).min().unwrap_or(0);
    let placed = |(target, encoding): (u16, Encoding)| {
        Some(ReplicaPlan { target: tiers.devices.get(usize::from(target))?.id, encoding })
    };
    let replicas = pieces().filter_map(|piece| placed((piece.target, piece.encoding))).collect();
    ExtentPlan { length: bytes.min((u64::from(pages) * PAGE_BYTES) as usize), replicas, is_slow: false }
}
