//! The binary `terrace`: parses arguments, calls the engine, and reports errors.

mod advise;
mod arguments;
mod at_once;
mod care;
mod cluster;
mod copy;
mod dataset;
mod dump;
mod errors;
mod explain;
mod flush;
mod globals;
mod health;
mod help;
mod inspect;
mod interrupt;
mod job;
mod job_arguments;
mod log;
mod mount;
mod moves;
mod node;
mod objects;
mod opening;
mod origin;
mod output;
mod predictor;
mod profile;
mod range;
mod run;
mod sample;
mod serve;
mod simulate;
mod staging;
mod view;
mod wishes;

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use arguments::{Arguments, ClusterCommand, Command, StoreCommand};
use clap::{CommandFactory, FromArgMatches};
use dump::{Dump, OtherDump};
use job_arguments::Job;
use output::{Show, complain, print, use_json_messages};
use terrace::Store;

/// The exit code if damage was found or an operation failed.
const FOUND_BAD: u8 = 1;
/// The exit code for wrong arguments, which is also clap's.
const WRONG_USAGE: u8 = 2;

fn main() -> ExitCode {
    let parsed = help::command().try_get_matches().and_then(|found| Arguments::from_arg_matches(&found));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(wrong) => return wrong_usage(&wrong),
    };
    if arguments.globals.json {
        use_json_messages();
    }
    log::begin(&arguments.globals);
    match run(&arguments) {
        Ok(code) => code,
        Err(error) => {
            complain(&errors::describe(&error));
            ExitCode::from(FOUND_BAD)
        }
    }
}

/// Reports wrong arguments, or prints the requested help.
fn wrong_usage(wrong: &clap::Error) -> ExitCode {
    // After a parse error only the presence of the word `--json` shows that JSON is wanted.
    if wrong.use_stderr() && env::args_os().any(|argument| argument == "--json") {
        use_json_messages();
        complain(wrong.to_string().trim_start_matches("error: ").trim_end());
        return ExitCode::from(WRONG_USAGE);
    }
    wrong.exit()
}

/// Runs a command.
fn run(arguments: &Arguments) -> Result<ExitCode> {
    let show = Show { json: arguments.globals.json, quiet: arguments.globals.quiet };
    let store = || arguments.globals.store();
    let opened = || opening::open(&arguments.globals.store()?, show);
    // A command ends before what it has dropped is old enough for the background to free it.
    let in_store = |command: &dyn Fn(&Store) -> Result<bool>| {
        let store = opened()?;
        let done = command(&store);
        let is_partial = store.has_left_out_folders();
        store.leave();
        if is_partial {
            output::complain("folders of an origin are left out: it does not answer, or refuses to show them");
        }
        done.map(|good| good && !is_partial)
    };
    match &arguments.command {
        // These commands listen for signals themselves; a mount and `run` return the exit code of their program.
        Command::Mount(mount) => mount::mount(&arguments.globals, mount),
        Command::Run(wanted) => run::run(&arguments.globals, wanted),
        Command::Serve(served) => serve::serve(&arguments.globals, served).map(|()| ExitCode::SUCCESS),
        Command::Node(node::Node { change: Some(change), .. }) => stoppable(|| moves::node(&opened()?, change, show)),
        Command::Cluster { asked: ClusterCommand::Status { wait: None } } => {
            stoppable(|| cluster::status(&opened()?, show))
        }
        Command::Cluster { asked: ClusterCommand::Status { wait: Some(time) } } => {
            stoppable(|| cluster::status(&cluster::wait_for_nodes(&store()?, *time)?, show))
        }
        Command::Cluster { asked: ClusterCommand::Upgrade } => stoppable(|| cluster::upgrade(&store()?, show)),
        Command::Cluster { asked: ClusterCommand::Recover { force } } => {
            stoppable(|| cluster::recover(&store()?, *force, show))
        }
        Command::Cluster { asked: ClusterCommand::Up(asked) } => Ok(exit_code(job::up(asked)?)),
        Command::Cluster { asked: ClusterCommand::Down(asked) } => stoppable(|| job::down(&store()?, asked, show)),
        Command::Job { asked: Job::Start(asked) } => {
            stoppable(|| in_store(&|store| staging::start(store, asked, show)))
        }
        Command::Job { asked: Job::End(asked) } => staging::end(opened, asked, show).map(ExitCode::from),
        Command::Node(asked) => node::node(&arguments.globals, asked).map(|()| ExitCode::SUCCESS),
        Command::Health(asked) => {
            interrupt::listen().context("listening for signals")?;
            health::health(&opened()?, asked, show).map(ExitCode::from)
        }
        // These commands replace the process by another program, which handles signals itself.
        Command::Dump(Dump { other: None | Some(OtherDump::Flow(_)), .. }) | Command::Restore(_) => {
            dump::become_program(&arguments.globals).map(|never| match never {})
        }
        Command::Dump(Dump { other: Some(OtherDump::Run(flags)), .. }) => {
            run::dumped::become_program(&arguments.globals, flags).map(|never| match never {})
        }
        Command::Dump(Dump { other: Some(OtherDump::Care(care)), .. }) => {
            stoppable(|| in_store(&|store| dump::care(store, care, show)))
        }
        Command::Stored(command) => stoppable(|| in_store(&|store| with_store(store, command, show))),
        Command::Origin { asked } => stoppable(|| origin::run(&opened()?, asked, show)),
        Command::Tiers { change: None } => stoppable(|| inspect::status(&opened()?, show)),
        Command::Tiers { change: Some(change) } => stoppable(|| moves::tiers(&store()?, change, show)),
        Command::Init(init) => stoppable(|| opening::init(&store()?, init, show)),
        Command::Rebuild(asked) => stoppable(|| care::rebuild(&store()?, asked, show)),
        Command::Destroy { force, dry_run } => stoppable(|| care::destroy(&store()?, *force, *dry_run, show)),
        Command::Dataset(dataset::Dataset::Declared(command)) => stoppable(|| dataset::run(command, &opened, show)),
        Command::Dataset(dataset::Dataset::Stored(command)) => {
            stoppable(|| dataset::run_stored(&opened()?, command, show))
        }
        Command::Advise { dataset, apply } => stoppable(|| advise::advise(&opened()?, dataset, *apply, show)),
        Command::View(view::View::Convert(convert)) => stoppable(|| view::convert(convert, show)),
        Command::View(view::View::Stored(command)) => stoppable(|| view::run(&opened()?, command, show)),
        Command::Predictor { take } => stoppable(|| predictor::predictor(&store()?, take.as_deref(), show)),
        Command::Profile(asked) => stoppable(|| profile::profile(&store()?, asked, show)),
        Command::Simulate(asked) => stoppable(|| simulate::simulate(asked, show)),
        Command::Completions { shell } => stoppable(|| completions(*shell)),
        Command::Manual { directory } => stoppable(|| manual(directory)),
    }
}

