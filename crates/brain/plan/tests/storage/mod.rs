//! Synthetic storage for the tests.
#![allow(dead_code, reason = "not every test needs all of it")]

use terrace_cost::Expected;
use terrace_plan::plan::Plan;
use terrace_plan::policy::{Ask, Policy, Replicas, resolve};
use terrace_plan::snapshot::{Snapshot, Target, Tier};

pub const BYTES_PER_MIB: u64 = 1 << 20;

/// A tier's name, whether it survives a reboot, the number of targets, bytes per second, seconds before the first byte,
/// MiB of each target.
pub type Level = (&'static str, bool, u32, f64, f64, u64);

/// Makes tiers whose targets are separate failure domains, and read as fast as they write.
pub fn tiers(levels: &[Level]) -> (Vec<Tier>, Vec<Target>) {
    let mut targets = Vec::new();
    for (tier, &(_, _, count, speed, latency, mib)) in (0u8..).zip(levels) {
        for _ in 0..count {
            targets.push(Target {
                tier,
                domain: targets.len() as u32,
                read: speed,
                write: speed,
                latency,
                free: mib * BYTES_PER_MIB,
                reserved: 0,
                load: 0.0,
                lanes: 4,
                plain: false,
                near: false,
                up: true,
            });
        }
    }
    let tier = |&(name, persistent, ..): &Level| Tier { name: name.into(), persistent, watts: 10.0 };
    (levels.iter().map(tier).collect(), targets)
}

pub fn storage(levels: &[Level]) -> Snapshot {
    let (tiers, targets) = tiers(levels);
    Snapshot::new(tiers, targets, 5.0).expect("a snapshot")
}

pub fn expected(compress: f64, decompress: f64, ratio: f64) -> Expected {
    Expected::from_speeds(compress, decompress, ratio)
}

/// Returns the policy for an operation's requirements.
pub fn policy(requirements: &[&str], ask: Ask, range: Replicas) -> Policy {
    let requirements = requirements.iter().map(|name| name.parse().expect("a requirement")).collect();
    resolve(&Ask { requirements, ..ask }, &Ask::default(), &Ask::default(), range).0
}

/// Returns the targets of each replica.
pub fn targets(plan: &Plan) -> Vec<Vec<u16>> {
    plan.replicas.iter().map(|pieces| pieces.iter().map(|piece| piece.target).collect()).collect()
}
