//! D5 with ranks of MPI: how long our conjugate-gradient program stops for checkpoints that are dumped while it continues.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::measured::make_stores;
use super::pages::{RANK_COUNT, find_program};
use crate::place::Place;
use crate::row::{Better, Row};

/// The seconds of the slowest rank, as the program prints them.
#[derive(Deserialize)]
struct Stops {
    /// For a checkpoint that the ranks wait for.
    whole: f64,
    /// For the first one that is dumped while they continue, with memory that `terrace_dump_prepare` has fetched.
    first: f64,
    next: f64,
}

/// Measures under mpirun, each rank on a node of its own.
pub fn run() -> Result<Vec<Row>> {
    let Some(program) = find_program()? else { return Ok(Vec::new()) };
    let place = Place::new()?;
    for store in make_stores(&place, RANK_COUNT, Some("none"))? {
        store.close()?;
    }
    let mut run = run_on_nodes();
    run.arg(&program).args(["32", "30"]).arg(place.ram().join("{rank}.memory")).arg(place.ram().join("{node}/store"));
    let done = run.output()?;
    ensure!(done.status.success(), "cg: {}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8_lossy(&done.stdout);
    let line = printed.lines().find(|line| line.starts_with('{')).context("cg has printed no times")?;
    let stops: Stops = serde_json::from_str(line)?;
    let row = |(stop, which): (f64, &str)| {
        let what = format!("our CG 32^3 under mpirun, factor 3, {which}: the ranks stop, of a synchronous dump");
        Row::new("D5", what, 100.0 * stop / stops.whole, "%").goal(15.0, Better::Lower).details(format!(
            "the slowest of {RANK_COUNT} ranks of MPI stops for {:.1} ms instead of {:.0} ms, while its memory is copied; links are this machine's memory",
            1e3 * stop,
            1e3 * stops.whole
        ))
    };
    Ok([(stops.first, "the first checkpoint, prepared"), (stops.next, "the next one")].into_iter().map(row).collect())
}

/// Returns a command that runs the one that is appended on all ranks, each on a node of its own.
pub fn run_on_nodes() -> Command {
    let mut run = Command::new("timeout");
    run.args(["300", "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", &RANK_COUNT.to_string()]);
    run.args(["sh", "-c", "export TERRACE_NODE=$OMPI_COMM_WORLD_RANK; exec \"$@\"", "sh"]);
    run
}
