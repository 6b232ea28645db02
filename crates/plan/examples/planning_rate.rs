//! How many requests a core plans in a second: a stream of writes into tiers that fill and are emptied, with the memo
//! and without, for requests of 4 KiB to 64 MiB.

use std::time::Instant;

use terrace_codec::ALL;
use terrace_plan::cost::{Costs, Expected};
use terrace_plan::plan::{Memo, Want, plan};
use terrace_plan::policy::{Ack, Policy, Weights};
use terrace_plan::snapshot::{Snapshot, Target, Tier};

const MIB: u64 = 1 << 20;

/// Name, whether it lasts, watts, targets, bytes read and written per second, latency, MiB of each target.
type Level = (&'static str, bool, f64, u32, f64, f64, f64, u64);

const LEVELS: [Level; 4] = [
    ("ram", false, 5.0, 1, 500e6, 500e6, 1e-6, 192),
    ("nvme", true, 8.0, 2, 120e6, 60e6, 1e-4, 1024),
    ("burst", true, 12.0, 2, 3.1e6, 3.1e6, 1e-3, 4096),
    ("pfs", true, 20.0, 4, 1e6, 1e6, 8e-3, 1 << 24),
];

fn storage() -> Snapshot {
    let tiers = LEVELS.map(|(name, persistent, watts, ..)| Tier { name: name.into(), persistent, watts });
    let mut targets = Vec::new();
    for (tier, (_, _, _, count, read, write, latency, mib)) in (0u8..).zip(LEVELS) {
        for _ in 0..count {
            let (domain, free) = (targets.len() as u32, mib * MIB);
            let (reserved, load, lanes, plain, up) = (0, 0.0, 4, false, true);
            targets.push(Target { tier, domain, read, write, latency, free, reserved, load, lanes, plain, up });
        }
    }
    Snapshot::new(tiers.to_vec(), targets, 4.0).expect("a snapshot")
}

/// The encodings as kinds of data would have them: the denser, the slower.
fn kinds() -> Vec<Costs> {
    let of = |kind: usize| {
        let speed = |i: usize| 2.5e9 * 0.72f64.powi(i as i32) * (1.0 + 0.1 * kind as f64);
        let ratio = |i: usize| 1.0 + (0.12 * kind as f64 + 0.05) * i as f64;
        let expected = |i| Expected { compress: speed(i), decompress: 2.0 * speed(i), ratio: ratio(i) };
        Costs::new(ALL[1..].iter().take(14).copied().enumerate().map(|(i, encoding)| (encoding, expected(i))))
    };
    (0..6).map(of).collect()
}

struct Outcome {
    per_second: f64,
    hit_rate: f64,
    split: f64,
    unproven: f64,
}

fn stream(bytes: u64, policy: &Policy, mut memo: Memo, requests: u64) -> Outcome {
    let (mut snapshot, kinds) = (storage(), kinds());
    let full: Vec<u64> = snapshot.targets().iter().map(|target| target.free).collect();
    let (mut split, mut unproven, mut spent) = (0u64, 0u64, 0.0);
    for request in 0..requests {
        let costs = &kinds[(request / 64) as usize % kinds.len()];
        let start = Instant::now();
        let planned = plan(&Want::bytes(bytes), &snapshot, policy, costs, &mut memo);
        spent += start.elapsed().as_secs_f64();
        let planned = planned.expect("room");
        split += u64::from(planned.replicas.iter().any(|pieces| pieces.len() > 1));
        unproven += u64::from(!planned.proven);
        for piece in planned.replicas.iter().flatten() {
            let target = usize::from(piece.target);
            let free = snapshot.targets()[target].free.saturating_sub(piece.stored);
            // The mover empties what is almost full.
            snapshot.set_space(target, if free < full[target] / 50 { full[target] / 3 } else { free }, 0);
        }
    }
    Outcome {
        per_second: requests as f64 / spent,
        hit_rate: memo.hit_rate(),
        split: split as f64 / requests as f64,
        unproven: unproven as f64 / requests as f64,
    }
}

fn main() {
    let archival = Policy { first: Weights::ARCHIVAL, rest: Weights::ARCHIVAL, ..Policy::default() };
    let synchronous = Policy { ack: Ack::Replicated, ..Policy::default() };
    for (name, policy) in [("default", Policy::default()), ("archival", archival), ("sync", synchronous)] {
        println!("{name}: bytes, plans/s with memo, hit rate, split, unproven; without");
        for bytes in [4 << 10, 64 << 10, MIB, 4 * MIB, 16 * MIB, 64 * MIB] {
            let with = stream(bytes, &policy, Memo::new(4096), 200_000);
            let without = stream(bytes, &policy, Memo::new(0), 3_000);
            println!(
                "{bytes:>10} {:>10.0} {:.4} {:.3} {:.4}; {:>10.0} split {:.3} unproven {:.4}",
                with.per_second,
                with.hit_rate,
                with.split,
                with.unproven,
                without.per_second,
                without.split,
                without.unproven
            );
        }
    }
}
