//! Measures what Terrace claims: each figure beside the paper's, or beside the tool that it would replace.
//!
//! Both sides of a ratio are measured in one run, alternating.

mod claims;
mod oracle;
mod place;
mod report;
mod row;
mod timing;
mod workers;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
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
    let mut rows = Vec::new();
    for (id, what, run) in chosen {
        eprintln!("{id}: {what}");
        rows.extend(run().with_context(|| format!("measuring {id}"))?);
    }
    if let Some(folder) = &arguments.write {
        report::write(folder, &rows)?;
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        println!("{}", row::table(&rows));
    }
    Ok(())
}
