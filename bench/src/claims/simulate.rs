//! `terrace simulate` compared with real runs on throttled tiers and with the papers' figures, and at 10,000 processes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use terrace::Ack;

use crate::evaluation::{Contender, Data, Job, Measured, Phase, Profile, contest};
use crate::place::Place;
use crate::row::{Better, Row};
use crate::size::Size;
use crate::timing::time;

/// The largest error of a simulation against a real run.
const MAX_ERROR_PERCENT: f64 = 15.0;
/// The largest error of a simulation against a ratio of a paper.
const MAX_PAPER_ERROR_PERCENT: f64 = 25.0;

#[derive(Deserialize)]
struct Came {
    policies: Vec<Policy>,
}

#[derive(Deserialize)]
struct Policy {
    policy: String,
    phases: Vec<Seconds>,
    replicas: f64,
    events: u64,
}

#[derive(Deserialize)]
struct Seconds {
    seconds: f64,
}

impl Came {
    fn of(&self, name: &str) -> Result<&Policy> {
        self.policies.iter().find(|policy| policy.policy == name).with_context(|| format!("no policy {name:?}"))
    }

    fn seconds(&self, name: &str) -> Result<f64> {
        Ok(self.of(name)?.phases.iter().map(|phase| phase.seconds).sum())
    }
}

/// Runs the command on a description.
fn simulate(description: &Path) -> Result<Came> {
    let program = std::env::current_exe()?.with_file_name("terrace");
    let output = Command::new(&program).arg("--json").arg("simulate").arg(description).output();
    let output = output.with_context(|| format!("starting {}; `make build` makes it", program.display()))?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Compares real runs on throttled tiers with simulations of the same jobs.
pub fn real() -> Result<Vec<Row>> {
    let job = Job {
        profile: Profile::Ares,
        capacities: [Some(0.0), Some(0.3), Some(0.7)],
        data: Data::Made,
        bytes: Size::get().of(1 << 18, 1 << 18, 1 << 20),
        steps: 4,
        replicas: 1,
        requirements: &[],
        budget: None,
        phases: vec![Phase::Write { ack: Ack::Placed, computing: 0.0 }, Phase::Read(1)],
    };
    let encoding = "shuffle4+zstd-1".parse()?;
    let replicated = Job {
        replicas: 3,
        phases: vec![Phase::Write { ack: Ack::Replicated, computing: 0.0 }, Phase::Read(1)],
        ..job.clone()
    };
    let fixed = [Contender::Spread, Contender::Fixed(encoding), Contender::Slowest(encoding)];
    let mut rows = against(&job, &[&[Contender::Nothing][..], &fixed].concat())?;
    rows.extend(against(&replicated, &[&[Contender::Plain][..], &fixed].concat())?);
    Ok(rows)
}

fn against(job: &Job, contenders: &[Contender]) -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = Vec::new();
    for real in contest(job, contenders, Size::get().of(1, 3, 5))? {
        let path = place.disk().join("cluster.toml");
        std::fs::write(&path, described(job, real.contender)?)?;
        let came = simulate(&path)?;
        let policy = came.of("it")?;
        for (phase, words) in ["writing", "reading"].into_iter().enumerate() {
            let (ours, theirs) = (policy.phases[phase].seconds, real.seconds[phase]);
            let runs = real.runs.iter().map(|run| run[phase]);
            let (least, most) = (runs.clone().fold(f64::INFINITY, f64::min), runs.fold(0.0, f64::max));
            let off = 100.0 * (ours / theirs - 1.0);
            let what = format!("{} replicas, {}, {words}: off by", real.replicas.round(), real.contender.name());
            let details =
                format!("{ours:.2} s simulated, {theirs:.2} s for real ({least:.2} to {most:.2}): {off:+.0} %");
            rows.push(Row::new("S1", what, off.abs(), "%").goal(MAX_ERROR_PERCENT, Better::Lower).details(details));
        }
    }
    Ok(rows)
}

/// Writes the description of a contender's job for the command.
fn described(job: &Job, contender: Contender) -> Result<String> {
    let measured = Measured::of(job)?;
    let cluster =
        job.profile.cluster(contender, job.capacities.map(|share| share.map(|share| share * measured.total())));
    let mut text = format!("[cluster]\ncores = {}\nprocesses = {}\n", cluster.cores, cluster.processes);
    for tier in &cluster.tiers {
        let capacity = tier.capacity.map_or(String::new(), |bytes| format!("capacity = '{bytes}B'\n"));
        write!(
            text,
            "[[tier]]\nname = '{}'\nshared = true\ntargets = {}\nwrite = '{}B/s'\nread = '{}B/s'\nlatency = '{}us'\nlanes = 64\n{capacity}",
            tier.name,
            tier.targets,
            tier.write.round(),
            tier.read.round(),
            (tier.latency * 1e6).round(),
        )?;
    }
    let objects = measured.objects_of_a_step();
    let object = job.bytes / objects;
    let reads = job.phases.iter().map(|phase| if let Phase::Read(times) = phase { *times } else { 0 }).sum::<usize>();
    write!(
        text,
        "[workload]\nsteps = {}\nobjects = {objects}\nobject = '{object}B'\nunder_way = 4\nreads = {reads}\n",
        job.steps
    )?;
    let mut policy = format!("[[policy]]\nname = 'it'\nreplicas = {}\n", contender.replicas(job.replicas));
    if job.phases.iter().any(|phase| matches!(phase, Phase::Write { ack: Ack::Replicated, .. })) {
        policy.push_str("ack = 'replicated'\n");
    }
    if contender.is_slowest() {
        writeln!(policy, "tiers = ['{}']", job.profile.slowest())?;
    }
    match contender {
        Contender::Fixed(encoding) | Contender::Slowest(encoding) => {
            let [compress, decompress, ratio] = measured.mean(encoding);
            write!(
                text,
                "[[data.encoding]]\nname = '{encoding}'\ncompress = '{}B/s'\ndecompress = '{}B/s'\nratio = {ratio}\n",
                compress.round(),
                decompress.round()
            )?;
            writeln!(policy, "encoding = '{encoding}'")?;
        }
        _ => policy.push_str("encoding = 'none'\n"),
    }
    Ok(text + &policy)
}

