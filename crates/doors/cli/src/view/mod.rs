//! Views: reading and writing datasets in any of their layouts.

mod convert;

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use terrace::{NewFile, Store};

pub use convert::convert;

use crate::dataset;
use crate::output::{Show, size};
use crate::range::{Range, bounds, parse_range};

#[derive(Subcommand)]
pub enum View {
    #[command(flatten)]
    Stored(StoredView),
    /// Convert a file from one view's layout to another's, without a store.
    Convert(Convert),
}

/// The commands on a dataset of the store.
#[derive(Subcommand)]
pub enum StoredView {
    /// Read a view.
    Read {
        /// A dataset, or a file with its declaration; the dataset is added if the store does not have it.
        dataset: String,
        /// The view.
        view: String,
        /// Read bytes A to B only; B itself is left out.
        #[arg(long, value_name = "A-B", value_parser = parse_range)]
        range: Option<Range>,
        /// Write to this file [default: -, standard output].
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Write to a view. Every replica of the dataset is updated.
    Write {
        /// A dataset, or a file with its declaration; the dataset is added if the store does not have it.
        dataset: String,
        /// The view.
        view: String,
        /// Read the bytes from this file [default: -, standard input].
        file: Option<PathBuf>,
        /// Begin at this byte of the view.
        #[arg(long, value_name = "BYTE", default_value_t = 0)]
        at: u64,
    },
    /// Export a view to a file that other tools read.
    Export {
        /// A dataset, or a file with its declaration; the dataset is added if the store does not have it.
        dataset: String,
        /// The view.
        view: String,
        /// The format of the file.
        #[arg(value_enum)]
        format: Format,
        /// The file to create, or the folder for Zarr.
        output: PathBuf,
    },
}

/// The formats of exports.
#[derive(Clone, Copy, ValueEnum)]
pub enum Format {
    /// An HDF5 file: a dataset for each variable.
    Hdf5,
    /// A Zarr 3 store: an array for each member.
    Zarr,
    /// References for kerchunk into a replica that is a plain file, without a copy.
    References,
}

#[derive(Args)]
pub struct Convert {
    /// A file with the dataset's declaration.
    pub declaration: PathBuf,
    /// The view whose layout the input file has.
    pub from: String,
    /// The input file.
    pub source: PathBuf,
    /// The view whose layout the output file gets.
    pub to: String,
    /// The output file.
    pub output: PathBuf,
    /// Length of an array: the variable that holds it, and its value.
    #[arg(long, value_name = "VARIABLE=N", value_parser = dataset::size)]
    pub size: Vec<(String, u64)>,
}

/// The size of one step; each such write is atomic.
const STEP_BYTES: usize = 4 << 20;

impl StoredView {
    /// Returns the name of the dataset, or of the file with its declaration.
    fn dataset(&self) -> &str {
        match self {
            StoredView::Read { dataset, .. }
            | StoredView::Write { dataset, .. }
            | StoredView::Export { dataset, .. } => dataset,
        }
    }
}

/// Runs a command on an open store.
pub fn run(store: &Store, command: &StoredView, show: Show) -> Result<bool> {
    dataset::prepare(store, command.dataset(), show)?;
    match command {
        StoredView::Read { dataset, view, range, output } => {
            let view = dataset::open(store, dataset)?.view(view)?;
            match output.as_deref().filter(is_file_path) {
                // Nothing else prints to stdout meanwhile.
                None => read(&view, range.as_ref(), &mut io::stdout().lock()),
                Some(path) => {
                    let context = || format!("making {}", path.display());
                    let (start, end) = ends(&view, range.as_ref())?;
                    let mut file = NewFile::create(path, end - start).with_context(context)?;
                    read(&view, range.as_ref(), &mut file).with_context(context)?;
                    file.finish().with_context(context)?;
                    Ok(true)
                }
            }
        }
        StoredView::Write { dataset, view, file, at } => {
            let view = dataset::open(store, dataset)?.view(view)?;
            let written = match file.as_deref().filter(is_file_path) {
                // Only this thread reads stdin.
                None => write(&view, *at, &mut io::stdin().lock())?,
                Some(path) => {
                    let mut file = File::open(path).with_context(|| format!("reading {}", path.display()))?;
                    write(&view, *at, &mut file)?
                }
            };
            view.dataset().settle()?;
            let words = format!("wrote {} to {} of {}", size(written), view.name(), view.dataset().name());
            show.result(&json!({"bytes": written}), &words)?;
            Ok(true)
        }
        StoredView::Export { dataset, view, format, output } => {
            let view = dataset::open(store, dataset)?.view(view)?;
            let format = match format {
                Format::Hdf5 => terrace_datasets::Format::Hdf5,
                Format::Zarr => terrace_datasets::Format::Zarr,
                Format::References => terrace_datasets::Format::References,
            };
            view.export(format, output)?;
            show.result(&json!({"made": output}), &format!("made {}", output.display()))?;
            Ok(true)
        }
    }
}

/// Returns whether a path names a file rather than `-`, which is stdin or stdout.
fn is_file_path(path: &&Path) -> bool {
    *path != Path::new("-")
}

/// Returns the first byte to read, and the end.
fn ends(view: &terrace_datasets::View, range: Option<&Range>) -> Result<(u64, u64)> {
    let length = view.length()?;
    let (start, end) = bounds(range);
    let end = end.unwrap_or(length).min(length);
    Ok((start.min(end), end))
}

fn read(view: &terrace_datasets::View, range: Option<&Range>, out: &mut impl Write) -> Result<bool> {
    let (start, end) = ends(view, range)?;
    let mut buffer = vec![0; STEP_BYTES.min(end.saturating_sub(start) as usize)];
    let mut at = start;
    while at < end {
        let want = (end - at).min(STEP_BYTES as u64) as usize;
        let piece = buffer.get_mut(..want).unwrap_or_default();
        let got = view.read_at(at, piece)?;
        ensure!(got > 0, "the view has become shorter while it was read");
        match out.write_all(piece.get(..got).unwrap_or_default()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(true),
            written => written.context("writing what was read")?,
        }
        at += got as u64;
    }
    out.flush().context("writing what was read")?;
    Ok(true)
}

fn write(view: &terrace_datasets::View, at: u64, source: &mut impl Read) -> Result<u64> {
    let mut buffer = Vec::with_capacity(STEP_BYTES);
    let mut written = 0;
    loop {
        buffer.clear();
        source.take(STEP_BYTES as u64).read_to_end(&mut buffer).context("reading what is to be written")?;
        if buffer.is_empty() {
            return Ok(written);
        }
        if let Err(error) = view.write_at(at + written, &buffer) {
            let error = anyhow::Error::from(error);
            match written {
                0 => bail!(error),
                _ => return Err(error.context(format!("{written} bytes were written before this"))),
            }
        }
        written += buffer.len() as u64;
    }
}
