//! The metrics of a store in the text format of Prometheus (OpenMetrics). No label names a key.

use std::fmt;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use terrace::report::{HealthState, TierState};

use crate::report::Report;

/// The content type of the text.
pub const METRICS_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

type Number = Gauge<f64, AtomicU64>;
type Labelled = Family<Vec<(&'static str, String)>, Number>;

/// Writes the metrics of a report.
pub fn text(report: &Report) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("terrace");
    let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
    registry.register("build", "Version of the node", version);
    let mut single = |name: &str, help: &str, value: f64| {
        let number = Number::default();
        number.set(value);
        registry.register(name, help, number);
    };
    let (last, durable) = report.commits;
    single("objects", "Objects in the store", report.status.objects as f64);
    single("owed_replicas", "Pending replicas", report.status.owed as f64);
    single("commits", "Sequence of the last commit", last as f64);
    single("durable_commits", "Sequence of the last commit that a power cut cannot undo", durable as f64);
    if let Some(scrub) = &report.health.last_scrub {
        single("scrub_finished_seconds", "When the last whole scrub ended, since 1970", scrub.finished as f64);
        single("scrub_checked_replicas", "Replicas that the last whole scrub verified", scrub.found.checked as f64);
        single("scrub_bad_replicas", "Bad replicas that it found", scrub.found.bad as f64);
        single("scrub_repaired_replicas", "Bad replicas that it replaced", scrub.found.repaired as f64);
        single("scrub_one_copy_extents", "Extents with one replica that are to have more", scrub.found.one_copy as f64);
        let miscounted = scrub.found.miscounted as f64;
        single("scrub_miscounted_frames", "Shared frames with a wrong number of owners", miscounted);
        single("scrub_lost_extents", "Extents without a good replica that it found", scrub.found.lost as f64);
    }
    health(&mut registry, report);
    tiers(&mut registry, report);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// Adds the health: each state as 1 or 0, and one metric for each finding.
fn health(registry: &mut Registry, report: &Report) {
    let states = Labelled::default();
    for state in [HealthState::Safe, HealthState::Working, HealthState::Warning, HealthState::Damaged] {
        let label = vec![("state", state.to_string())];
        states.get_or_create(&label).set(f64::from(u8::from(state == report.health.health)));
    }
    registry.register("health", "1 for the state of the store's data, 0 for the other states", states);
    let findings = Labelled::default();
    for finding in &report.health.findings {
        findings.get_or_create(&vec![("code", finding.code.to_string())]).set(1.0);
    }
    registry.register("finding", "1 for each finding of `terrace health`", findings);
}

fn tiers(registry: &mut Registry, report: &Report) {
    let [used, capacity, queue, states] = std::array::from_fn(|_| Labelled::default());
    for tier in &report.status.tiers {
        let label = vec![("tier", tier.name.clone())];
        used.get_or_create(&label).set(tier.used as f64);
        let limit = if tier.capacity == u64::MAX { f64::INFINITY } else { tier.capacity as f64 };
        capacity.get_or_create(&label).set(limit);
        queue.get_or_create(&label).set(tier.queue as f64);
        for state in [TierState::Ok, TierState::Full, TierState::ReadOnly, TierState::Away] {
            let mut label = label.clone();
            label.push(("state", format!("{state:?}").to_lowercase()));
            states.get_or_create(&label).set(f64::from(u8::from(state == tier.state)));
        }
    }
    registry.register("tier_used_bytes", "Allocated bytes on all targets of the tier", used);
    registry.register("tier_capacity_bytes", "The most that its targets may hold", capacity);
    registry.register("tier_owed_replicas", "Replicas that are pending on the tier", queue);
    registry.register("tier_state", "1 for the state of the tier, 0 for the other states", states);
}
