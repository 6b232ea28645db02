//! `terrace-dump`: dumps and restores files under `mpirun`, one for each rank.

mod log;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use mpi::Threading;
use mpi::traits::Communicator;
use serde_json::json;
use terrace::{NewFile, Store};
use terrace_dump::flags::{DumpFlags, RestoreFlags};
use terrace_dump::transport::{World, agree};
use terrace_dump::{Options, Terms, Wanted};
use terrace_dump_mpi::{MpiWorld, open_store};

/// Dumps files of MPI ranks into the nodes' stores, and restores them. Run by `terrace dump` and `terrace restore`, with what
/// these were given.
#[derive(Parser)]
#[command(name = "terrace-dump", version)]
struct Arguments {
    /// The store of this node; {node} stands for TERRACE_NODE.
    #[arg(long, env = "TERRACE_STORE", global = true, default_value = "")]
    store: String,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    /// Print errors only.
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Say what is done; twice, more. TERRACE_LOG takes filters, such as terrace=debug.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Dump files: rank i the i-th.
    Dump(DumpFlags),
    /// Restore files: the i-th is what rank i dumped, whatever number of ranks there are now.
    Restore(RestoreFlags),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        eprintln!("terrace-dump: MPI cannot be initialized");
        return ExitCode::FAILURE;
    };
    log::begin(match arguments.verbose {
        _ if arguments.quiet => "terrace=error",
        0 => "terrace=warn",
        1 => "terrace=info",
        _ => "terrace=debug",
    });
    match run(&arguments, &universe) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let words = format!("{error:#}");
            let line =
                if arguments.json { json!({"error": words}).to_string() } else { format!("terrace-dump: {words}") };
            // Ignoring the error is safe: the reader of the output may have closed it.
            let _ = writeln!(io::stderr(), "{line}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments, universe: &mpi::environment::Universe) -> Result<()> {
    let world = MpiWorld::over(universe.world().duplicate())?;
    // Check this before the first step in which dumps and restores differ.
    arguments.command.terms().agree(&world)?;
    let store = open_store(&world, &arguments.store)?;
    let show = |value: serde_json::Value, words: String| {
        if world.rank() == 0 && (arguments.json || !arguments.quiet) {
            let text = if arguments.json { value.to_string() } else { words };
            // Ignoring the error is safe: the reader of the output may have closed it.
            let _ = writeln!(io::stdout(), "{text}");
        }
    };
    match &arguments.command {
        Command::Dump(flags) => dump(&world, &store, flags, &show),
        Command::Restore(flags) => restore(&world, &store, flags, &show),
    }
}

impl Command {
    /// Returns the arguments that must be equal on all ranks and that the library does not compare.
    fn terms(&self) -> Terms {
        match self {
            Command::Dump(_) => Terms::of("dump"),
            Command::Restore(flags) => Terms::of("restore").with("partial", flags.partial),
        }
    }
}

/// The file of a rank.
fn file(files: &[String], rank: u32) -> Result<PathBuf> {
    match files {
        [one] if one.contains("{rank}") => Ok(one.replace("{rank}", &rank.to_string()).into()),
        _ => match files.get(rank as usize) {
            Some(file) => Ok(file.into()),
            None => bail!("rank {rank} has no file; name one for each rank, or one with {{rank}} in its name"),
        },
    }
}

/// Writes a file atomically.
fn write_whole(path: &Path, parts: &[Vec<u8>]) -> io::Result<()> {
    let length = parts.iter().map(|part| part.len() as u64).sum::<u64>();
    let mut file = NewFile::create(path, length)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.finish()
}

/// The result of a rank's own work, if all ranks succeeded.
fn together<T>(world: &MpiWorld, done: Result<T>) -> terrace_dump::Result<T> {
    agree(world, done.map_err(|error| terrace_dump::Error::Refused(format!("{error:#}"))))
}

type Shown<'a> = &'a dyn Fn(serde_json::Value, String);

fn dump(world: &MpiWorld, store: &Store, flags: &DumpFlags, show: Shown<'_>) -> Result<()> {
    let read = || {
        let path = file(&flags.files, world.rank())?;
        std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
    };
    let bytes = together(world, read())?;
    let done = terrace_dump::dump(world, store, &flags.name, &[&bytes], &flags.options())?;
    let figures = [done.bytes, done.distinct, done.stored, done.chunks.sent, done.chunks.received, done.freed];
    let figures: Vec<u8> = figures.iter().flat_map(|figure| figure.to_le_bytes()).collect();
    let all = world.all_gather(&figures)?;
    let of = |figure: usize| {
        let one = |said: &Vec<u8>| said.as_chunks().0.get(figure).map_or(0, |bytes| u64::from_le_bytes(*bytes));
        all.iter().map(one).collect::<Vec<u64>>()
    };
    let sum = |figure| of(figure).iter().sum::<u64>();
    let (bytes, distinct, stored, sent, freed) = (sum(0), sum(1), sum(2), sum(3), sum(5));
    let most = of(4).into_iter().max().unwrap_or(0);
    let (name, version, copies, ranks, dropped) = (&flags.name, done.version, done.copies, world.size(), done.dropped);
    let kept = match dropped {
        0 => String::new(),
        1 => format!("; 1 older version is dropped, and {freed} bytes of the tiers are free again"),
        _ => format!("; {dropped} older versions are dropped, and {freed} bytes of the tiers are free again"),
    };
    show(
        json!({
            "dump": name, "version": version, "ranks": ranks, "nodes": copies, "bytes": bytes, "distinct": distinct,
            "stored": stored, "sent": sent, "most_received": most, "dropped": dropped, "freed": freed,
        }),
        format!(
            "{name} version {version}: {bytes} bytes of {ranks} ranks on {copies} nodes each; {distinct} distinct in their \
             rank, {stored} stored, {sent} sent, at most {most} to one rank{kept}"
        ),
    );
    Ok(())
}

fn restore(world: &MpiWorld, store: &Store, flags: &RestoreFlags, show: Shown<'_>) -> Result<()> {
    let window = Options::default().window;
    let restore = if flags.partial { terrace_dump::restore } else { terrace_dump::restore_whole };
    let restored = restore(world, store, &flags.name, flags.version, Wanted::Dealt, window)?;
    let (version, ranks) = (restored.version, restored.ranks);
    let (buffers, lost) = match flags.partial {
        true => restored.left(),
        false => (agree(world, restored.whole())?, Vec::new()),
    };
    lost.iter().for_each(|range| eprintln!("terrace-dump: lost: {range}"));
    let write = || {
        for (rank, buffers) in &buffers {
            let path = file(&flags.files, *rank)?;
            write_whole(&path, buffers).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    };
    together(world, write())?;
    let name = &flags.name;
    show(
        json!({"dump": name, "version": version, "files": ranks}),
        format!("{name} version {version}: {ranks} files restored"),
    );
    Ok(())
}
