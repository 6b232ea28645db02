//! `terrace-dump`: dumps and restores files under `mpirun`, each rank its own.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Parser, Subcommand};
use mpi::Threading;
use mpi::traits::Communicator;
use terrace::Store;
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::{World, agree};
use terrace_dump::{Duplicates, Options, Wanted};
use terrace_dump_mpi::MpiWorld;

/// Dumps files of MPI ranks into the nodes' stores, and restores them. Run by `terrace dump` and `terrace restore`.
#[derive(Parser)]
#[command(name = "terrace-dump", version)]
struct Arguments {
    /// The store of this node; {node} stands for TERRACE_NODE.
    #[arg(long, env = "TERRACE_STORE", global = true, default_value = "")]
    store: String,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Dump files: rank i the i-th.
    Dump(Dump),
    /// Restore files: the i-th is what rank i dumped, whatever number of ranks there are now.
    Restore(Restore),
}

#[derive(Args)]
struct Dump {
    /// The dump's name; each dump of that name is a version of it.
    name: String,
    /// A file for each rank, or one with {rank} in its name.
    #[arg(required = true)]
    files: Vec<String>,
    /// On how many nodes each chunk is to be.
    #[arg(long, default_value_t = Options::default().replicas)]
    replicas: u32,
    /// Bytes of a chunk.
    #[arg(long, default_value_t = 4096)]
    chunk: u32,
    /// Cut where the content says so, at about --chunk bytes.
    #[arg(long)]
    by_content: bool,
    /// What of equal chunks is left out: `collective`, or for comparison `local` or `none`.
    #[arg(long, default_value = "collective", value_parser = duplicates)]
    duplicates: Duplicates,
    /// Choose partners by rank instead of by load, for comparison.
    #[arg(long)]
    static_partners: bool,
    /// Bytes of each of two windows for what others send.
    #[arg(long, default_value_t = Options::default().window)]
    window: usize,
    /// The version to make; otherwise the next.
    #[arg(long)]
    version: Option<u32>,
}

#[derive(Args)]
struct Restore {
    /// The dump's name.
    name: String,
    /// A file for each rank that dumped, or one with {rank} in its name.
    #[arg(required = true)]
    files: Vec<String>,
    /// The version; otherwise the newest.
    #[arg(long)]
    version: Option<u32>,
    /// Restore what is left where a part is lost; what is lost is zeros.
    #[arg(long)]
    partial: bool,
}

fn duplicates(text: &str) -> Result<Duplicates> {
    Ok(match text {
        "collective" => Duplicates::Collective,
        "local" => Duplicates::Local,
        "none" => Duplicates::Kept,
        _ => bail!("{text:?} is not collective, local or none"),
    })
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        eprintln!("terrace-dump: MPI cannot be initialized");
        return ExitCode::FAILURE;
    };
    match run(&arguments, &universe) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("terrace-dump: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments, universe: &mpi::environment::Universe) -> Result<()> {
    let world = MpiWorld::over(universe.world().duplicate())?;
    let node = std::env::var("TERRACE_NODE").unwrap_or_else(|_| world.node().to_string());
    let store = match arguments.store.is_empty() {
        true => Err(terrace_dump::Error::Refused("name this node's store: --store DIR, or TERRACE_STORE".into())),
        false => Store::open(&PathBuf::from(arguments.store.replace("{node}", &node))).map_err(Into::into),
    };
    let store = agree(&world, store)?;
    match &arguments.command {
        Command::Dump(command) => command.run(&world, &store),
        Command::Restore(command) => command.run(&world, &store),
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

/// What a rank did by itself, if it went well with all of them.
fn together<T>(world: &MpiWorld, done: Result<T>) -> terrace_dump::Result<T> {
    agree(world, done.map_err(|error| terrace_dump::Error::Refused(format!("{error:#}"))))
}

impl Dump {
    fn run(&self, world: &MpiWorld, store: &Store) -> Result<()> {
        let read = || {
            let path = file(&self.files, world.rank())?;
            std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
        };
        let bytes = together(world, read())?;
        let options = Options {
            replicas: self.replicas,
            chunking: if self.by_content { Chunking::Content(self.chunk) } else { Chunking::Fixed(self.chunk) },
            duplicates: self.duplicates,
            by_load: !self.static_partners,
            window: self.window,
            version: self.version,
            ..Options::default()
        };
        let done = terrace_dump::dump(world, store, &self.name, &[&bytes], &options)?;
        let figures = [done.bytes, done.distinct, done.stored, done.chunks.sent, done.chunks.received];
        let figures: Vec<u8> = figures.iter().flat_map(|figure| figure.to_le_bytes()).collect();
        let all = world.all_gather(&figures)?;
        let of = |figure: usize| {
            let one = |said: &Vec<u8>| said.as_chunks().0.get(figure).map_or(0, |bytes| u64::from_le_bytes(*bytes));
            all.iter().map(one).collect::<Vec<u64>>()
        };
        if world.rank() == 0 {
            let sum = |figure| of(figure).iter().sum::<u64>();
            println!(
                "{} version {}: {} bytes of {} ranks on {} nodes each; {} distinct in their rank, {} stored, {} sent, at most {} to one rank",
                self.name,
                done.version,
                sum(0),
                world.size(),
                done.copies,
                sum(1),
                sum(2),
                sum(3),
                of(4).into_iter().max().unwrap_or(0),
            );
        }
        Ok(())
    }
}

impl Restore {
    fn run(&self, world: &MpiWorld, store: &Store) -> Result<()> {
        let window = Options::default().window;
        let restored = terrace_dump::restore(world, store, &self.name, self.version, Wanted::Dealt, window)?;
        let (version, ranks) = (restored.version, restored.ranks);
        let (buffers, lost) = match self.partial {
            true => restored.left(),
            false => (agree(world, restored.whole())?, Vec::new()),
        };
        lost.iter().for_each(|range| eprintln!("terrace-dump: lost: {range}"));
        let write = || {
            for (rank, buffers) in &buffers {
                let path = file(&self.files, *rank)?;
                std::fs::write(&path, buffers.concat()).with_context(|| format!("writing {}", path.display()))?;
            }
            Ok(())
        };
        together(world, write())?;
        if world.rank() == 0 {
            println!("{} version {version}: {ranks} files restored", self.name);
        }
        Ok(())
    }
}
