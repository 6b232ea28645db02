//! Real runs: ranks as processes that share one store over throttled tiers, in phases.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use terrace::{Ack, Config, PutOptions, Store};
use terrace_codec::Encoding;

use super::{Contender, Data, OBJECTS_IN_FLIGHT, Profile, RANK_COUNT};
use crate::place::Place;
use crate::timing::{median, time};
use crate::workers;

/// A phase of a job, the same for all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Phase {
    /// Write all steps, with `computing` seconds of computing between two steps.
    Write { ack: Ack, computing: f64 },
    /// Read everything this many times.
    Read(usize),
}

/// A job, without the contender that runs it.
#[derive(Clone, Debug)]
pub struct Job {
    /// The tiers.
    pub profile: Profile,
    /// The capacities of the first three tiers, as shares of the raw data; `None` means no limit.
    pub capacities: [Option<f64>; 3],
    /// The data to write.
    pub data: Data,
    /// The approximate number of bytes that each rank writes in a step.
    pub bytes: usize,
    /// The number of steps.
    pub steps: u64,
    /// The number of replicas of each extent.
    pub replicas: u8,
    /// The requirements on the store.
    pub requirements: &'static [&'static str],
    /// The limit of stored bytes for each raw byte, filled with as many replicas as fit; `None` if replicas are
    /// counted.
    pub budget: Option<f64>,
    /// The phases.
    pub phases: Vec<Phase>,
}

/// The work of a rank in one phase.
#[derive(Clone, Serialize, Deserialize)]
pub struct Work {
    data: Data,
    bytes: usize,
    steps: u64,
    phase: Phase,
}

/// The result of a job.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The contender.
    pub contender: Contender,
    /// The median of all runs: seconds of each phase of the slowest rank, without computing.
    pub seconds: Vec<f64>,
    /// The seconds of each phase, of each run.
    pub runs: Vec<Vec<f64>>,
    /// The bytes of payload stored for each raw byte.
    pub stored: f64,
    /// The number of replicas of each byte.
    pub replicas: f64,
}

impl Outcome {
    /// Returns the smallest and the largest figure of the runs.
    pub fn range(&self, counts: fn(&Outcome) -> f64) -> (f64, f64) {
        let of = |run: &Vec<f64>| counts(&Outcome { seconds: run.clone(), ..self.clone() });
        let all = || self.runs.iter().map(of);
        (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max))
    }
}

impl workers::Work for Work {
    const WORK_NAME: &'static str = "evaluation";

    fn work(&self, store: &Path, worker: u64, ready: impl FnOnce() -> std::io::Result<()>) -> Result<Vec<f64>> {
        work(&Store::open(store)?, worker, self, ready)
    }
}

/// Does a rank's part of a phase. Returns the seconds.
fn work(store: &Store, rank: u64, work: &Work, ready: impl FnOnce() -> std::io::Result<()>) -> Result<Vec<f64>> {
    let steps = (0..work.steps).map(|step| work.data.objects(rank, step, work.bytes));
    let steps: Vec<Vec<(String, Vec<u8>)>> = steps.collect::<Result<_>>()?;
    ready()?;
    let mut seconds = 0.0;
    match work.phase {
        Phase::Write { ack, computing } => {
            let options = PutOptions { ack: Some(ack), ..PutOptions::default() };
            for step in &steps {
                let put = |key: &str, bytes: &[u8]| Ok(store.put_bytes(key.as_bytes(), bytes, &options).map(drop)?);
                seconds += time(|| each(step, put))?.0;
                compute(Duration::from_secs_f64(computing));
            }
        }
        Phase::Read(times) => {
            let get = |key: &str, bytes: &[u8]| {
                anyhow::ensure!(store.get(key.as_bytes())? == bytes, "{key} is not what was written");
                Ok(())
            };
            for _ in 0..times {
                for step in &steps {
                    seconds += time(|| each(step, get))?.0;
                }
            }
        }
    }
    Ok(vec![seconds])
}

/// Calls `act` for each object, for several at a time.
fn each(objects: &[(String, Vec<u8>)], act: impl Fn(&str, &[u8]) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicUsize::new(0);
    let take = || {
        while let Some((key, bytes)) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
            act(key, bytes)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..OBJECTS_IN_FLIGHT).map(|_| scope.spawn(take)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a thread died"))?)
    })
}

/// Multiplies matrices for a time, like a simulation between two steps.
fn compute(time: Duration) {
    const MATRIX_SIDE: usize = 64;
    let begin = Instant::now();
    let mut product = vec![1.0f64; MATRIX_SIDE * MATRIX_SIDE];
    while begin.elapsed() < time {
        let before = product.clone();
        for (at, value) in product.iter_mut().enumerate() {
            let (row, column) = (at / MATRIX_SIDE, at % MATRIX_SIDE);
            let sum: f64 =
                (0..MATRIX_SIDE).map(|k| before[row * MATRIX_SIDE + k] * before[k * MATRIX_SIDE + column]).sum();
            *value = sum.rem_euclid(1.0);
        }
        std::hint::black_box(&product);
    }
}

