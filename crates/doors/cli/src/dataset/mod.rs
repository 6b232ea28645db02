//! Declarations of datasets: checking, formatting, explaining and making them; and datasets in a store.

mod report;
mod stored;

pub use stored::{open, prepare, run as run_stored};

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use terrace::Store;
use terrace_datasets::{Datasets, Declared};
use terrace_views::explain::Explanation;
use terrace_views::language::{self, Parsed};
use terrace_views::model::{Model, Sizes};
use terrace_views::{Diagnostics, Sources, explain, import};

use crate::output::{Show, complain, count, note, print};

#[derive(Subcommand)]
pub enum Dataset {
    #[command(flatten)]
    Declared(DeclarationCommand),
    #[command(flatten)]
    Stored(stored::Stored),
}

/// The commands on declarations, mostly without a store.
#[derive(Subcommand)]
pub enum DeclarationCommand {
    /// Check declarations and report all errors.
    Check {
        /// Files with declarations; - is standard input.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
    },
    /// Format declarations in place. With -, format standard input to standard output.
    Fmt {
        /// Files with declarations; - is standard input.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Only list files that are not formatted.
        #[arg(long)]
        check: bool,
    },
    /// Show the layout of views and replicas.
    Explain {
        /// A file with a declaration, - for standard input, or the name of a dataset in the store.
        #[arg(value_name = "FILE|NAME")]
        subject: PathBuf,
        /// Show this view or replica only.
        #[arg(long, value_name = "NAME")]
        only: Option<String>,
        /// Length of an array: the variable that holds it, and its value.
        #[arg(long, value_name = "VARIABLE=N", value_parser = size)]
        size: Vec<(String, u64)>,
    },
    /// Create a declaration from a NumPy, NetCDF or HDF5 file, Zarr metadata, or a C struct.
    ///
    /// Attributes and fill values are taken along. Parts that no declaration can express are left out and reported.
    /// `Store.import_dataset` in Python adds the dataset with its values.
    Import {
        /// The file, or the folder of a Zarr store.
        #[arg(value_name = "FILE")]
        source: PathBuf,
        /// Format of the file [default: detected from its name and first bytes].
        #[arg(long)]
        from: Option<import::Format>,
        /// For a C header: number of structs in the data file.
        #[arg(long, value_name = "N", default_value_t = 1000)]
        count: u64,
    },
}

/// The largest declaration or metadata file that is read.
const MAX_DECLARATION_BYTES: u64 = 16 << 20;

/// Parses the length of a variable array.
pub fn size(text: &str) -> Result<(String, u64), String> {
    let wrong = || format!("{text:?} is no size; write it as n=1000");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    Ok((name.to_owned(), value.parse().map_err(|_| wrong())?))
}

/// Runs a command; `opened` opens the store if the command needs one.
pub fn run(command: &DeclarationCommand, opened: &dyn Fn() -> Result<Store>, show: Show) -> Result<bool> {
    match command {
        DeclarationCommand::Check { files } => check(files, show),
        DeclarationCommand::Fmt { files, check } => fmt(files, *check, show),
        DeclarationCommand::Explain { subject, only, size } => {
            let explanation = match is_file(subject) {
                true => explain_file(subject, size, show)?,
                false => Some(explain_stored(subject, size, opened)?),
            };
            explanation.map_or(Ok(false), |explanation| show_explanation(explanation, only.as_deref(), show))
        }
        DeclarationCommand::Import { source, from, count } => import_file(source, *from, *count, show),
    }
}

/// Reads a text file of a user.
fn read_text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().take(MAX_DECLARATION_BYTES + 1).read_to_end(&mut bytes).context("reading stdin")?;
    } else {
        let opened = fs::File::open(path).and_then(|file| file.take(MAX_DECLARATION_BYTES + 1).read_to_end(&mut bytes));
        opened.with_context(|| format!("reading {}", path.display()))?;
    }
    ensure!(
        bytes.len() as u64 <= MAX_DECLARATION_BYTES,
        "{} is larger than 16 MiB; a declaration is not",
        path.display()
    );
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8; save it as UTF-8", path.display()))
}

/// Reads and checks a declaration with all its includes.
fn read_model(path: &Path) -> Result<(Option<Declared>, Sources, Diagnostics)> {
    let mut load =
        |name: &str| read_text(Path::new(name)).map_err(|error| io::Error::other(format!("{:#}", error.root_cause())));
    Ok(terrace_datasets::read_declaration(&path.display().to_string(), read_text(path)?, &mut load))
}

/// Reads a declaration, reports its diagnostics, and fails if it has errors.
pub fn read_declaration(path: &Path, show: Show) -> Result<Declared> {
    let (declared, sources, diagnostics) = read_model(path)?;
    report::report(&sources, diagnostics, show)?;
    declared.with_context(|| format!("{} has errors", path.display()))
}

