//! Processes that work on one store at the same time: this program, started again.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use crate::claims::{cluster, h4, preload, small, throttle};
use crate::evaluation;

/// The environment variable with a worker's task.
const TASK_VARIABLE: &str = "TERRACE_BENCH_TASK";

/// The tasks of workers.
#[derive(Clone, Serialize, Deserialize)]
pub enum Task {
    /// Catalog operations.
    Catalog(h4::Work),
    /// Puts and gets of small objects.
    Small(small::Work),
    /// Work on the machine of a node.
    Cluster(cluster::NodeWork),
    /// Writes through a throttle.
    Throttled(throttle::Work),
    /// Requests of a program that knows nothing of the store.
    Requests(preload::Work),
    /// A rank's part of an evaluation.
    Evaluation(evaluation::Work),
}

/// A worker's task and store.
#[derive(Serialize, Deserialize)]
pub struct Assignment {
    store: PathBuf,
    worker: u64,
    task: Task,
}

/// Returns this process's task, if it is a worker.
pub fn task() -> Result<Option<Assignment>> {
    match std::env::var(TASK_VARIABLE) {
        Ok(text) => Ok(Some(serde_json::from_str(&text).context("the worker's task")?)),
        Err(_) => Ok(None),
    }
}

/// Does the task: gets ready, waits for the signal, works, and prints the times.
pub fn work(assignment: &Assignment) -> Result<()> {
    let ready = || {
        println!("ready");
        std::io::stdin().lock().read_line(&mut String::new()).map(|_| ())
    };
    let store = || terrace::Store::open(&assignment.store);
    let times: Vec<f64> = match &assignment.task {
        Task::Catalog(work) => h4::work(&store()?, assignment.worker, work, ready)?,
        Task::Small(work) => small::work(&store()?, assignment.worker, work, ready)?,
        Task::Cluster(work) => cluster::work(&store()?, assignment.worker, work, ready)?,
        Task::Evaluation(work) => evaluation::work(&store()?, assignment.worker, work, ready)?,
        Task::Throttled(work) => throttle::work(&store()?, assignment.worker, work, ready)?,
        Task::Requests(work) => preload::work(work, ready)?,
    };
    println!("{}", serde_json::to_string(&times)?);
    Ok(())
}

struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Starts `count` workers on one store at the same moment. Returns the figures that each printed.
pub fn run(store: &Path, count: usize, task: &Task) -> Result<Vec<Vec<f64>>> {
    run_on(&vec![store.to_owned(); count], task)
}

/// Starts a worker on each of these stores at the same moment. Returns the figures that each printed.
pub fn run_on(stores: &[PathBuf], task: &Task) -> Result<Vec<Vec<f64>>> {
    run_all(stores, task, &[])
}

/// Starts one worker with these variables in its environment. Returns the figures that it printed.
pub fn run_with(store: &Path, task: &Task, variables: &[(&'static str, OsString)]) -> Result<Vec<f64>> {
    Ok(run_all(&[store.to_owned()], task, variables)?.concat())
}

fn run_all(stores: &[PathBuf], task: &Task, variables: &[(&'static str, OsString)]) -> Result<Vec<Vec<f64>>> {
    let program = std::env::current_exe()?;
    let mut workers = Vec::new();
    for (worker, store) in (0..).zip(stores) {
        let assignment = Assignment { store: store.clone(), worker, task: task.clone() };
        let mut child = Command::new(&program)
            .env(TASK_VARIABLE, serde_json::to_string(&assignment)?)
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
