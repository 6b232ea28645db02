//! Measures what Terrace claims: each figure beside the paper's, or beside the tool that it would replace.
//!
//! Both sides of a ratio are measured in one run, alternating.

mod claims;
mod evaluation;
mod oracle;
mod place;
mod report;
mod row;
mod size;
mod timing;
mod workers;

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use clap::Parser;

/// Measures what Terrace claims.
#[derive(Parser)]
#[command(name = "terrace-bench")]
struct Arguments {
    /// What to measure; everything where none is named.
    ids: Vec<String>,
    /// Print the rows as JSON.
    #[arg(long)]
    json: bool,
    /// Write benchmarks.json, benchmarks.md and plots into this folder, too.
    #[arg(long, value_name = "FOLDER")]
    write: Option<PathBuf>,
    /// How long it may take: minutes, less than an hour, or as long as it takes.
    #[arg(long, value_enum, default_value = "usual")]
    size: size::Size,
    /// What there is to measure.
    #[arg(long)]
    list: bool,
}

fn main() -> Result<()> {
    if let Some(task) = workers::task()? {
        return workers::work(&task);
    }
    let arguments = Arguments::parse();
    if arguments.list {
        for (id, what, _) in claims::ALL {
            println!("{id:<10} {what}");
        }
        return Ok(());
    }
    arguments.size.set();
    let mut chosen = Vec::new();
    for id in &arguments.ids {
        match claims::ALL.iter().find(|(known, ..)| known.eq_ignore_ascii_case(id)) {
            Some(claim) => chosen.push(claim),
            None => bail!("there is no {id:?}; --list shows what there is"),
        }
    }
    if chosen.is_empty() {
        chosen.extend(claims::ALL);
    }
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for (id, what, run) in chosen {
        eprintln!("{id}: {what}");
        match run() {
            Ok(measured) => {
                if let Some(folder) = &arguments.write {
                    report::write(folder, &measured)?;
                }
                rows.extend(measured);
            }
            // What else there is to measure says as much without it.
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
