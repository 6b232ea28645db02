//! The planner by itself: a stream of writes into tiers that fill up and are emptied.

use anyhow::{Context, Result};
use terrace_codec::ALL_ENCODINGS;
use terrace_cost::Weights;
use terrace_cost::{Costs, Expected};
use terrace_plan::plan::{Memo, Want, plan};
use terrace_plan::policy::{Ack, Policy};
use terrace_plan::snapshot::{Snapshot, Target, Tier};
use terrace_system::clock::thread_seconds;

use crate::timing::median;

const BYTES_PER_MIB: u64 = 1 << 20;
/// A stream is timed in this many parts.
const TIMED_PARTS: u64 = 10;

/// A tier's name, persistence, watts, number of targets, bytes read and written per second, latency, and MiB of each
/// target.
type Level = (&'static str, bool, f64, u32, f64, f64, f64, u64);

const TIER_LEVELS: [Level; 4] = [
    ("ram", false, 5.0, 1, 500e6, 500e6, 1e-6, 192),
    ("nvme", true, 8.0, 2, 120e6, 60e6, 1e-4, 1024),
    ("burst", true, 12.0, 2, 3.1e6, 3.1e6, 1e-3, 4096),
    ("pfs", true, 20.0, 4, 1e6, 1e6, 8e-3, 1 << 24),
];

fn storage() -> Result<Snapshot> {
    let tiers = TIER_LEVELS.map(|(name, persistent, watts, ..)| Tier { name: name.into(), persistent, watts });
    let mut targets = Vec::new();
    for (tier, (_, _, _, count, read, write, latency, mib)) in (0u8..).zip(TIER_LEVELS) {
        for _ in 0..count {
            let (domain, free) = (targets.len() as u32, mib * BYTES_PER_MIB);
            let (reserved, load, lanes, plain, near, up) = (0, 0.0, 4, false, false, true);
            targets.push(Target { tier, domain, read, write, latency, free, reserved, load, lanes, plain, near, up });
        }
    }
    Ok(Snapshot::new(tiers.to_vec(), targets, 4.0)?)
}

/// Makes the costs of encodings for several kinds of data: denser encodings are slower.
fn kinds() -> Vec<Costs> {
    let of = |kind: usize| {
        let speed = |i: usize| 2.5e9 * 0.72f64.powi(i as i32) * (1.0 + 0.1 * kind as f64);
        let ratio = |i: usize| 1.0 + (0.12 * kind as f64 + 0.05) * i as f64;
        let expected = |i| Expected::from_speeds(speed(i), 2.0 * speed(i), ratio(i));
        Costs::new(ALL_ENCODINGS[1..].iter().take(14).copied().enumerate().map(|(i, encoding)| (encoding, expected(i))))
    };
    (0..6).map(of).collect()
}

/// The result of planning a stream.
pub struct Outcome {
    /// Plans per second of thread time, including the bookkeeping of their space: the median of the parts of the
    /// stream.
    pub rate: f64,
    /// The shares of requests whose plan was remembered, split, and not proven to be the cheapest.
    pub remembered: f64,
    pub split: f64,
    pub unproven: f64,
}

/// The names of the policies.
pub const POLICY_NAMES: [&str; 3] = ["default", "archival", "all replicas waited for"];

/// Makes the policies.
pub fn policies() -> [Policy; 3] {
    let archival = Policy { first: Weights::ARCHIVAL, rest: Weights::ARCHIVAL, ..Policy::default() };
    [Policy::default(), archival, Policy { ack: Ack::Replicated, ..Policy::default() }]
}

/// Plans a stream of requests of `bytes` bytes each.
pub fn stream(bytes: u64, policy: &Policy, with_memo: bool) -> Result<Outcome> {
    let (mut memo, requests) = if with_memo { (Memo::new(4096), 200_000) } else { (Memo::new(0), 4_000) };
    let (mut snapshot, kinds) = (storage()?, kinds());
    let full: Vec<u64> = snapshot.targets().iter().map(|target| target.free).collect();
    let (mut split, mut unproven, mut rates) = (0u64, 0u64, Vec::new());
    for part in 0..TIMED_PARTS {
        let start = thread_seconds();
        for request in 0..requests / TIMED_PARTS {
            let costs = &kinds[((part * requests / TIMED_PARTS + request) / 64) as usize % kinds.len()];
            let planned = plan(&Want::bytes(bytes), &snapshot, policy, costs, &mut memo).context("no room")?;
            split += u64::from(planned.replicas.iter().any(|pieces| pieces.len() > 1));
            unproven += u64::from(!planned.proven);
            for piece in planned.replicas.iter().flatten() {
                let target = usize::from(piece.target);
                let free = snapshot.targets()[target].free.saturating_sub(piece.stored);
                // This stands for the mover, which empties a target that is almost full.
                snapshot.set_space(target, if free < full[target] / 50 { full[target] / 3 } else { free }, 0);
            }
        }
        rates.push((requests / TIMED_PARTS) as f64 / (thread_seconds() - start));
    }
    let share = |count: u64| count as f64 / requests as f64;
    let remembered = memo.hit_rate();
    Ok(Outcome { rate: median(rates), remembered, split: share(split), unproven: share(unproven) })
}
