//! D7: checkpoints of a program that has no code for them, by `terrace dump run`.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::measured::make_stores;
use super::pages::RANK_COUNT;
use super::ranks::run_on_nodes;
use crate::place::Place;
use crate::row::{Better, Row};
use crate::timing::median;

const DUMP_NAME: &str = "transparent";
const HEAT_SOURCE: &str = include_str!("../../../../crates/dump/dump-run/examples/heat.c");
/// Prints the memory of a rank at its end.
const PRINT_MEMORY: &str = "{ char line[256]; FILE *status = fopen(\"/proc/self/status\", \"r\");
    while (status && fgets(line, sizeof line, status))
        if (!strncmp(line, \"VmRSS:\", 6)) printf(\"%s\", line); }
    MPI_Finalize();";

/// Lets the program of heat in a rod run with more cells, and again from its last checkpoint.
pub fn run() -> Result<Vec<Row>> {
    let built = std::env::current_exe()?;
    let (terrace, library) = (built.with_file_name("terrace"), built.with_file_name("libterrace_dump_run.so"));
    if let Some(missing) = [&terrace, &library].into_iter().find(|path| !path.exists()) {
        eprintln!("skipped: {} is not built; `make measured` does", missing.display());
        return Ok(Vec::new());
    }
    let place = Place::new()?;
    for store in make_stores(&place, RANK_COUNT, Some("none"))? {
        store.close()?;
    }
    let (source, program) = (place.disk().join("heat.c"), place.disk().join("heat"));
    fs::write(
        &source,
        HEAT_SOURCE.replace("CELLS = 40000", "CELLS = 200000").replace("MPI_Finalize();", PRINT_MEMORY),
    )?;
    let mut compile = Command::new("mpicc");
    compile.args(["-O2", "-std=gnu99", "-o"]).arg(&program).arg(&source);
    finish(compile)?;
    let run = |more: &[&str]| -> Result<(String, String)> {
        let mut run = run_on_nodes();
        run.arg(&terrace).args(["dump", "run", DUMP_NAME, "--each", "10"]).args(more).arg("--").arg(&program).arg("30");
        run.env("TERRACE_STORE", place.ram().join("{node}/store")).env("TERRACE_LOG", "terrace=info");
        finish(run)
    };
    let (printed, told) = run(&[])?;
    let kibibytes = |line: &str| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok();
    let resident = printed.lines().filter_map(kibibytes).sum::<u64>() << 10;
    let checkpoints: Vec<&str> = told.lines().filter(|line| line.contains(&format!("{DUMP_NAME} version "))).collect();
    ensure!(!checkpoints.is_empty(), "no checkpoint was made: {told}");
    let stopped = median(checkpoints.iter().map(|line| seconds(line)).collect::<Result<Vec<f64>>>()?);
    let bytes = checkpoints.last().and_then(|line| line.split_once(": ")?.1.split(' ').next()?.parse::<u64>().ok());
    let bytes = bytes.with_context(|| format!("no checkpoint was made: {told}"))?;
    let (_, told) = run(&["--restart"])?;
    let restored = told.lines().find(|line| line.contains("its memory was restored in "));
    let restored = seconds(restored.with_context(|| format!("the program was not continued: {told}"))?)?;
    let title = |what: &str| format!("heat in a rod under `terrace dump run`, factor 3: {what}");
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let stop = Row::new("D7", title("the ranks stop for a checkpoint"), stopped, "s");
    let size = Row::new("D7", title("bytes in a checkpoint"), megabytes(bytes), "MB");
    Ok(vec![
        stop.details(format!(
            "{RANK_COUNT} ranks, the median of {} checkpoints of all their memory, on the throttled disks of D1",
            checkpoints.len()
        )),
        size.beside(megabytes(resident), Better::Lower)
            .details(format!("of {RANK_COUNT} ranks together; beside: their resident bytes, MPI's among them")),
        Row::new("D7", title("the program's memory is restored"), restored, "s")
            .details("from the program's first call of MPI_Barrier until it continues; read from the nodes' stores"),
    ])
}

/// Returns what a command has printed and told.
fn finish(mut run: Command) -> Result<(String, String)> {
    let done = run.output()?;
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    ensure!(done.status.success(), "{run:?}: {}: {told}", done.status);
    Ok((String::from_utf8_lossy(&done.stdout).into_owned(), told))
}

/// Returns the seconds with which a line ends.
fn seconds(line: &str) -> Result<f64> {
    let number = line.strip_suffix(" s").and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.with_context(|| format!("no time: {line}"))
}
