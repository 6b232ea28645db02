//! Claim C2 (HCompress Fig. 4a): how many tasks the planner plans per second in one process.

use anyhow::Result;

use super::h3::alone;
use crate::row::{Better, Row};

/// HCompress's planner makes this many plans per second and process: 2.44 billion by 2,560 processes.
const PAPER_PLANS_PER_SECOND: f64 = 953e3;
/// The size of a task in the paper.
const TASK_BYTES: u64 = 1 << 20;

pub fn run() -> Result<Vec<Row>> {
    let [policy, ..] = alone::policies();
    let row = |what: &str, with_memo, goal| -> Result<Row> {
        let outcome = alone::stream(TASK_BYTES, &policy, with_memo)?;
        let row = Row::new("C2", format!("tasks of 1 MiB planned in a second, {what} memo"), outcome.rate, "plans/s");
        Ok(row.beside(PAPER_PLANS_PER_SECOND, Better::Higher).goal(goal, Better::Higher).details(format!(
            "one thread; 3 replicas, where the paper plans one; {:.1} % remembered",
            outcome.remembered * 100.0
        )))
    };
    Ok(vec![row("with", true, 2e6)?, row("without", false, 300e3)?])
}