impl Job {
    /// Returns how often everything is read.
    pub fn reads(&self) -> usize {
        let of = |phase: &Phase| if let Phase::Read(times) = phase { *times } else { 0 };
        self.phases.iter().map(of).sum()
    }

    /// Returns the number of bytes that are written.
    fn total(&self) -> Result<usize> {
        let of = |rank, step| {
            let objects = self.data.objects(rank, step, self.bytes)?;
            Ok(objects.iter().map(|(_, bytes)| bytes.len()).sum::<usize>())
        };
        (0..RANK_COUNT as u64).flat_map(|rank| (0..self.steps).map(move |step| of(rank, step))).sum()
    }

    /// Writes the configuration of a contender before its tiers, for objects below `d`.
    fn config(&self, contender: Contender) -> String {
        let model = if contender == Contender::Paper { "paper" } else { "measured" };
        let encoding = match contender {
            Contender::Nothing | Contender::Plain | Contender::Spread => Some(Encoding::NONE),
            Contender::Fixed(encoding) | Contender::ByRawSize(encoding) | Contender::Slowest(encoding) => {
                Some(encoding)
            }
            Contender::Paper | Contender::Ours | Contender::Oracle => None,
        };
        let mut rule = format!("[[rule]]\nprefix = 'd'\nrequirements = {:?}\n", self.requirements);
        rule.push_str(&match self.budget.filter(|_| !contender.is_slowest()) {
            Some(factor) => format!("budget = '{factor}x'\n"),
            None => format!("replicas = {}\n", contender.replicas(self.replicas)),
        });
        if let Some(encoding) = encoding {
            rule.push_str(&format!("encoding = '{encoding}'\n"));
        }
        if contender.is_slowest() {
            rule.push_str(&format!("tiers = ['{}']\n", self.profile.slowest()));
        }
        format!("[store]\nreplicas = {{ max = 9 }}\ncache = '0B'\ncost_model = '{model}'\n{rule}")
    }

    /// Runs the job once.
    fn run(&self, contender: Contender) -> Result<Run> {
        let place = Place::new()?;
        let total = self.total()? as f64;
        let capacities = self.capacities.map(|share| share.map(|share| share * total));
        let tiers = self.profile.config(contender, &place.ram().join("tiers"), capacities);
        let text = self.config(contender) + &tiers;
        let dir = place.disk().join("store");
        let store = Store::init(&dir, &Config::parse(&text, "bench")?)?;
        drop(store);
        let mut seconds = Vec::new();
        for phase in &self.phases {
            let work = Work { data: self.data, bytes: self.bytes, steps: self.steps, phase: *phase };
            let ranks = workers::run(&dir, RANK_COUNT, &work)?;
            seconds.push(ranks.iter().flatten().copied().fold(0.0, f64::max));
        }
        let (mut raw, mut stored, mut replicas) = (0.0, 0.0, 0.0);
        let store = Store::open(&dir)?;
        for (key, _) in store.list(b"", None, usize::MAX)? {
            for extent in store.locate(&key)?.extents {
                raw += extent.length as f64;
                stored += extent.replicas.iter().map(|replica| replica.stored as f64).sum::<f64>();
                replicas += extent.length as f64 * extent.replicas.len() as f64;
            }
        }
        Ok(Run { seconds, stored: stored / raw, replicas: replicas / raw })
    }
}

/// The result of one run: the seconds of each phase, the bytes stored for each raw byte, and the number of replicas.
#[derive(Clone)]
struct Run {
    seconds: Vec<f64>,
    stored: f64,
    replicas: f64,
}

/// Runs a job `repeats` times with each contender, in turn.
pub fn contest(job: &Job, contenders: &[Contender], repeats: usize) -> Result<Vec<Outcome>> {
    let mut runs = vec![Vec::new(); contenders.len()];
    for _ in 0..repeats {
        for (contender, runs) in contenders.iter().zip(&mut runs) {
            let run = job.run(*contender)?;
            eprintln!(
                "  {}: {:.2?} s, {:.2} replicas in {:.2} bytes",
                contender.name(),
                run.seconds,
                run.replicas,
                run.stored
            );
            runs.push(run);
        }
    }
    let outcome = |(contender, runs): (&Contender, Vec<Run>)| {
        let of = |phase: usize| runs.iter().map(move |run| run.seconds[phase]);
        let phases = 0..job.phases.len();
        Outcome {
            contender: *contender,
            seconds: phases.map(|phase| median(of(phase))).collect(),
            runs: runs.iter().map(|run| run.seconds.clone()).collect(),
            stored: median(runs.iter().map(|run| run.stored)),
            replicas: median(runs.iter().map(|run| run.replicas)),
        }
    };
    Ok(contenders.iter().zip(runs).map(outcome).collect())
}
