//! The papers' evaluations (claims H1, H5, H6, C0, C4 to C7): all contenders compared, in virtual time and for real.

use anyhow::Result;
use terrace::Ack;

use crate::evaluation::{Contender, Data, Job, Outcome, Phase, Profile, Side, is_papers, side_by_side};
use crate::row::{Better, PageRow, Row};
use crate::size::Size;

/// The bytes of each rank.
const BYTES_PER_RANK: usize = 4 << 20;
/// The bytes of each rank in real runs that read everything many times, which takes hours on a slow disk.
const FEWER_BYTES_PER_RANK: usize = 1 << 20;
/// The bytes of a rank per second of computing: the papers write 256 MiB after every 60 s, and a core here has a tenth
/// of their bandwidth.
const BYTES_PER_COMPUTING_SECOND: f64 = 25e6 / 60.0;

pub const H1_PAGE_ROWS: &[PageRow] = &[PageRow::real(
    "H1",
    "mixed, real files, reading: Terrace",
    "Written once, read ten times (virtual time), beside no replication; HReplica 5.7x",
)];

pub const H5_PAGE_ROWS: &[PageRow] = &[PageRow::real(
    "H5",
    "ares, real particles, reading: Terrace",
    "BD-CATS-IO reads 16 times (virtual time), beside no replication; HReplica 5.2x",
)];

pub const H6_PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "H6",
    "for real, wide, the kernel's particles: replicas in the storage of three",
    "VPIC-IO: replicas in the space of three raw ones, beside HReplica",
)];

pub const C0_PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "C0",
    "for real, ares, the kernel's particles, writing: Terrace",
    "VPIC-IO writes, beside the slowest tier alone; HCompress 4x",
)];

pub const C5_PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "C5",
    "for real, ares, tasks of four distributions, writing and reading: Terrace",
    "Write and read small tasks, beside the best encoding in hindsight; HCompress 1.4x",
)];

pub const C6_PAGE_ROWS: &[PageRow] = &[PageRow::real(
    "C6",
    "ares, real particles, writing: Terrace",
    "VPIC-IO in ten steps (virtual time), beside the slowest tier alone; HCompress 12x",
)];

pub const C7_PAGE_ROWS: &[PageRow] = &[PageRow::made(
    "C7",
    "for real, ares, the kernel's particles, writing and reading: Terrace",
    "VPIC-IO, then BD-CATS-IO, beside the slowest tier alone; HCompress 7x",
)];

const WRITE_PHASE: Phase = Phase::Write { ack: Ack::Placed, computing: 0.0 };
const WRITE_ALL: Phase = Phase::Write { ack: Ack::Replicated, computing: 0.0 };

/// A claim: the figure that judges it, and its goal.
struct Claim {
    id: &'static str,
    /// The figure that counts, in words and as a function of an outcome.
    counts: &'static str,
    seconds: fn(&Outcome) -> f64,
    /// The paper's engine was this many times quicker than `beside`, which is the goal for ours.
    paper: f64,
    goal: f64,
    beside: Beside,
}

/// The contender that ours is compared with.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    /// The best single encoding, placed by encoded size.
    BestFixed,
    /// The best single encoding, placed by raw size.
    BestByRawSize,
}

impl Beside {
    fn words(self) -> &'static str {
        match self {
            Beside::Nothing => "no replication",
            Beside::BestFixed => "the best encoding everywhere",
            Beside::BestByRawSize => "the best encoding placed by raw size",
        }
    }

    fn is(self, contender: Contender) -> bool {
        match self {
            Beside::Nothing => contender == Contender::Nothing,
            Beside::BestFixed => matches!(contender, Contender::Fixed(_)),
            Beside::BestByRawSize => matches!(contender, Contender::ByRawSize(_)),
        }
    }
}

fn written(outcome: &Outcome) -> f64 {
    outcome.seconds[0]
}

fn read(outcome: &Outcome) -> f64 {
    outcome.seconds[1]
}

fn all(outcome: &Outcome) -> f64 {
    outcome.seconds.iter().sum()
}

/// VPIC-IO on HReplica's tiers, with all phases of a claim.
fn vpic(profile: Profile, data: Data, bytes: usize) -> Job {
    Job {
        profile,
        capacities: [Some(0.0), Some(0.3), Some(0.7)],
        data,
        bytes: bytes / 4,
        steps: 4,
        replicas: 3,
        requirements: &[],
        budget: None,
        phases: vec![WRITE_ALL],
    }
}

