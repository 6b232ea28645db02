//! Plans per second: of the planner by itself, and in a real stream of writes.

pub mod alone;

use anyhow::Result;
use terrace::{Ack, Config, PutOptions, Store};

use crate::place::{Place, smooth_floats};
use crate::row::{Better, Row};

/// HReplica's planner plans this many tasks per second and process, for 8 K tasks (Fig. 5a).
const PAPER_TASKS_PER_SECOND: f64 = 504e3;
const BYTES_PER_MIB: usize = 1 << 20;

/// Makes a store of four tiers. The first two are small, so that writes are split and full tiers are emptied.
fn store(place: &Place, name: &str) -> Result<Store> {
    let ram = place.ram().join(name);
    let tier = |tier: &str, rest: &str| {
        format!("[[tier]]\nname = '{tier}'\nkind = 'directory'\ntargets = ['{}']\n{rest}\n", ram.join(tier).display())
    };
    let text = [
        "[store]\nreplicas = { default = 2 }\n".to_owned(),
        tier("ram", "capacity = '64MiB'\npersistent = false"),
        tier("nvme", "capacity = '192MiB'\nthrottle = { read = '2GB/s', write = '1500MB/s' }"),
        tier("burst", "throttle = { read = '1500MB/s', write = '1GB/s' }"),
        tier("pfs", "throttle = { read = '1GB/s', write = '800MB/s', latency = '1ms' }"),
    ];
    Ok(Store::init(&place.disk().join(name), &Config::parse(&text.concat(), "bench")?)?)
}

pub fn run() -> Result<Vec<Row>> {
    let mut rows = planner_alone()?;
    rows.extend(in_a_store()?);
    Ok(rows)
}

/// Measures the planner with and without its memo, with requests large enough to be split.
fn planner_alone() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (policy, name) in alone::policies().iter().zip(alone::POLICY_NAMES) {
        for kib in [4, 64, 1 << 10, 16 << 10, 64 << 10] {
            for (with_memo, goal) in [(true, 2e6), (false, 300e3)] {
                let outcome = alone::stream(kib << 10, policy, with_memo)?;
                let memo = if with_memo { "" } else { "out" };
                let row = Row::new(
                    "H3",
                    format!("planner alone, requests of {kib} KiB, with{memo} memo, {name}"),
                    outcome.rate,
                    "plans/s",
                );
                rows.push(row.beside(PAPER_TASKS_PER_SECOND, Better::Higher).goal(goal, Better::Higher).details(format!(
                    "3 replicas, 9 targets of 4 tiers, 14 encodings; {:.1} % remembered, {:.1} % split, {:.2} % not proven",
                    outcome.remembered * 100.0,
                    outcome.split * 100.0,
                    outcome.unproven * 100.0
                )));
            }
        }
    }
    Ok(rows)
}

/// Measures the share of planning in a store's puts.
fn in_a_store() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = Vec::new();
    for (length, writes) in [(4 << 10, 20_000), (64 << 10, 4_000), (BYTES_PER_MIB, 400), (64 * BYTES_PER_MIB, 6)] {
        let store = store(&place, &format!("h3-{length}"))?;
        let bytes = smooth_floats(length, 3);
        let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
        for number in 0..writes {
            store.put_bytes(format!("o/{number}.f64").as_bytes(), &bytes, &options)?;
        }
        let planned = store.planned();
        let rate = planned.requests as f64 / planned.spent.as_secs_f64();
        let remembered = planned.remembered as f64 / planned.requests.max(1) as f64;
        rows.push(
            Row::new("H3", format!("plans a second in a stream of puts of {} KiB", length >> 10), rate, "plans/s")
                .beside(PAPER_TASKS_PER_SECOND, Better::Higher)
                .goal(2e6, Better::Higher)
                .details(format!(
                    "one thread; {:.1} % of {} plans remembered; four tiers, the first two small; looking at free space and speeds included",
                    remembered * 100.0,
                    planned.requests
                )),
        );
    }
    Ok(rows)
}
