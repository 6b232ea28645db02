//! The flags of dumps and restores, as `terrace` and `terrace-dump` both take them.

use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use clap::{ArgGroup, Args, ValueEnum, value_parser};
use serde::{Deserialize, Serialize};

use crate::chunk::Chunking;
use crate::names::check_name;
use crate::options::MAX_VERSION;
use crate::{Duplicates, Options, Terms};

/// The arguments of `dump`.
#[derive(Args, Clone, Debug)]
pub struct DumpFlags {
    /// Name of the dump. Each dump of this name is a new version.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Files to dump: one for each rank, or one name with {rank} in it.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// Number of nodes that store each chunk.
    #[arg(long, default_value_t = Options::default().replicas)]
    pub replicas: u32,
    /// Size of a chunk in bytes.
    #[arg(long, default_value_t = 4096)]
    pub chunk: u32,
    /// Cut chunks by content, at about --chunk bytes, so that moved bytes are found again.
    #[arg(long)]
    pub by_content: bool,
    /// Store equal chunks once: across all ranks (`collective`), in one rank (`local`), or not at all (`none`); the last two are for
    /// comparison.
    #[arg(long, default_value = "collective")]
    pub duplicates: Duplicates,
    /// Choose partners by rank instead of by load, for comparison.
    #[arg(long)]
    pub static_partners: bool,
    /// Size in bytes of each of two receive buffers; a chunk must fit.
    #[arg(long, default_value_t = Options::default().window)]
    pub window: usize,
    /// Version to write [default: the next].
    #[arg(long, value_parser = value_parser!(u32).range(..=i64::from(MAX_VERSION)))]
    pub version: Option<u32>,
    /// Once this version is durable, drop all but this many of the newest versions, and free their space before the command ends
    /// [default: keep all].
    #[arg(long)]
    pub keep: Option<NonZeroU32>,
    /// Then let this version flow to a directory or SERVICE://BUCKET/PATH that outlives the nodes, as `dump flow` does.
    #[arg(long, value_name = "DIR|URL")]
    pub flow_to: Option<String>,
    /// The number of versions that stay there [default: all].
    #[arg(long, value_name = "N", requires = "flow_to")]
    pub flow_keep: Option<NonZeroU32>,
    /// Set an option of the service, such as region=eu-1. Can be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE", requires = "flow_to")]
    pub service_options: Vec<String>,
}

/// The arguments of `dump flow`.
#[derive(Args, Clone, Debug)]
pub struct FlowFlags {
    /// Name of the dump.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// A directory or SERVICE://BUCKET/PATH that outlives the nodes.
    #[arg(long, value_name = "DIR|URL")]
    pub to: String,
    /// Version that flows [default: the newest].
    #[arg(long)]
    pub version: Option<u32>,
    /// Then drop all but this many of the newest versions there [default: keep all].
    #[arg(long)]
    pub keep: Option<NonZeroU32>,
    /// Set an option of the service, such as region=eu-1. Can be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE")]
    pub service_options: Vec<String>,
}

/// The arguments of `restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreFlags {
    /// Name of the dump.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// Files to write: one for each rank that dumped, or one name with {rank} in it.
    #[arg(required = true)]
    pub files: Vec<String>,
    /// Version to restore [default: the newest that is whole; with --partial the newest].
    #[arg(long)]
    pub version: Option<u32>,
    /// Restore the rest if a part is lost; lost bytes become zeros.
    #[arg(long)]
    pub partial: bool,
    /// Where versions have flowed to. A version that is not whole in the nodes' stores is restored from there.
    #[arg(long, value_name = "DIR|URL", conflicts_with = "partial")]
    pub from: Option<String>,
    /// Set an option of the service, such as region=eu-1. Can be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE", requires = "from")]
    pub service_options: Vec<String>,
}

/// The variable in which `terrace dump run` hands its arguments over, as JSON.
pub const RUN_VARIABLE: &str = "TERRACE_DUMP_RUN";