/// HCompress's setting: one replica, and RAM and NVMe for these shares of the data.
fn tiered(job: Job, ram: f64, nvme: f64) -> Job {
    Job { capacities: [Some(ram), Some(nvme), None], replicas: 1, phases: vec![WRITE_PHASE], ..job }
}

/// Ten steps with computing between them.
fn in_steps(job: Job, bytes: usize) -> Job {
    let computing = bytes as f64 / 10.0 / BYTES_PER_COMPUTING_SECOND;
    let phases = vec![Phase::Write { ack: Ack::Placed, computing }];
    Job { bytes: bytes / 10, steps: 10, phases, ..tiered(job, 12.5 / 640.0, 25.0 / 640.0) }
}

/// Fig. 1 of HReplica: written once, read ten times.
pub fn h1() -> Result<Vec<Row>> {
    let claim = Claim { id: "H1", counts: "reading", seconds: read, paper: 5.7, goal: 6.8, beside: Beside::Nothing };
    let job = |_, data, bytes| {
        let (requirements, phases) = (&["max_read_bandwidth"][..], vec![WRITE_ALL, Phase::Read(10)]);
        Job { capacities: [None; 3], requirements, phases, ..vpic(Profile::Mixed, data, bytes) }
    };
    let sides = sides(&claim, &[Profile::Mixed], &[Data::Made, Data::Particles, Data::Files], job)?;
    let mut rows = rows(&claim, &sides);
    for side in &sides {
        let (ours, nothing) = (side.of(Contender::Ours)?, side.of(Contender::Nothing)?);
        let cost = |outcome: &Outcome| written(outcome) / written(nothing);
        let row = Row::new("H1", format!("{}: writing, times no replication's", side.name()), cost(ours), "x");
        rows.push(row.beside(2.8, Better::Lower).goal(2.5, Better::Lower));
    }
    Ok(rows)
}

/// Fig. 6a of HReplica: BD-CATS-IO reads the output of VPIC-IO 16 times.
pub fn h5() -> Result<Vec<Row>> {
    let claim = Claim { id: "H5", counts: "reading", seconds: read, paper: 5.2, goal: 5.2, beside: Beside::Nothing };
    let job = |profile, data, bytes| {
        let (requirements, phases) = (&["max_read_bandwidth"][..], vec![WRITE_ALL, Phase::Read(16)]);
        Job { requirements, phases, ..vpic(profile, data, bytes) }
    };
    Ok(rows(&claim, &sides(&claim, &[Profile::Ares, Profile::Node], &[Data::Made, Data::Particles], job)?))
}

/// Fig. 6b of HReplica: as many replicas as fit into the space of three raw ones.
pub fn h6() -> Result<Vec<Row>> {
    let claim = Claim { id: "H6", counts: "writing", seconds: written, paper: 1.0, goal: 1.0, beside: Beside::Nothing };
    let job = |_, data, bytes| Job {
        capacities: [None; 3],
        requirements: &["max_durability", "max_write_bandwidth"],
        budget: Some(3.0),
        ..vpic(Profile::Wide, data, bytes)
    };
    let mut rows = Vec::new();
    for side in sides(&claim, &[Profile::Wide], &[Data::Made, Data::Particles], job)? {
        for (kind, outcomes) in [("", &side.replayed), ("for real, ", &side.real)] {
            let of = |contender| outcomes.iter().find(|outcome: &&Outcome| outcome.contender == contender);
            let (Some(ours), Some(plain)) = (of(Contender::Ours), of(Contender::Plain)) else { continue };
            let name = format!("{kind}{}", side.name());
            let goal = if side.data == Data::Made { 9.0 } else { 3.0 };
            let replicas = Row::new("H6", format!("{name}: replicas in the storage of three"), ours.replicas, "");
            let stored = format!("{:.2} bytes stored for each", ours.stored);
            rows.push(replicas.beside(9.0, Better::Higher).goal(goal, Better::Higher).details(stored));
            let seconds = Row::new("H6", format!("{name}: writing them, beside plain replicas"), written(ours), "s");
            rows.push(seconds.beside(written(plain), Better::Lower).goal(written(plain), Better::Lower));
        }
    }
    Ok(rows)
}

/// Fig. 1 of HCompress: VPIC.
pub fn c0() -> Result<Vec<Row>> {
    let claim = Claim { id: "C0", counts: "writing", seconds: written, paper: 4.0, goal: 4.0, beside: Beside::Nothing };
    let job = |profile, data, bytes| tiered(vpic(profile, data, bytes), 16.0 / 8192.0, 32.0 / 8192.0);
    Ok(rows(&claim, &sides(&claim, &[Profile::Ares, Profile::Node], &[Data::Made, Data::Particles], job)?))
}

