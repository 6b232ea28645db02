//! Datasets in a store: adding, changing, listing, repairing and removing them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Subcommand;
use serde_json::json;
use terrace::Store;
use terrace_datasets::{Dataset, Datasets, Declared};

use super::read_declaration;
use crate::output::{Show, complain, count, note};

#[derive(Subcommand)]
pub enum Stored {
    /// Add the dataset that a file declares to the store, filled with its fill values, or with zeros.
    Add {
        /// A file with a declaration.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Name of the dataset [default: the file's name without its extension].
        #[arg(long)]
        name: Option<String>,
    },
    /// Replace the declared attributes, views and replicas of a dataset. New replicas are made from those that stay.
    Edit {
        /// The dataset.
        name: String,
        /// A file with the new declaration.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List the store's datasets.
    Ls,
    /// Show a dataset: the places of its bytes, and which replicas are not up to date.
    Show {
        /// The dataset.
        name: String,
        /// Print its declaration only.
        #[arg(long)]
        declaration: bool,
    },
    /// Rebuild the damaged, deleted and pending bytes of a dataset's replicas from its other replicas.
    Repair {
        /// The dataset.
        name: String,
        /// Replace bytes that no replica has any more by zeros.
        #[arg(long)]
        accept_loss: bool,
    },
    /// Remove a dataset with all its replicas.
    Rm {
        /// The dataset.
        name: String,
    },
}

/// Runs a command on an open store.
pub fn run(store: &Store, command: &Stored, show: Show) -> Result<bool> {
    let datasets = Datasets::new(store);
    match command {
        Stored::Add { file, name } => {
            let name = name.clone().map_or_else(|| stem(file), Ok)?;
            let dataset = datasets.add_declared(&name, &read_declaration(file, show)?)?;
            let (views, replicas) = (dataset.views()?, dataset.replicas()?);
            let words = format!(
                "added {name}: {} and {}",
                count(views.len() as u64, "view"),
                count(replicas.len() as u64, "replica")
            );
            show.result(&json!({"dataset": name, "views": views}), &words)?;
            Ok(true)
        }
        Stored::Edit { name, file } => {
            let dataset = datasets.open(name)?;
            dataset.change(&read_declaration(file, show)?)?;
            show.result(&json!({"dataset": name}), &format!("changed {name}"))?;
            Ok(true)
        }
        Stored::Ls => {
            let (mut all, mut good) = (Vec::new(), true);
            for name in datasets.list()? {
                let views = match datasets.open(&name).and_then(|dataset| dataset.views()) {
                    Ok(views) => views,
                    Err(error) => {
                        good = false;
                        complain(&format!("{name}: {error}"));
                        continue;
                    }
                };
                show.line(&format!("{name}: {}", views.join(" ")))?;
                all.push(json!({"dataset": name, "views": views}));
            }
            if show.json {
                show.value(&all)?;
            }
            Ok(good)
        }
        Stored::Show { name, declaration } => show_dataset(&datasets.open(name)?, *declaration, show),
        Stored::Repair { name, accept_loss } => repair_dataset(&datasets.open(name)?, *accept_loss, show),
        Stored::Rm { name } => {
            datasets.remove(name)?;
            show.result(&json!({"dataset": name}), &format!("removed {name}"))?;
            Ok(true)
        }
    }
}

/// Opens a dataset by its name, or by the file that declares it.
pub fn open(store: &Store, dataset: &str) -> Result<Dataset> {
    let datasets = Datasets::new(store);
    let is_name = !dataset.contains('/') && datasets.contains(dataset).unwrap_or(false);
    let file = Path::new(dataset);
    if !is_name && file.is_file() { Ok(datasets.open(&stem(file)?)?) } else { Ok(datasets.open(dataset)?) }
}

/// Adds the dataset that a file declares, unless the store has it.
pub fn prepare(store: &Store, dataset: &str, show: Show) -> Result<()> {
    let (datasets, path) = (Datasets::new(store), Path::new(dataset));
    if datasets.contains(dataset).unwrap_or(false) || !path.is_file() {
        return Ok(());
    }
    let name = stem(path)?;
    if datasets.contains(&name)? {
        let stored = Declared::parse(&datasets.open(&name)?.declaration()?)?;
        let same = stored.is_of_same_dataset(&read_declaration(path, show)?);
        ensure!(
            same,
            "the dataset {name} of the store has other variables than {dataset}; `terrace dataset add --name` adds that as another one"
        );
    } else {
        datasets.add_declared(&name, &read_declaration(path, show)?)?;
        if !show.quiet {
            note(&format!("added {dataset} as {name}"));
        }
    }
    Ok(())
}

/// Returns a file's name without its extension.
fn stem(file: &Path) -> Result<String> {
    let stem = file.file_stem().and_then(|stem| stem.to_str());
    stem.map(str::to_owned).with_context(|| format!("{} has no name for a dataset; give --name", file.display()))
}

fn show_dataset(dataset: &Dataset, declaration: bool, show: Show) -> Result<bool> {
    if declaration {
        crate::output::print(dataset.declaration()?.as_bytes())?;
        return Ok(true);
    }
    let explanation = dataset.explain()?;
    let replicas = dataset.replicas()?;
    let words: Vec<String> = replicas
        .iter()
        .map(|(name, keys, behind)| {
            format!("replica {name} is {}{}", keys.join(", "), if *behind { ", and lacks something" } else { "" })
        })
        .collect();
    let value: Vec<_> =
        replicas.iter().map(|(name, keys, behind)| json!({"replica": name, "keys": keys, "behind": behind})).collect();
    let words = format!("{}\n\n{}", explanation.to_string().trim_end(), words.join("\n"));
    show.result(&json!({"dataset": dataset.name(), "explanation": explanation, "replicas": value}), &words)?;
    Ok(true)
}

fn repair_dataset(dataset: &Dataset, accept_loss: bool, show: Show) -> Result<bool> {
    let found = dataset.repair(accept_loss)?;
    let words = format!(
        "{}: {} looked at, {} gone, {} bad, {} with bytes that no replica has",
        dataset.name(),
        count(found.files, "file"),
        found.gone,
        count(found.bad, "part"),
        found.lost
    );
    show.result(&json!({"files": found.files, "gone": found.gone, "bad": found.bad, "lost": found.lost}), &words)?;
    Ok(found.lost == 0 || accept_loss)
}
