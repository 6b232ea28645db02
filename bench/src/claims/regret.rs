//! Regret: the cost of our choices divided by the cost of the best ones, less 1, as a mean over kinds of data and objectives.
//! An oracle runs every encoding to find the best ones. The best fixed encoding is chosen in hindsight for each objective.

use anyhow::Result;
use terrace_cost::{Objective, TargetRates, Weights};

use crate::oracle::{Mode, Oracle, Outcomes, PIECE_BYTES};
use crate::row::{Better, PageRow, Row};

/// The bandwidths of the tiers for writes and for reads, in MB/s.
const TIER_RATES_MB: [(f64, f64); 4] = [(1.0, 1.0), (60.0, 120.0), (500.0, 500.0), (2500.0, 2500.0)];
/// How often the objectives expect written data to be read.
const READ_COUNTS: [f64; 3] = [0.0, 1.0, 10.0];
/// The number of pieces in a block when ours is compared with BTune.
const BTUNE_BLOCK_PIECES: usize = 4;

pub const PAGE_ROWS: &[PageRow] = &[PageRow::real(
    "regret",
    "blocks of 1024 KiB: the planner's, effort included",
    "Extra cost of chosen encodings over the best possible, beside the best fixed one",
)];

pub fn run() -> Result<Vec<Row>> {
    let Some(oracle) = Oracle::get()? else { return Ok(Vec::new()) };
    let mut rows = Vec::new();
    for pieces in [4, 1] {
        rows.extend(contest(oracle, pieces));
    }
    rows.extend(beside_btune(oracle)?);
    Ok(rows)
}

/// Compares ours with BTune, for each objective with the setting of BTune that turned out best.
fn beside_btune(oracle: &Oracle) -> Result<Option<Row>> {
    let settings = oracle.btune()?;
    if settings.is_empty() {
        return Ok(None);
    }
    let objectives = objectives();
    let theirs = objectives.iter().map(|(_, objective)| {
        let regrets = settings.iter().map(|streams| oracle.regret_of(streams, BTUNE_BLOCK_PIECES, objective));
        regrets.fold(f64::INFINITY, f64::min)
    });
    let ours =
        objectives.iter().map(|(_, objective)| oracle.ours(BTUNE_BLOCK_PIECES, objective, Mode::Long).mean(true));
    let what = format!(
        "blocks of {} KiB: streams of 16 MiB, effort included, beside Blosc2's BTune",
        (BTUNE_BLOCK_PIECES * PIECE_BYTES) >> 10
    );
    let row = Row::new("regret", what, mean(ours), "%").beside(mean(theirs), Better::Lower);
    let details =
        format!("BTune is told the width of elements; the best of {} settings for each objective", settings.len());
    Ok(Some(row.details(details)))
}

/// Lists all objectives: each tier with each number of reads, and size by itself.
pub fn objectives() -> Vec<(String, Objective)> {
    let tier = |write: f64, read: f64| TargetRates::from_speeds(write * 1e6, read * 1e6, 0.0);
    let mut objectives = Vec::new();
    for (write, read) in TIER_RATES_MB {
        objectives.extend(
            READ_COUNTS.map(|reads| (format!("{write:.0}/{read:.0} MB/s"), Objective::time(tier(write, read), reads))),
        );
    }
    objectives
        .push(("size alone".to_owned(), Objective { weights: Weights::ARCHIVAL, target: tier(1.0, 1.0), reads: 0.0 }));
    objectives
}

fn contest(oracle: &Oracle, pieces: usize) -> Vec<Row> {
    let objectives = objectives();
    let block = format!("blocks of {} KiB", (pieces * PIECE_BYTES) >> 10);
    let fixed: Vec<f64> = objectives.iter().map(|(_, objective)| oracle.fixed(pieces, objective).1).collect();
    let of = |mode| objectives.iter().map(|(_, objective)| oracle.ours(pieces, objective, mode)).collect::<Vec<_>>();
    let [each, files, long, planned] = [Mode::Each, Mode::Files, Mode::Long, Mode::Planned].map(of);
    let best_fixed = mean(fixed.iter().copied());
    let row = |what: &str, outcomes: &[Outcomes], with_effort: bool| {
        let ours = mean(outcomes.iter().map(|outcomes| outcomes.mean(with_effort)));
        Row::new("regret", format!("{block}: {what}"), ours, "%").beside(best_fixed, Better::Lower)
    };
    let effort = |outcomes: &[Outcomes]| {
        let share = mean(outcomes.iter().map(Outcomes::share));
        Row::new("regret", format!("{block}: effort on streams of 16 MiB, of the time to move them"), share, "%")
    };
    let mut rows = vec![
        row("each for itself, all the effort it takes", &each, false)
            .goal(2.0, Better::Lower)
            .details(format!("beside: the best fixed encoding; {}", worst(&each))),
        row("streams of 16 MiB, chosen again only where they change", &long, false)
            .goal(2.3, Better::Lower)
            .details(worst(&long)),
        row("the same, effort included", &long, true).goal(4.0, Better::Lower).details("the fixed choice takes none"),
        row("streams of 16 MiB, chosen by the store's planner", &planned, false)
            .goal(2.3, Better::Lower)
            .details(worst(&planned)),
        row("the planner's, effort included", &planned, true)
            .goal(4.0, Better::Lower)
            .details("the fixed choice takes none"),
        effort(&long).goal(2.0, Better::Lower),
        row("whole files as they are, effort included", &files, true).details("0.02 to 3.6 MB: most earn no effort"),
        worst_kind(&block, "each for itself", &each),
        worst_kind(&block, "streams of 16 MiB", &long),
    ];
    for (name, _) in objectives.iter().step_by(READ_COUNTS.len()) {
        let at = |all: &[f64]| mean(objectives.iter().zip(all).filter(|(o, _)| o.0 == *name).map(|(_, r)| *r));
        let ours: Vec<f64> = long.iter().map(|outcomes| outcomes.mean(true)).collect();
        let row = Row::new("regret", format!("{block}: streams of 16 MiB, effort included, {name}"), at(&ours), "%");
        rows.push(row.beside(at(&fixed), Better::Lower).details(if name.contains('/') {
            "mean of 0, 1 and 10 reads"
        } else {
            ""
        }));
    }
    rows
}

/// Finds the kind of data with the most regret over all objectives, and its regret.
fn worst_of(all: &[Outcomes]) -> (String, f64) {
    let kinds = all.first().into_iter().flat_map(|outcomes| outcomes.regrets(false)).map(|(kind, _)| kind);
    let of = |kind: &str| {
        mean(all.iter().filter_map(|o| o.regrets(false).find(|(k, _)| *k == kind)).map(|(_, regret)| regret))
    };
    let worst = kinds.map(|kind| (kind.to_owned(), of(kind))).max_by(|a, b| a.1.total_cmp(&b.1));
    worst.unwrap_or_default()
}

fn worst(all: &[Outcomes]) -> String {
    let (kind, regret) = worst_of(all);
    format!("worst kind: {kind}, {regret:.1} %")
}

fn worst_kind(block: &str, what: &str, all: &[Outcomes]) -> Row {
    let (kind, regret) = worst_of(all);
    let row = Row::new("regret", format!("{block}: {what}, the worst kind of data"), regret, "%");
    row.goal(10.0, Better::Lower).details(kind)
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = figures.fold((0.0, 0.0), |(sum, count), figure| (sum + figure, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}
