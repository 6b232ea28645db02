//! `terrace-dump`: dumps and restores files under `mpirun`, one for each rank.

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use mpi::Threading;
use serde_json::json;
use terrace::{NewFile, Store};
use terrace_dump::archive::{self, Archive};
use terrace_dump::flags::{DumpFlags, FlowFlags, RestoreFlags};
use terrace_dump::transport::{World, agree};
use terrace_dump::{Options, Terms, Wanted};
use terrace_dump_mpi::{MpiWorld, log, open_store};

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
    /// Dump files: rank i the i-th. Or let a dump that was made flow.
    Dump(Dump),
    /// Restore files: the i-th is what rank i dumped, whatever number of ranks there are now.
    Restore(RestoreFlags),
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Dump {
    #[command(subcommand)]
    made: Option<Made>,
    #[command(flatten)]
    flags: Option<DumpFlags>,
}

/// The ways to use a dump that was made.
#[derive(Subcommand)]
enum Made {
    /// Let a version flow to a place that outlives the nodes.
    Flow(FlowFlags),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Some(_ends_mpi_last) = mpi::initialize_with_threading(Threading::Funneled) else {
        eprintln!("terrace-dump: MPI cannot be initialized");
        return ExitCode::FAILURE;
    };
    log::begin(match arguments.verbose {
        _ if arguments.quiet => "terrace=error",
        0 => "terrace=warn",
        1 => "terrace=info",
        _ => "terrace=debug",
    });
    match run(&arguments) {
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

fn run(arguments: &Arguments) -> Result<()> {
    let world = MpiWorld::of_all()?;
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
        Command::Dump(Dump { made: Some(Made::Flow(flags)), .. }) => flow(&world, &store, flags, &show),
        Command::Dump(Dump { flags: Some(flags), .. }) => dump(&world, &store, flags, &show),
        Command::Dump(Dump { .. }) => bail!("name a dump and its files"),
        Command::Restore(flags) => restore(&world, &store, flags, &show),
    }
}

impl Command {
    /// Returns the arguments that must be equal on all ranks and that the library does not compare.
    fn terms(&self) -> Terms {
        match self {
            Command::Dump(Dump { made: Some(_), .. }) => Terms::of("flow"),
            Command::Dump(Dump { flags, .. }) => {
                let flow_to = flags.as_ref().and_then(|flags| flags.flow_to.as_deref()).unwrap_or("none");
                Terms::of("dump").with("flow-to", flow_to)
            }
            Command::Restore(flags) => {
                let from = flags.from.as_deref().unwrap_or("none");
                Terms::of("restore").with("partial", flags.partial).with("from", from)
            }
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

/// Reads a file of a rank.
fn read_whole(path: &Path) -> Result<Vec<u8>> {
    let found = path.metadata().with_context(|| {
        format!("{} cannot be dumped; write that file first, or name another one for this rank", path.display())
    })?;
    // A device may have no end, and a pipe waits for a writer.
    if !found.is_file() {
        bail!("{} is no regular file; copy what you want to dump to one, and name that", path.display());
    }
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
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
    let read = || read_whole(&file(&flags.files, world.rank())?);
    let bytes = together(world, read())?;
    let archive = open_archive(world, store, flags.flow_to.as_deref(), &flags.service_options)?;
    let after = archive::newest_version(world, archive.as_ref(), &flags.name)?;
    let options = Options { after, ..flags.options() };
    let done = terrace_dump::dump(world, store, &flags.name, &[&bytes], &options)?;
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
    let Some(archive) = archive else { return Ok(()) };
    flow_to(world, store, name, Some(version), &archive, flags.flow_keep, show)
        .with_context(|| format!("version {version} is in the nodes' stores, and has not flowed to {archive}"))
}

fn flow(world: &MpiWorld, store: &Store, flags: &FlowFlags, show: Shown<'_>) -> Result<()> {
    let archive = agree(world, Archive::open(store, &flags.to, &flags.service_options))?;
    flow_to(world, store, &flags.name, flags.version, &archive, flags.keep, show)
}

/// Opens the archive that is named, if any.
fn open_archive(
    world: &MpiWorld,
    store: &Store,
    address: Option<&str>,
    options: &[String],
) -> terrace_dump::Result<Option<Archive>> {
    agree(world, address.map(|address| Archive::open(store, address, options)).transpose())
}

/// Lets a version flow to an archive.
fn flow_to(
    world: &MpiWorld,
    store: &Store,
    name: &str,
    version: Option<u32>,
    archive: &Archive,
    keep: Option<NonZeroU32>,
    show: Shown<'_>,
) -> Result<()> {
    let done = terrace_dump::flow(world, store, name, version, archive, keep, Options::default().window)?;
    let (version, packs, sent, bytes, dropped) = (done.version, done.packs, done.sent, done.bytes, done.dropped);
    let kept = match dropped {
        0 => String::new(),
        1 => "; 1 older version is dropped there".to_owned(),
        _ => format!("; {dropped} older versions are dropped there"),
    };
    show(
        json!({
            "dump": name, "version": version, "to": archive.to_string(), "packs": packs, "sent": sent, "bytes": bytes,
            "dropped": dropped,
        }),
        format!("{name} version {version}: {sent} of {packs} packs sent to {archive}, {bytes} bytes{kept}"),
    );
    Ok(())
}

fn restore(world: &MpiWorld, store: &Store, flags: &RestoreFlags, show: Shown<'_>) -> Result<()> {
    let (name, window) = (&flags.name, Options::default().window);
    let archive = open_archive(world, store, flags.from.as_deref(), &flags.service_options)?;
    // Otherwise a restore from a directory that is misspelled, or not mounted, would find no version there.
    agree(world, archive.as_ref().map_or(Ok(()), Archive::check_exists))?;
    let restored = match flags.partial {
        true => terrace_dump::restore(world, store, name, flags.version, Wanted::Dealt, window)?,
        false => {
            terrace_dump::restore_whole(world, store, name, flags.version, Wanted::Dealt, window, archive.as_ref())?
        }
    };
    let (version, ranks) = (restored.version, restored.ranks);
    let from = archive.filter(|_| restored.is_archived).map(|archive| archive.to_string());
    let (buffers, lost) = match flags.partial {
        true => restored.left(),
        false => (agree(world, restored.whole())?, Vec::new()),
    };
    lost.iter().for_each(|range| eprintln!("terrace-dump: lost: {range}"));
    let write = || {
        for (rank, buffers) in &buffers {
            let path = file(&flags.files, *rank)?;
            write_whole(&path, buffers).with_context(|| {
                let advice = "name a file in a directory that exists and can be written, and restore again";
                format!("{} cannot be written; {advice}", path.display())
            })?;
        }
        Ok(())
    };
    together(world, write())?;
    let words = from.as_ref().map_or_else(String::new, |from| format!(" from {from}"));
    show(
        json!({"dump": name, "version": version, "files": ranks, "from": from}),
        format!("{name} version {version}: {ranks} files restored{words}"),
    );
    Ok(())
}
