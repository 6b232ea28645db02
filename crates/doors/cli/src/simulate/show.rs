//! Formats the comparison of policies for people and for scripts.

use serde_json::{Value, json};
use terrace_simulate::Outcome;

use super::Compared;
use crate::output::{self, size};

pub fn table(tiers: &[&str], compared: &[Compared]) -> String {
    let phases = compared.first().map_or(&[][..], |first| &first.phases);
    let mut head = vec!["policy".to_owned()];
    head.extend(phases.iter().map(|phase| format!("{phase}, s")));
    head.extend(["settled, s", "replicas", "stored"].map(str::to_owned));
    head.extend(tiers.iter().map(|tier| format!("in {tier}")));
    head.extend(["cost", "energy, kJ"].map(str::to_owned));
    let mut rows = output::table(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for Compared { name, outcome, .. } in compared {
        let mut row = vec![name.clone()];
        row.extend(outcome.phases.iter().map(|phase| seconds(phase.seconds)));
        row.push(seconds(outcome.phases.first().map_or(0.0, |phase| phase.settled)));
        row.push(format!("{:.2}", outcome.replicas));
        row.push(format!("{:.2}x", outcome.stored() / outcome.raw.max(1.0)));
        row.extend((0..tiers.len()).map(|tier| filled(outcome, tier)));
        row.extend([format!("{:.2}", outcome.cost), format!("{:.1}", outcome.joules / 1e3)]);
        rows.add_row(row);
    }
    let written = compared.first().map_or(0.0, |first| first.outcome.raw);
    let mut text = format!("{rows}\n{} written; times are those that the slowest process waits", size(written as u64));
    for Compared { name, notes, .. } in compared {
        text.extend(notes.iter().map(|note| format!("\n{name}: {note}")));
    }
    text
}

/// Formats the bytes in a tier and the used fraction.
fn filled(outcome: &Outcome, tier: usize) -> String {
    let stored = outcome.tiers[tier];
    match outcome.capacities[tier] {
        Some(capacity) => format!("{} ({:.0} %)", size(stored), 100.0 * stored as f64 / capacity.max(1) as f64),
        None => size(stored),
    }
}

fn seconds(seconds: f64) -> String {
    match seconds {
        s if s >= 100.0 => format!("{s:.0}"),
        s if s >= 1.0 => format!("{s:.2}"),
        s => format!("{s:.4}"),
    }
}

pub fn json(tiers: &[&str], compared: &[Compared]) -> Value {
    let policies = compared.iter().map(|Compared { name, phases, outcome, notes }| {
        let phases = phases.iter().zip(&outcome.phases).map(|(phase, came)| {
            json!({"phase": phase, "seconds": came.seconds, "elapsed": came.elapsed, "settled": came.settled})
        });
        let tier = |(at, name): (usize, &&str)| {
            json!({"tier": name, "stored": outcome.tiers[at], "capacity": outcome.capacities[at]})
        };
        json!({
            "policy": name,
            "phases": phases.collect::<Vec<_>>(),
            "written": outcome.raw as u64,
            "replicas": outcome.replicas,
            "tiers": tiers.iter().enumerate().map(tier).collect::<Vec<_>>(),
            "cost": outcome.cost,
            "joules": outcome.joules,
            "notes": notes,
            "events": outcome.events,
        })
    });
    json!({"policies": policies.collect::<Vec<_>>()})
}
