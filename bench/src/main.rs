//! Measures Terrace's claims: each figure beside the paper's, or beside the tool that Terrace would replace.
//!
//! Both sides of a ratio are measured in one run, alternating.

mod claims;
mod evaluation;
mod oracle;
mod place;
mod report;
mod row;
mod server;
mod size;
mod timing;
mod workers;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use claims::{cluster, h4, preload, small, throttle};
use workers::{Assignment, Work};

/// Does the work of a worker.
type CarryOut = fn(&Assignment) -> Result<()>;

/// The kinds of work for workers, by name.
const WORK_KINDS: [(&str, CarryOut); 6] = [
    (h4::Work::WORK_NAME, Assignment::carry_out::<h4::Work>),
    (small::Work::WORK_NAME, Assignment::carry_out::<small::Work>),
    (cluster::NodeWork::WORK_NAME, Assignment::carry_out::<cluster::NodeWork>),
    (throttle::Work::WORK_NAME, Assignment::carry_out::<throttle::Work>),
    (preload::Work::WORK_NAME, Assignment::carry_out::<preload::Work>),
    (evaluation::Work::WORK_NAME, Assignment::carry_out::<evaluation::Work>),
];

/// Measure Terrace's claims.
#[derive(Parser)]
#[command(name = "terrace-bench")]
struct Arguments {
    /// The claims to measure; all if none is given.
    ids: Vec<String>,
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Also write benchmarks.json into this folder, and render benchmarks.md and the plots from it.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// Measure nothing: render benchmarks.md and the plots from this folder's benchmarks.json.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["ids", "write", "json", "list"])]
    render: Option<PathBuf>,
    /// The time that measuring may take: minutes, less than an hour, or as long as necessary.
    #[arg(long, value_enum, default_value = "usual")]
    size: size::Size,
    /// List the claims.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    if let Some(assignment) = workers::assignment()? {
        let kind = WORK_KINDS.iter().find(|(name, _)| *name == assignment.name);
        let (_, carry_out) = kind.with_context(|| format!("there is no work {:?}", assignment.name))?;
        return carry_out(&assignment);
    }
    let arguments = Arguments::parse();
    if arguments.list {
        for claims::Measurement { id, title, .. } in claims::ALL_MEASUREMENTS {
            println!("{id:<10} {title}");
        }
        return Ok(());
    }
    if let Some(folder) = &arguments.render {
        return report::render(folder);
    }
    arguments.size.set();
    let mut chosen = Vec::new();
    for id in &arguments.ids {
        match claims::ALL_MEASUREMENTS.iter().find(|known| known.id.eq_ignore_ascii_case(id)) {
            Some(measurement) => chosen.push(measurement),
            None => bail!("there is no {id:?}; --list shows what there is"),
        }
    }
    if chosen.is_empty() {
        chosen.extend(claims::ALL_MEASUREMENTS);
    }
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for claims::Measurement { id, title, run, page_rows, .. } in chosen {
        eprintln!("{id}: {title}");
        place::warm_memory()?;
        match run() {
            Ok(measured) => {
                for lacking in page_rows.iter().filter(|page_row| measured.iter().all(|row| row.what != page_row.what))
                {
                    eprintln!("{id}: docs/benchmarks.md shows a row that was not measured: {}", lacking.what);
                }
                if let Some(folder) = &arguments.write {
                    report::write(folder, &measured)?;
                }
                rows.extend(measured);
            }
            // A claim that fails does not keep the others from being measured.
            Err(error) => {
                eprintln!("{id}: {error:#}");
                failed.push(*id);
            }
        }
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        println!("{}", row::table(&rows));
    }
    ensure!(failed.is_empty(), "not measured: {}", failed.join(", "));
    Ok(())
}
