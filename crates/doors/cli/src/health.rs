//! `terrace health`: how safe the data is.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, ValueEnum};
use terrace::report::HealthState;
use terrace::{Store, report};
use terrace_datasets::Datasets;

use crate::output::{Show, table};

/// The exit code if the data is not safe.
const NOT_SAFE: u8 = 1;
/// The exit code if the store only needs time.
const STILL_WORKING: u8 = 3;
/// How often the health is looked at while waiting.
const WAIT_POLL_INTERVAL: Duration = Duration::from_millis(200);

#[derive(Args)]
pub struct Health {
    /// Wait while the store only needs time.
    #[arg(long, value_name = "STATE")]
    wait: Option<Awaited>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Awaited {
    /// All data has the replicas and the durability that it should have.
    Safe,
}

fn read_health(store: &Store) -> Result<report::Health> {
    let mut health = store.health()?;
    health.add(Datasets::new(store).findings());
    Ok(health)
}

/// Prints the health. Returns the exit code.
pub fn health(store: &Store, wanted: &Health, show: Show) -> Result<u8> {
    let mut health = read_health(store)?;
    if wanted.wait.is_some() {
        store.work_in_background();
        while health.health == HealthState::Working {
            thread::sleep(WAIT_POLL_INTERVAL);
            health = read_health(store)?;
        }
    }
    let mut words = health.health.to_string();
    if !health.findings.is_empty() {
        let mut rows = table(&["finding", "", "what to do"]);
        for finding in &health.findings {
            rows.add_row([finding.code.to_string(), finding.message.clone(), finding.advice.to_owned()]);
        }
        words.push_str(&format!("\n{rows}"));
    }
    show.result(&health, &words)?;
    Ok(match health.health {
        HealthState::Safe => 0,
        HealthState::Working => STILL_WORKING,
        HealthState::Warning | HealthState::Damaged => NOT_SAFE,
    })
}
