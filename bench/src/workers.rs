//! Processes that work on one store at the same time: this program, started again.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The environment variable with a worker's assignment.
const ASSIGNMENT_VARIABLE: &str = "TERRACE_BENCH_TASK";

/// A kind of work for workers.
pub trait Work: Serialize + DeserializeOwned {
    /// The name by which a worker finds it.
    const WORK_NAME: &'static str;

    /// Prepares, calls `ready`, works, and returns the figures.
    fn work(&self, store: &Path, worker: u64, ready: impl FnOnce() -> io::Result<()>) -> Result<Vec<f64>>;
}

/// A worker's work and store.
#[derive(Serialize, Deserialize)]
pub struct Assignment {
    store: PathBuf,
    worker: u64,
    /// The kind of the work.
    pub name: String,
    work: serde_json::Value,
}

/// Returns this process's assignment, if it is a worker.
pub fn assignment() -> Result<Option<Assignment>> {
    match std::env::var(ASSIGNMENT_VARIABLE) {
        Ok(text) => Ok(Some(serde_json::from_str(&text).context("the worker's assignment")?)),
        Err(_) => Ok(None),
    }
}

impl Assignment {
    /// Prepares, waits for the signal, works, and prints the figures.
    pub fn carry_out<W: Work>(&self) -> Result<()> {
        let ready = || {
            println!("ready");
            io::stdin().lock().read_line(&mut String::new()).map(|_| ())
        };
        let work: W = serde_json::from_value(self.work.clone())?;
        let figures = work.work(&self.store, self.worker, ready)?;
        println!("{}", serde_json::to_string(&figures)?);
        Ok(())
    }
}

struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Starts `count` workers on one store at the same moment. Returns the figures that each printed.
pub fn run(store: &Path, count: usize, work: &impl Work) -> Result<Vec<Vec<f64>>> {
    run_on(&vec![store.to_owned(); count], work)
}

/// Starts a worker on each of these stores at the same moment. Returns the figures that each printed.
pub fn run_on(stores: &[PathBuf], work: &impl Work) -> Result<Vec<Vec<f64>>> {
    run_all(stores, work, &[])
}

/// Starts one worker with these variables in its environment. Returns the figures that it printed.
pub fn run_with(store: &Path, work: &impl Work, variables: &[(&'static str, OsString)]) -> Result<Vec<f64>> {
    Ok(run_all(&[store.to_owned()], work, variables)?.concat())
}

fn run_all<W: Work>(stores: &[PathBuf], work: &W, variables: &[(&'static str, OsString)]) -> Result<Vec<Vec<f64>>> {
    let (program, work) = (std::env::current_exe()?, serde_json::to_value(work)?);
    let mut workers = Vec::new();
    for (worker, store) in (0..).zip(stores) {
        let assignment = Assignment { store: store.clone(), worker, name: W::WORK_NAME.to_owned(), work: work.clone() };
        let mut child = Command::new(&program)
            .env(ASSIGNMENT_VARIABLE, serde_json::to_string(&assignment)?)
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else { bail!("no pipes") };
        workers.push(Worker { child, input, output: BufReader::new(output) });
    }
    let mut line = String::new();
    for worker in &mut workers {
        line.clear();
        worker.output.read_line(&mut line)?;
        anyhow::ensure!(line.trim() == "ready", "a worker said {line:?}");
    }
    for worker in &mut workers {
        worker.input.write_all(b"go\n")?;
    }
    let mut printed = Vec::new();
    for mut worker in workers {
        line.clear();
        worker.output.read_line(&mut line)?;
        printed.push(serde_json::from_str(&line).with_context(|| format!("a worker said {line:?}"))?);
        worker.child.wait()?;
    }
    Ok(printed)
}
