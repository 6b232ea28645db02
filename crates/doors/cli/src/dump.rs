//! Dumps of MPI ranks. The code that needs MPI is a separate program or library, so that this one never links MPI.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use terrace::Store;
use terrace_dump::flags::{DumpFlags, FlowFlags, RunFlags};
use terrace_dump::gc;

use crate::globals::Globals;
use crate::output::{self, Show, count};

/// The program that dumps with MPI.
const DUMP_PROGRAM: &str = "terrace-dump";

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Dump {
    #[command(subcommand)]
    pub other: Option<OtherDump>,
    /// Parsed here for help and errors. The dump program parses them again.
    #[command(flatten)]
    pub flags: Option<DumpFlags>,
}

#[derive(Subcommand)]
pub enum OtherDump {
    /// Run an MPI program, and dump its ranks' memory at calls that they make anyway.
    ///
    /// The program needs no code for checkpoints. With --restart, it continues from the newest one; with --flow-to, also if all nodes are lost.
    /// docs/guide/dump.md lists the programs that cannot be dumped.
    ///
    /// Example: mpirun -n 4 terrace dump run state --every 600 --restart --store /local/store -- ./program
    Run(RunFlags),
    /// Copy a version from the nodes' stores to a place that outlives them.
    ///
    /// Run it under mpirun, with a rank on each node. Sends each distinct chunk once, and none that the place has from the version before; reads
    /// back what it sends. Repeated, it continues where it was interrupted; of a version that is there, it replaces what is damaged.
    ///
    /// Example: mpirun -n 4 terrace dump flow run7 --to /pfs/dumps --keep 3
    Flow(FlowFlags),
    #[command(flatten)]
    Care(Care),
}

/// The work that needs no other node.
#[derive(Subcommand)]
pub enum Care {
    /// Delete old versions from this node's store and free their space.
    ///
    /// Chunks that newer versions share stay. Run it on each node with the same --keep, while nothing is dumped. A dump with --keep
    /// does this itself.
    Gc {
        /// The dump's name [default: all dumps].
        name: Option<String>,
        /// Keep this many of the newest versions, at least one.
        #[arg(long, default_value = "1")]
        keep: NonZeroUsize,
    },
    /// List the dumps in this node's store, with their versions.
    Ls,
}

/// Replaces this process by the dump program, which parses the same arguments.
pub fn become_program(globals: &Globals) -> Result<Infallible> {
    let beside = std::env::current_exe().ok().map(|exe| exe.with_file_name(DUMP_PROGRAM)).filter(|path| path.exists());
    let program = beside.unwrap_or_else(|| PathBuf::from(DUMP_PROGRAM));
    let mut command = process::Command::new(&program);
    let error = command.args(std::env::args_os().skip(1)).env("TERRACE_STORE", globals.store()?).exec();
    Err(error).with_context(|| {
        format!("starting {}, which is built apart, with MPI (`make mpi`): put it beside terrace", program.display())
    })
}

pub fn care(store: &Store, care: &Care, show: Show) -> Result<bool> {
    match care {
        Care::Gc { name, keep } => collect(store, name.as_deref(), *keep, show),
        Care::Ls => list(store, show),
    }
}

fn collect(store: &Store, name: Option<&str>, keep: NonZeroUsize, show: Show) -> Result<bool> {
    let known = gc::dumps(store)?;
    if let Some(name) = name {
        // Refuses names that no dump can have.
        gc::versions(store, name)?;
        if !known.iter().any(|known| known == name) {
            let known: Vec<String> = known.iter().map(|known| escape(known)).collect();
            let known =
                if known.is_empty() { "it has no dumps".into() } else { format!("it has {}", known.join(", ")) };
            bail!("this store has no dump {name:?}; {known}");
        }
    }
    let names = name.map_or(known, |name| vec![name.to_owned()]);
    for name in names {
        let dropped = gc::collect(store, &name, keep.get())?;
        let versions = count(dropped.versions.len() as u64, "version");
        let words = format!(
            "{}: {versions} with {} bytes of chunks deleted; {} bytes of the tiers are free again",
            escape(&name),
            dropped.bytes,
            dropped.freed
        );
        let value = json!({"dump": name, "dropped": dropped.versions, "bytes": dropped.bytes, "freed": dropped.freed});
        show.result(&value, &words)?;
    }
    Ok(true)
}

/// Returns a dump's name on one line.
fn escape(name: &str) -> String {
    output::name(name.as_bytes())
}

fn list(store: &Store, show: Show) -> Result<bool> {
    for name in gc::dumps(store)? {
        let versions = gc::versions(store, &name)?;
        let words: Vec<String> = versions.iter().map(u32::to_string).collect();
        show.result(&json!({"dump": name, "versions": versions}), &format!("{}: {}", escape(&name), words.join(" ")))?;
    }
    Ok(true)
}