/// Runs a command that Ctrl-C and SIGTERM end at once. The command returns false if it found damage.
fn stoppable(command: impl FnOnce() -> Result<bool>) -> Result<ExitCode> {
    interrupt::listen().context("listening for signals")?;
    Ok(exit_code(command()?))
}

fn exit_code(is_good: bool) -> ExitCode {
    if is_good { ExitCode::SUCCESS } else { ExitCode::from(FOUND_BAD) }
}

/// Runs a command on an open store.
fn with_store(store: &Store, command: &StoreCommand, show: Show) -> Result<bool> {
    match command {
        StoreCommand::Put(put) => copy::put(store, put, show),
        StoreCommand::Adopt(put) => copy::adopt(store, put, show),
        StoreCommand::Get(get) => copy::get(store, get, show),
        StoreCommand::Cat { key, range } => copy::cat(store, key, range.as_ref()),
        StoreCommand::Ls { prefix, long } => inspect::ls(store, prefix.as_deref(), *long, show),
        StoreCommand::Rm { key, recursive, all, dry_run } => {
            objects::check_prefix(key, *all || *dry_run)?;
            objects::rm(store, key, *recursive, *dry_run, show)
        }
        StoreCommand::Mv { from, to } => objects::mv(store, from, to, show),
        StoreCommand::Cp { from, to } => objects::cp(store, from, to, show),
        StoreCommand::Check { source, prefix, filter } => copy::check(store, source, prefix, filter, show),
        StoreCommand::Sync => objects::sync(store, show),
        StoreCommand::Flush(asked) => flush::flush(store, asked, show),
        StoreCommand::Locate { key } => inspect::locate(store, key, show),
        StoreCommand::Explain(asked) => explain::explain(store, asked, show),
        StoreCommand::Hot { prefix, limit } => inspect::hot(store, prefix.as_deref(), *limit, show),
        StoreCommand::Stat { key } => inspect::stat(store, key, show),
        StoreCommand::Status => inspect::status(store, show),
        StoreCommand::Top { interval, count } => inspect::top(store, *interval, *count, show),
        StoreCommand::Stage { prefix, tier, limit } => {
            moves::stage(store, checked_prefix(store, prefix)?, tier, limit.map(|limit| limit.0), show)
        }
        StoreCommand::Evict { prefix, tier } => {
            moves::report_moved(&store.evict(checked_prefix(store, prefix)?, tier)?, show)
        }
        StoreCommand::Tune { prefix, all } => {
            moves::report_tuned(&store.tune(checked_prefix(store, prefix.as_deref().unwrap_or_default())?, *all)?, show)
        }
        StoreCommand::Drain { tier } => moves::report_moved(&store.drain(tier)?, show),
        StoreCommand::Scrub { prefix, repair, subset } => care::scrub(store, prefix.as_deref(), *repair, *subset, show),
        StoreCommand::Prune { force } => care::prune(store, *force, show),
        StoreCommand::Repair { prefix } => care::scrub(store, prefix.as_deref(), true, None, show),
    }
}

/// Returns the bytes of a prefix, at or below which an object is stored.
fn checked_prefix<'a>(store: &Store, prefix: &'a OsStr) -> Result<&'a [u8]> {
    inspect::check_has_objects(store, prefix.as_bytes())?;
    Ok(prefix.as_bytes())
}

fn completions(shell: clap_complete::Shell) -> Result<bool> {
    // Generate into memory, because the generator panics on a write error.
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
