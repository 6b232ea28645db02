//! The planner alone: a stream of writes into tiers that fill and are emptied.

use anyhow::{Context, Result};
use terrace_codec::ALL;
use terrace_cost::Weights;
use terrace_cost::{Costs, Expected};
use terrace_plan::plan::{Memo, Want, plan};
use terrace_plan::policy::{Ack, Policy};
use terrace_plan::snapshot::{Snapshot, Target, Tier};
use terrace_system::clock::thread_seconds;

use crate::timing::median;

const MIB: u64 = 1 << 20;
/// Parts that a stream is timed in.
const PARTS: u64 = 10;

/// Name, whether it lasts, watts, targets, bytes read and written per second, latency, MiB of each target.
type Level = (&'static str, bool, f64, u32, f64, f64, f64, u64);

const LEVELS: [Level; 4] = [
    ("ram", false, 5.0, 1, 500e6, 500e6, 1e-6, 192),
    ("nvme", true, 8.0, 2, 120e6, 60e6, 1e-4, 1024),
    ("burst", true, 12.0, 2, 3.1e6, 3.1e6, 1e-3, 4096),
    ("pfs", true, 20.0, 4, 1e6, 1e6, 8e-3, 1 << 24),
];

fn storage() -> Result<Snapshot> {
    let tiers = LEVELS.map(|(name, persistent, watts, ..)| Tier { name: name.into(), persistent, watts });
    let mut targets = Vec::new();
    for (tier, (_, _, _, count, read, write, latency, mib)) in (0u8..).zip(LEVELS) {
        for _ in 0..count {
            let (domain, free) = (targets.len() as u32, mib * MIB);
            let (reserved, load, lanes, plain, up) = (0, 0.0, 4, false, true);
            targets.push(Target { tier, domain, read, write, latency, free, reserved, load, lanes, plain, up });
        }
    }
    Ok(Snapshot::new(tiers.to_vec(), targets, 4.0)?)
}

/// The encodings as kinds of data would have them: the denser, the slower.
fn kinds() -> Vec<Costs> {
    let of = |kind: usize| {
        let speed = |i: usize| 2.5e9 * 0.72f64.powi(i as i32) * (1.0 + 0.1 * kind as f64);
        let ratio = |i: usize| 1.0 + (0.12 * kind as f64 + 0.05) * i as f64;
        let expected = |i| Expected::from_speeds(speed(i), 2.0 * speed(i), ratio(i));
        Costs::new(ALL[1..].iter().take(14).copied().enumerate().map(|(i, encoding)| (encoding, expected(i))))
    };
    (0..6).map(of).collect()
}

/// How a stream was planned.
pub struct Outcome {
    /// Plans in a second of thread time, taking their space included: the middle of ten parts of the stream.
    pub rate: f64,
    /// Shares of the requests that were remembered, split, and not proven to be the cheapest.
    pub remembered: f64,
    pub split: f64,
    pub unproven: f64,
}

/// How policies are called.
pub const POLICIES: [&str; 3] = ["default", "archival", "all replicas waited for"];

/// The policies.
pub fn policies() -> [Policy; 3] {
    let archival = Policy { first: Weights::ARCHIVAL, rest: Weights::ARCHIVAL, ..Policy::default() };
    [Policy::default(), archival, Policy { ack: Ack::Replicated, ..Policy::default() }]
}

/// Plans requests of so many bytes, with a memo or without.
pub fn stream(bytes: u64, policy: &Policy, with_memo: bool) -> Result<Outcome> {
    let (mut memo, requests) = if with_memo { (Memo::new(4096), 200_000) } else { (Memo::new(0), 4_000) };
    let (mut snapshot, kinds) = (storage()?, kinds());
    let full: Vec<u64> = snapshot.targets().iter().map(|target| target.free).collect();
    let (mut split, mut unproven, mut rates) = (0u64, 0u64, Vec::new());
    for part in 0..PARTS {
        let start = thread_seconds();
        for request in 0..requests / PARTS {
            let costs = &kinds[((part * requests / PARTS + request) / 64) as usize % kinds.len()];
            let planned = plan(&Want::bytes(bytes), &snapshot, policy, costs, &mut memo).context("no room")?;
            split += u64::from(planned.replicas.iter().any(|pieces| pieces.len() > 1));
            unproven += u64::from(!planned.proven);
            for piece in planned.replicas.iter().flatten() {
                let target = usize::from(piece.target);
                let free = snapshot.targets()[target].free.saturating_sub(piece.stored);
                // The mover empties what is almost full.
                snapshot.set_space(target, if free < full[target] / 50 { full[target] / 3 } else { free }, 0);
            }
        }
        rates.push((requests / PARTS) as f64 / (thread_seconds() - start));
    }
    let share = |count: u64| count as f64 / requests as f64;
    let remembered = memo.hit_rate();
    Ok(Outcome { rate: median(rates), remembered, split: share(split), unproven: share(unproven) })
}
