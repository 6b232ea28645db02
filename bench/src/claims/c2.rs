//! Claim C2 (HCompress Fig. 4a): the planner's tasks a second, for one process.

use anyhow::Result;

use super::h3::alone;
use crate::row::{Better, Row};

/// What HCompress's planner makes in a second: 2.44 billion by 2,560 processes.
const PAPER: f64 = 953e3;
/// Bytes of a task there.
const TASK: u64 = 1 << 20;

pub fn run() -> Result<Vec<Row>> {
    let [policy, ..] = alone::policies();
    let row = |what: &str, with_memo, goal| -> Result<Row> {
        let outcome = alone::stream(TASK, &policy, with_memo)?;
        let row = Row::new("C2", format!("tasks of 1 MiB planned in a second, {what} memo"), outcome.rate, "plans/s");
        Ok(row.beside(PAPER, Better::Higher).goal(goal, Better::Higher).details(format!(
            "one thread; 3 replicas, where the paper plans one; {:.1} % remembered",
            outcome.remembered * 100.0
        )))
    };
    Ok(vec![row("with", true, 2e6)?, row("without", false, 300e3)?])
}
