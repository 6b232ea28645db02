//! The binary `terrace`: arguments in, engine calls, errors out.

mod arguments;
mod care;
mod copy;
mod dataset;
mod dump;
mod errors;
mod explain;
mod flush;
mod interrupt;
mod log;
mod look;
mod mount;
mod moves;
mod opening;
mod output;
mod predictor;
mod profile;
mod scrub;
mod serve;
mod simulate;
mod view;
mod wishes;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use output::{Show, complain, print, tell_by_json};
use terrace::Store;

/// Exit code where something bad was found, or an operation failed.
const FOUND_BAD: u8 = 1;
/// Exit code where the arguments are wrong; clap's own.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(wrong) => return wrong_usage(&wrong),
    };
    if arguments.json {
        tell_by_json();
    }
    log::begin(&arguments);
    let done = match &arguments.command {
        // These listen for signals themselves; what a mount runs has an exit code.
        Command::Mount(mount) => mount::mount(&arguments, mount),
        Command::Serve(served) => serve::serve(&arguments, served).map(|()| ExitCode::SUCCESS),
        // They become another program, which listens by itself.
        Command::Dump(dump::Dump { care: None, rest }) => dump::become_program(&arguments, "dump", rest).map(exit_code),
        Command::Restore { rest } => dump::become_program(&arguments, "restore", rest).map(exit_code),
        _ => interrupt::listen().context("listening for signals").and_then(|()| run(&arguments)).map(exit_code),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            complain(&errors::describe(&error));
            ExitCode::from(FOUND_BAD)
        }
    }
}

/// Says what is wrong with the arguments, or prints the help that they ask for.
fn wrong_usage(wrong: &clap::Error) -> ExitCode {
    // What cannot be parsed does not tell whether JSON is wanted, but that the word is there.
    if wrong.use_stderr() && env::args_os().any(|argument| argument == "--json") {
        tell_by_json();
        complain(wrong.to_string().trim_start_matches("error: ").trim_end());
        return ExitCode::from(WRONG_USAGE);
    }
    wrong.exit()
}

fn exit_code(good: bool) -> ExitCode {
    if good { ExitCode::SUCCESS } else { ExitCode::from(FOUND_BAD) }
}

/// Runs a command; false where it found something bad.
fn run(arguments: &Arguments) -> Result<bool> {
    let show = Show { json: arguments.json, quiet: arguments.quiet };
    match &arguments.command {
        Command::Init { config } => opening::init(&arguments.store()?, config.as_deref(), show),
        Command::Rebuild { salvage } => care::rebuild(&arguments.store()?, *salvage, show),
        Command::Tiers { change: Some(change) } => moves::tiers(&arguments.store()?, change, show),
        Command::Dataset(command) if !matches!(command, dataset::Dataset::Stored(_)) => dataset::run(command, show),
        Command::View(view::View::Convert(convert)) => view::convert(convert, show),
        Command::Predictor { take } => predictor::predictor(&arguments.store()?, take.as_deref(), show),
        Command::Profile(asked) => profile::profile(&arguments.store()?, asked, show),
        Command::Simulate(asked) => simulate::simulate(asked, show),
        Command::Completions { shell } => completions(*shell),
        Command::Manual { directory } => manual(directory),
        Command::View(view) => {
            let store = opening::open(&arguments.store()?, show)?;
            if let Some(dataset) = view.dataset() {
                dataset::prepare(&store, dataset, show)?;
            }
            view::run(&store, view, show)
        }
        command => with_store(&opening::open(&arguments.store()?, show)?, command, show),
    }
}

/// Runs a command on an open store.
fn with_store(store: &Store, command: &Command, show: Show) -> Result<bool> {
    match command {
        Command::Put(put) => copy::put(store, put, show),
        Command::Get(get) => copy::get(store, get, show),
        Command::Cat { key, range } => copy::cat(store, key, range.as_ref()),
        Command::Ls { prefix, long } => look::ls(store, prefix.as_deref(), *long, show),
        Command::Rm { key, recursive, dry_run } => care::rm(store, key, *recursive, *dry_run, show),
        Command::Mv { from, to } => care::mv(store, from, to, show),
        Command::Check { source, prefix, filter } => copy::check(store, source, prefix, filter, show),
        Command::Sync => care::sync(store, show),
        Command::Dump(dump::Dump { care: Some(care), .. }) => dump::care(store, care, show),
        Command::Flush(asked) => flush::flush(store, asked, show),
        Command::Locate { key } => look::locate(store, key, show),
        Command::Explain(asked) => explain::explain(store, asked, show),
        Command::Hot { prefix, limit } => look::hot(store, prefix.as_deref(), *limit, show),
        Command::Stat { key } => look::stat(store, key, show),
        Command::Status | Command::Tiers { .. } => look::status(store, show),
        Command::Top { interval, count } => look::top(store, *interval, *count, show),
        Command::Stage { prefix, tier } => moves::moved(&store.stage(known(store, prefix)?, tier)?, show),
        Command::Evict { prefix, tier } => moves::moved(&store.evict(known(store, prefix)?, tier)?, show),
        Command::Tune { prefix, all } => {
            moves::tuned(&store.tune(known(store, prefix.as_deref().unwrap_or_default())?, *all)?, show)
        }
        Command::Drain { tier } => moves::moved(&store.drain(tier)?, show),
        Command::Dataset(dataset::Dataset::Stored(command)) => dataset::run_stored(store, command, show),
        Command::Scrub { prefix, repair, subset } => scrub::scrub(store, prefix.as_deref(), *repair, *subset, show),
        Command::Repair { prefix } => scrub::scrub(store, prefix.as_deref(), true, None, show),
        Command::Prune { force } => care::prune(store, *force, show),
        // These need no open store.
        Command::Init { .. } | Command::Rebuild { .. } | Command::Predictor { .. } | Command::Profile(_) => Ok(true),
        Command::Mount(_) | Command::Serve(_) | Command::Dataset(_) | Command::View(_) => Ok(true),
        Command::Dump(_) | Command::Restore { .. } | Command::Simulate(_) => Ok(true),
        Command::Completions { .. } | Command::Manual { .. } => Ok(true),
    }
}

fn known<'a>(store: &Store, prefix: &'a OsStr) -> Result<&'a [u8]> {
    look::there(store, prefix.as_bytes())?;
    Ok(prefix.as_bytes())
}

fn completions(shell: clap_complete::Shell) -> Result<bool> {
    // By way of memory, since the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "terrace", &mut script);
    print(&script).map(|()| true)
}

fn manual(directory: &Path) -> Result<bool> {
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Arguments::command(), directory))
        .with_context(|| format!("writing the manual into {}", directory.display()))?;
    Ok(true)
}