/// A ratio of a paper: the seconds of one policy divided by those of another.
struct Told {
    file: &'static str,
    what: &'static str,
    slow: &'static str,
    quick: &'static str,
    paper: f64,
    /// The reason for a difference, if there is one.
    why: &'static str,
}

const PAPER_RATIOS: &[Told] = &[
    Told {
        file: "ares-vpic.toml",
        what: "HCompress, Fig. 1: tiers without encoding, times quicker than the file system",
        slow: "parallel file system",
        quick: "tiers, raw",
        paper: 2.5,
        why: "what overflows all tiers goes to the disks at their pace, which alone takes 1,500 s of the paper's 1,708",
    },
    Told {
        file: "ares-vpic.toml",
        what: "HCompress, Fig. 1: Brotli, times quicker than the file system",
        slow: "parallel file system",
        quick: "Brotli on the file system",
        paper: 1.93,
        why: "",
    },
    Told {
        file: "ares-vpic.toml",
        what: "HCompress, Fig. 1: Brotli on all tiers, times quicker than the file system",
        slow: "parallel file system",
        quick: "Brotli on all tiers",
        paper: 5.0,
        why: "half of the bytes fit in the nodes' own memory and NVMe, whose speeds add up; the paper's engine was bound by something else",
    },
    Told {
        file: "ares-replicas.toml",
        what: "HReplica, Fig. 6b: no replication, times quicker than three replicas",
        slow: "three replicas",
        quick: "no replication",
        paper: 4.2,
        why: "three times the bytes on the same disks take three times as long; what seeks between three streams add is not described",
    },
    Told {
        file: "ares-replicas.toml",
        what: "HReplica, Fig. 6b: Snappy, times quicker than three raw replicas",
        slow: "three replicas",
        quick: "three replicas, Snappy",
        paper: 2.0,
        why: "",
    },
];

/// Simulates the papers' cluster with 2,560 processes.
pub fn papers() -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut known: Vec<(&str, Came)> = Vec::new();
    for told in PAPER_RATIOS {
        if known.iter().all(|(file, _)| *file != told.file) {
            known.push((told.file, simulate(&clusters().join(told.file))?));
        }
        let Some((_, came)) = known.iter().find(|(file, _)| *file == told.file) else { continue };
        let ours = came.seconds(told.slow)? / came.seconds(told.quick)?;
        let off = 100.0 * (ours / told.paper - 1.0);
        let why = if off.abs() > MAX_PAPER_ERROR_PERCENT { told.why } else { "" };
        let details = format!("{ours:.2}x simulated, {}x in the paper: {off:+.0} %; {why}", told.paper);
        let row = Row::new("S2", format!("{}: off by", told.what), off.abs(), "%")
            .goal(MAX_PAPER_ERROR_PERCENT, Better::Lower);
        rows.push(row.details(details.trim_end_matches("; ")));
    }
    if let Some((_, came)) = known.iter().find(|(file, _)| *file == "ares-replicas.toml") {
        let replicas = came.of("Terrace in the space of three")?.replicas;
        let what = "HReplica, Fig. 6b: replicas in the space of three raw ones";
        rows.push(
            Row::new("S2", what, replicas, "")
                .beside(9.0, Better::Higher)
                .goal(9.0 * (1.0 - MAX_PAPER_ERROR_PERCENT / 100.0), Better::Higher),
        );
    }
    Ok(rows)
}

/// Measures how long a simulation of 10,000 processes takes.
pub fn many() -> Result<Vec<Row>> {
    let text = std::fs::read_to_string(clusters().join("ares-vpic.toml"))?;
    let text = text.replace("nodes = 64", "nodes = 250").replace("processes = 2560", "processes = 10000");
    let text = text.replace("steps = 16", "steps = 4");
    let place = Place::new()?;
    let path = place.disk().join("cluster.toml");
    std::fs::write(&path, text)?;
    let (seconds, came) = time(|| simulate(&path))?;
    let events: u64 = came.policies.iter().map(|policy| policy.events).sum();
    let details = format!("{} policies, {events} events, {:.0} a second", came.policies.len(), events as f64 / seconds);
    Ok(vec![
        Row::new("S3", "10,000 processes of VPIC, simulated", seconds, "s").goal(60.0, Better::Lower).details(details),
    ])
}

/// Returns the folder of the descriptions that are part of the repository.
fn clusters() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../demo/clusters")
}