/// The arguments of `dump run`.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
#[command(group = ArgGroup::new("run_places").args(["flow_to", "from"]).multiple(true))]
pub struct RunFlags {
    /// Name of the dump. Each checkpoint is a new version.
    #[arg(value_parser = parse_name)]
    pub name: String,
    /// The calls at which the ranks can be dumped, when all ranks make them.
    #[arg(long, value_enum, value_name = "CALL", default_value = "MPI_Barrier")]
    pub at: PausePoint,
    /// Dump at each N-th of these calls.
    #[arg(long, value_name = "N", default_value = "1", conflicts_with = "every")]
    pub each: NonZeroU32,
    /// Dump at the first of these calls after this time, again and again.
    #[arg(long, value_name = "SECONDS")]
    pub every: Option<NonZeroU32>,
    /// Continue from the newest version that is whole, if there is one. The nodes' stores are asked first for each version, then the place
    /// of --from.
    #[arg(long)]
    pub restart: bool,
    /// Where versions have flowed to [default: that of --flow-to]. A directory must exist, as must that of --flow-to.
    #[arg(long, value_name = "DIR|URL", requires = "restart")]
    pub from: Option<String>,
    /// Number of nodes that store each page.
    #[arg(long, default_value_t = Options::default().replicas, value_parser = value_parser!(u32).range(1..=16))]
    pub replicas: u32,
    /// Once a version is durable, drop all but this many of the newest versions [default: keep all].
    #[arg(long)]
    pub keep: Option<NonZeroU32>,
    /// Let each version flow to a directory or SERVICE://BUCKET/PATH that outlives the nodes, before the program continues.
    #[arg(long, value_name = "DIR|URL")]
    pub flow_to: Option<String>,
    /// The number of versions that stay there [default: all].
    #[arg(long, value_name = "N", requires = "flow_to")]
    pub flow_keep: Option<NonZeroU32>,
    /// Set an option of the service, such as region=eu-1. Can be repeated.
    #[arg(long = "option", value_name = "NAME=VALUE", requires = "run_places")]
    pub service_options: Vec<String>,
    /// The program and its arguments.
    #[serde(skip)]
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// The calls at which the ranks of a program can be dumped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum PausePoint {
    /// MPI_Barrier.
    #[value(name = "MPI_Barrier")]
    Barrier,
    /// MPI_Allreduce.
    #[value(name = "MPI_Allreduce")]
    Allreduce,
    /// A call that the program has for this alone.
    #[value(name = "terrace_checkpoint_here")]
    Here,
}

impl PausePoint {
    /// Returns all calls.
    pub fn all() -> &'static [PausePoint] {
        PausePoint::value_variants()
    }
}

impl fmt::Display for PausePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| value.get_name().fmt(f))
    }
}

impl RunFlags {
    /// Returns the options of each dump.
    pub fn options(&self) -> Options {
        Options { replicas: self.replicas, keep: self.keep, ..Options::default() }
    }

    /// Returns the arguments that must be equal on all ranks, besides those that each dump compares.
    pub fn terms(&self) -> Terms {
        let every = self.every.map_or_else(|| "none".to_owned(), |seconds| seconds.to_string());
        let terms = Terms::of("dump run").with("at", format!("{:?}", self.at)).with("each", self.each);
        let terms = terms.with("every", every).with("restart", self.restart);
        terms.with("from", self.from().unwrap_or("none")).with("flow-to", self.flow_to.as_deref().unwrap_or("none"))
    }

    /// Returns the place where a restart looks, besides the nodes' stores.
    pub fn from(&self) -> Option<&str> {
        self.from.as_deref().or(self.flow_to.as_deref())
    }
}

impl DumpFlags {
    /// The options of the dump that they describe.
    pub fn options(&self) -> Options {
        Options {
            replicas: self.replicas,
            chunking: if self.by_content { Chunking::Content(self.chunk) } else { Chunking::Fixed(self.chunk) },
            duplicates: self.duplicates,
            by_load: !self.static_partners,
            window: self.window,
            version: self.version,
            keep: self.keep,
            ..Options::default()
        }
    }
}

/// Checks the name of a dump before any rank begins.
fn parse_name(name: &str) -> Result<String, String> {
    check_name(name).map_err(|error| error.to_string())?;
    Ok(name.to_owned())
}

impl FromStr for Duplicates {
    type Err = String;

    fn from_str(text: &str) -> Result<Duplicates, String> {
        Ok(match text {
            "collective" => Duplicates::Collective,
            "local" => Duplicates::Local,
            "none" => Duplicates::Kept,
            _ => return Err(format!("{text:?} is not collective, local or none")),
        })
    }
}