/// Fig. 5 of HCompress: placement by encoded size or by raw size.
pub fn c4() -> Result<Vec<Row>> {
    let claim =
        Claim { id: "C4", counts: "writing", seconds: written, paper: 1.72, goal: 2.0, beside: Beside::BestByRawSize };
    let job = |profile, data, bytes| tiered(vpic(profile, data, bytes), 0.2, 0.6);
    Ok(rows(&claim, &sides(&claim, &[Profile::Ares, Profile::Node], &[Data::Tasks, Data::Files], job)?))
}

/// Fig. 6 of HCompress: one encoding everywhere or the best for each tier; written and read back.
pub fn c5() -> Result<Vec<Row>> {
    let claim = Claim {
        id: "C5",
        counts: "writing and reading",
        seconds: all,
        paper: 1.4,
        goal: 1.4,
        beside: Beside::BestFixed,
    };
    let job = |profile, data, bytes| {
        let job = tiered(vpic(profile, data, bytes), 32.0 / 600.0, 96.0 / 600.0);
        Job { phases: vec![WRITE_PHASE, Phase::Read(1)], ..job }
    };
    let sides = sides(&claim, &[Profile::Ares, Profile::Node], &[Data::Tasks, Data::Files], job)?;
    let mut rows = rows(&claim, &sides);
    for side in &sides {
        let papers =
            |outcome: &&Outcome| matches!(outcome.contender, Contender::Fixed(encoding) if is_papers(encoding));
        let best = side.replayed.iter().filter(papers).map(all).fold(f64::INFINITY, f64::min);
        let what = format!("{}: times quicker than the best of HCompress' codecs everywhere", side.name());
        let row = Row::new("C5", what, best / all(side.of(Contender::Ours)?), "x");
        rows.push(
            row.beside(1.4, Better::Higher).goal(1.4, Better::Higher).details("codecs by themselves, as in the paper"),
        );
    }
    Ok(rows)
}

/// Fig. 7 of HCompress: VPIC-IO in ten steps.
pub fn c6() -> Result<Vec<Row>> {
    let claim =
        Claim { id: "C6", counts: "writing", seconds: written, paper: 12.0, goal: 12.0, beside: Beside::Nothing };
    let job = |profile, data, bytes| {
        let requirements = &["max_write_bandwidth", "min_storage"];
        Job { requirements, ..in_steps(vpic(profile, data, bytes), bytes) }
    };
    Ok(rows(&claim, &sides(&claim, &[Profile::Ares, Profile::Node], &[Data::Made, Data::Particles], job)?))
}

/// Fig. 8 of HCompress: VPIC-IO, then BD-CATS-IO.
pub fn c7() -> Result<Vec<Row>> {
    let claim =
        Claim { id: "C7", counts: "writing and reading", seconds: all, paper: 7.0, goal: 7.0, beside: Beside::Nothing };
    let job = |profile, data, bytes| {
        let mut job = in_steps(vpic(profile, data, bytes), bytes);
        job.phases.push(Phase::Read(1));
        job
    };
    Ok(rows(&claim, &sides(&claim, &[Profile::Ares, Profile::Node], &[Data::Made, Data::Particles], job)?))
}

/// Runs all contenders on all profiles and data. Only the first profile and data run for real, or all of them in a full
/// run.
fn sides(
    claim: &Claim,
    profiles: &[Profile],
    data: &[Data],
    job: impl Fn(Profile, Data, usize) -> Job,
) -> Result<Vec<Side>> {
    let mut sides = Vec::new();
    for (first, data) in data.iter().enumerate().map(|(at, data)| (at == 0, *data)) {
        if data.is_real() && std::env::var_os("TERRACE_DATA").is_none() {
            eprintln!("skipped: TERRACE_DATA names no folder of files");
            continue;
        }
        for (at, profile) in profiles.iter().enumerate() {
            let repeats = match Size::get() {
                Size::Quick => 0,
                Size::Usual if first && at == 0 => 3,
                Size::Usual => 0,
                Size::Full => 3,
            };
            let job = |bytes| job(*profile, data, bytes);
            let (bytes, often) = Size::get().of(
                (FEWER_BYTES_PER_RANK, FEWER_BYTES_PER_RANK),
                (BYTES_PER_RANK, FEWER_BYTES_PER_RANK),
                (BYTES_PER_RANK, BYTES_PER_RANK),
            );
            let really = if job(bytes).reads() > 1 { often } else { bytes };
            sides.push(side_by_side(&job(bytes), &job(really), claim.seconds, repeats)?);
        }
    }
    Ok(sides)
}

