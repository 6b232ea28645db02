//! The binary `terrace`: arguments in, engine calls, errors out.

mod arguments;
mod care;
mod copy;
mod look;
mod moves;
mod output;

use std::process::ExitCode;

use anyhow::{Context, Result};
use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use terrace::{Config, Store};

/// Exit code where something bad was found, or an operation failed. Usage errors are clap's 2.
const FOUND_BAD: u8 = 1;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log(arguments.verbose);
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FOUND_BAD),
        Err(error) => {
            // A reader that has gone away is no error of ours.
            let pipe = error
                .root_cause()
                .downcast_ref::<std::io::Error>()
                .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe);
            if !pipe {
                eprintln!("terrace: {error:#}");
            }
            ExitCode::from(FOUND_BAD)
        }
    }
}

/// Warnings, or what TERRACE_LOG or -v ask for, go to stderr.
fn log(verbose: u8) {
    let usual = ["terrace=warn", "terrace=info", "terrace=debug"][usize::from(verbose.min(2))];
    let filter = tracing_subscriber::EnvFilter::try_from_env("TERRACE_LOG").unwrap_or_else(|_| usual.into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).without_time().init();
}

/// Runs a command; false where it found something bad.
fn run(arguments: &Arguments) -> Result<bool> {
    let dir = arguments.store()?;
    let json = arguments.json;
    let show = output::Show { json, quiet: arguments.quiet };
    match &arguments.command {
        Command::Init { config } => init(&dir, config.as_deref(), show),
        Command::Rebuild => care::rebuild(&dir, show),
        Command::Tiers { change: Some(change) } => moves::tiers(&dir, change, show),
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Arguments::command(), "terrace", &mut std::io::stdout());
            Ok(true)
        }
        Command::Manual { directory } => {
            clap_mangen::generate_to(Arguments::command(), directory)
                .with_context(|| format!("writing the manual into {}", directory.display()))?;
            Ok(true)
        }
        command => {
            let store = open(&dir)?;
            let good = match command {
                Command::Put(put) => copy::put(&store, put, show)?,
                Command::Get(get) => copy::get(&store, get, show)?,
                Command::Cat { key, range } => copy::cat(&store, key, range.as_ref())?,
                Command::Ls { prefix, long } => look::ls(&store, prefix.as_deref(), *long, show)?,
                Command::Rm { key, recursive, dry_run } => care::rm(&store, key, *recursive, *dry_run, show)?,
                Command::Mv { from, to } => care::mv(&store, from, to)?,
                Command::Check { source, prefix, filter } => copy::check(&store, source, prefix, filter, show)?,
                Command::Sync => care::sync(&store, show)?,
                Command::Locate { key } => look::locate(&store, key, show)?,
                Command::Stat { key } => look::stat(&store, key, show)?,
                Command::Status | Command::Tiers { change: None } => look::status(&store, show)?,
                Command::Top { interval, count } => look::top(&store, *interval, *count, show)?,
                Command::Stage { prefix, tier } => moves::moved(&store.stage(prefix.as_bytes(), tier)?, show)?,
                Command::Evict { prefix, tier } => moves::moved(&store.evict(prefix.as_bytes(), tier)?, show)?,
                Command::Drain { tier } => moves::moved(&store.drain(tier)?, show)?,
                Command::Scrub { prefix, repair, subset } => {
                    care::scrub(&store, prefix.as_deref(), *repair, *subset, show)?
                }
                Command::Repair { prefix } => care::scrub(&store, prefix.as_deref(), true, None, show)?,
                Command::Init { .. }
                | Command::Rebuild
                | Command::Tiers { .. }
                | Command::Completions { .. }
                | Command::Manual { .. } => true,
            };
            Ok(good)
        }
    }
}

fn init(dir: &std::path::Path, config: Option<&std::path::Path>, show: output::Show) -> Result<bool> {
    let config = match config {
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            Config::parse(&text, &path.display().to_string())?
        }
        None => discover(dir)?,
    };
    Store::init(dir, &config)?;
    show.line(&format!("a store with {} tiers is ready in {}", config.tiers.len(), dir.display()));
    Ok(true)
}

/// Opens the store; the one in the user's data directory is made when it is first used.
fn open(dir: &std::path::Path) -> Result<Store> {
    if !dir.join("store").exists() && dir == arguments::default_store()?.as_path() {
        let config = discover(dir)?;
        return Ok(Store::init(dir, &config)?);
    }
    Ok(Store::open(dir)?)
}

fn discover(dir: &std::path::Path) -> Result<Config> {
    let (config, why) =
        Config::discover(dir).with_context(|| format!("looking for tiers for a store in {}", dir.display()))?;
    for reason in why {
        eprintln!("tier {reason}");
    }
    Ok(config)
}