fn check(files: &[PathBuf], show: Show) -> Result<bool> {
    let mut good = true;
    for path in files {
        let (model, sources, diagnostics) = read_model(path)?;
        report::report(&sources, diagnostics, show)?;
        good &= model.is_some();
        if let Some(Declared { model, .. }) = model {
            let (views, replicas) =
                (count(model.views.len() as u64, "view"), count(model.replicas.len() as u64, "replica"));
            show.line(&format!("{}: {views} and {replicas}, no errors", path.display()))?;
        }
    }
    Ok(good)
}

fn fmt(files: &[PathBuf], check: bool, show: Show) -> Result<bool> {
    let mut good = true;
    for path in files {
        let old = read_text(path)?;
        let mut diagnostics = Diagnostics::default();
        let parsed: Parsed = language::parse(&old, 0, &mut diagnostics);
        if diagnostics.failed() {
            let sources = vec![terrace_views::Source { name: path.display().to_string(), text: old }];
            report::report(&sources, diagnostics, show)?;
            good = false;
            continue;
        }
        let new = language::print(&parsed);
        if path == Path::new("-") && !check {
            print(new.as_bytes())?;
        } else if new != old && check {
            complain(&format!("{} is not formatted", path.display()));
            good = false;
        } else if new != old {
            replace(path, &new)?;
        }
    }
    Ok(good)
}

/// Replaces a file atomically.
fn replace(path: &Path, text: &str) -> Result<()> {
    let real = fs::canonicalize(path).with_context(|| format!("reading {}", path.display()))?;
    let mut name = real.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let new = real.with_file_name(name);
    let written = fs::write(&new, text)
        .and_then(|()| fs::set_permissions(&new, fs::metadata(&real)?.permissions()))
        .and_then(|()| fs::rename(&new, &real));
    if written.is_err() {
        // The error of the write is the one to report. At worst a temporary file is left, whose name tells what it is.
        let _ = fs::remove_file(&new);
    }
    written.with_context(|| format!("writing {}", path.display()))
}

/// Returns whether the subject is a declaration file rather than a dataset of the store.
fn is_file(subject: &Path) -> bool {
    subject == Path::new("-") || subject.components().count() != 1 || subject.exists()
}

/// Explains a declaration without errors.
fn explain_file(path: &Path, sizes: &[(String, u64)], show: Show) -> Result<Option<Explanation>> {
    let (declared, sources, diagnostics) = read_model(path)?;
    let Some(Declared { model, .. }) = declared else {
        report::report(&sources, diagnostics, show)?;
        return Ok(None);
    };
    let known = self::sizes(&model, sizes)?;
    Ok(Some(explain::explain(&model, &known).context("with these sizes")?))
}

/// Explains a dataset of the store with its present array lengths.
fn explain_stored(subject: &Path, sizes: &[(String, u64)], opened: &dyn Fn() -> Result<Store>) -> Result<Explanation> {
    let name = subject.to_string_lossy();
    let store = opened()?;
    let datasets = Datasets::new(&store);
    ensure!(
        datasets.contains(&name)?,
        "there is neither a file nor a dataset {name:?}; `terrace dataset ls` lists the store's datasets"
    );
    ensure!(sizes.is_empty(), "the dataset {name:?} says itself how long its arrays are; leave --size out");
    Ok(datasets.open(&name)?.explain()?)
}

fn show_explanation(mut explanation: Explanation, only: Option<&str>, show: Show) -> Result<bool> {
    if let Some(only) = only {
        explanation.views.retain(|view| view.name == only);
        explanation.replicas.retain(|replica| replica.name == only);
        if explanation.views.is_empty() && explanation.replicas.is_empty() {
            bail!("there is no view or replica {only:?}; `terrace dataset explain` without --only shows all");
        }
    }
    show.result(&explanation, explanation.to_string().trim_end())?;
    Ok(true)
}

/// Returns the given lengths of variable arrays.
pub fn sizes(model: &Model, given: &[(String, u64)]) -> Result<Sizes> {
    let mut known = Sizes::new();
    for (name, value) in given {
        let variable = model.dataset.variable(name);
        let number =
            variable.with_context(|| format!("{name:?} is no variable of the dataset; name one that is a length"))?;
        known.insert(number, *value);
    }
    Ok(known)
}

fn import_file(source: &Path, from: Option<import::Format>, count: u64, show: Show) -> Result<bool> {
    let imported = import::import(source, from, count).with_context(|| format!("importing {}", source.display()))?;
    if !show.quiet {
        imported.left_out.iter().for_each(|what| note(&format!("left out: {what}")));
    }
    print(imported.declaration.as_bytes())?;
    Ok(true)
}