/// Makes a row for each contender; ours has the goal.
fn rows(claim: &Claim, sides: &[Side]) -> Vec<Row> {
    sides
        .iter()
        .flat_map(|side| {
            [side_rows(claim, side, &side.replayed, &[]), side_rows(claim, side, &side.real, &side.checked)]
        })
        .flatten()
        .collect()
}

/// Makes rows of outcomes. For real runs, `checked` has the same runs in virtual time.
fn side_rows(claim: &Claim, side: &Side, outcomes: &[Outcome], checked: &[Outcome]) -> Vec<Row> {
    let quickest = |is: &dyn Fn(Contender) -> bool| {
        let those = outcomes.iter().filter(|outcome| is(outcome.contender));
        those.min_by(|a, b| (claim.seconds)(a).total_cmp(&(claim.seconds)(b)))
    };
    let real = !checked.is_empty();
    let beside = quickest(&|contender| claim.beside.is(contender));
    // A fair comparison does not profit from weaknesses of our own engine: the contender counts as fast as its tiers
    // allow.
    let beside_seconds = beside.map(|beside| {
        let replayed = checked.iter().find(|replayed| replayed.contender == beside.contender);
        replayed.map_or(f64::INFINITY, claim.seconds).min((claim.seconds)(beside))
    });
    let oracle = quickest(&|contender| contender == Contender::Oracle);
    type Kind<'a> = (&'a str, &'a dyn Fn(Contender) -> bool);
    let kinds: [Kind<'_>; 10] = [
        ("no replication", &|c| c == Contender::Nothing),
        ("plain replicas", &|c| c == Contender::Plain),
        ("all tiers, raw", &|c| c == Contender::Spread),
        ("slowest tier, best encoding", &|c| matches!(c, Contender::Slowest(_))),
        ("best encoding, placed by raw size", &|c| matches!(c, Contender::ByRawSize(_))),
        ("best of the papers' codecs everywhere", &|c| matches!(c, Contender::Fixed(encoding) if is_papers(encoding))),
        ("best encoding everywhere", &|c| matches!(c, Contender::Fixed(_))),
        ("the papers' model", &|c| c == Contender::Paper),
        ("Terrace", &|c| c == Contender::Ours),
        ("the oracle", &|c| c == Contender::Oracle),
    ];
    let row = |outcome: &Outcome| {
        let seconds = (claim.seconds)(outcome);
        let way = if real { "for real, " } else { "" };
        let what = format!("{way}{}, {}: {}", side.name(), claim.counts, outcome.contender.name());
        let mut row = Row::new(claim.id, what, seconds, "s");
        let mut details = format!("{:.2} replicas in {:.2} bytes", outcome.replicas, outcome.stored);
        if let Some(seconds) = beside_seconds {
            row = row.beside(seconds, Better::Lower);
        }
        if outcome.contender == Contender::Ours {
            details += &format!("; the paper's: {}x", claim.paper);
            if let (Some(beside), Some(seconds)) = (beside, beside_seconds) {
                row = row.goal(seconds / claim.goal, Better::Lower);
                details += &format!(", beside {}", beside.contender.name());
            }
            if let Some(oracle) = oracle {
                details += &format!("; regret {:.1} %", 100.0 * (seconds / (claim.seconds)(oracle) - 1.0));
            }
        }
        if real {
            let (least, most) = outcome.range(claim.seconds);
            details += &format!("; {least:.2} to {most:.2} s");
            let replayed = checked.iter().find(|replayed| replayed.contender == outcome.contender);
            let off = replayed.map(|replayed| 100.0 * ((claim.seconds)(replayed) / seconds - 1.0));
            details += &off.map_or(String::new(), |off| format!("; the replay is {off:+.0} % off"));
        }
        row.details(details)
    };
    let way = if real { " (for real)" } else { "" };
    let title = format!("{}, times quicker than {}", claim.counts, claim.beside.words());
    let bar = |name: &str, outcome: &Outcome| {
        let times = beside_seconds? / (claim.seconds)(outcome);
        Some(Row::bar(claim.id, &title, name, format!("{}{way}", side.name()), times, "times"))
    };
    let those = || kinds.iter().filter_map(|(name, is)| Some((*name, quickest(is)?)));
    let mut rows: Vec<Row> = those().map(|(_, outcome)| row(outcome)).collect();
    // Two rows are equal if the best encoding of all is one of the papers'.
    rows.dedup_by(|next, row| next.what == row.what);
    rows.into_iter().chain(those().filter_map(|(name, outcome)| bar(name, outcome))).collect()
}
