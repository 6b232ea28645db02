//! The commands and their flags: help and parsing come from here.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use terrace::config::{Bytes, Time};
use terrace_dump::flags::RestoreFlags;

use crate::care::Rebuild;
use crate::copy::{Filter, Get, Put};
use crate::dataset::Dataset;
use crate::dump::Dump;
use crate::explain::Explain;
use crate::flush::Flush;
use crate::globals::Globals;
use crate::health::Health;
use crate::job;
use crate::job_arguments::Job;
use crate::mount::Mount;
use crate::moves::Tiers;
use crate::node::Node;
use crate::opening::Init;
use crate::origin::Origin;
use crate::profile::Profile;
use crate::range::{Range, parse_range};
use crate::run::Run;
use crate::serve::Serve;
use crate::simulate::Simulate;
use crate::view::View;

const AFTER_HELP: &str = "\
`terrace COMMAND --help` explains a command. `terrace completions SHELL` prints shell completions, `terrace manual DIR` writes manual pages.

Exit codes: 0 ok, 1 failed or found damage, 2 wrong usage, 3 (health) still at work; 130 and 143 after Ctrl-C and SIGTERM.";

/// Store data on several tiers, with replicas, encodings and checksums.
///
/// A store is a directory with a catalog, and the tiers that its configuration names: memory, disks, object storage. Terrace chooses
/// where each block goes and how it is encoded, makes the other replicas in the background, and verifies all that it reads.
///
/// Start with `terrace init`, then `terrace put FILE KEY` and `terrace get KEY FILE`.
#[derive(Parser)]
#[command(name = "terrace", version, after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(flatten)]
    pub globals: Globals,
    #[command(subcommand)]
    pub command: Command,
}

/// Each kind of command is a type of its own, so that a command only reaches code that handles it.
#[derive(Subcommand)]
pub enum Command {
    #[command(flatten)]
    Stored(StoreCommand),
    /// Dump files of MPI ranks, deduplicated and replicated over the nodes' stores.
    ///
    /// Run it under mpirun. All ranks together write one new version. `dump gc` drops old versions, `dump ls` lists them.
    ///
    /// Example: mpirun -n 4 terrace dump run7 state.{rank} --store /local/store
    Dump(Dump),
    /// Restore files that MPI ranks dumped. Run it under mpirun.
    ///
    /// Example: mpirun -n 4 terrace restore run7 state.{rank} --store /local/store
    Restore(RestoreFlags),
    /// Mount the store as a file system.
    ///
    /// The command serves the mount until `umount DIRECTORY` or Ctrl-C; with --daemon it returns at once.
    ///
    /// Example: terrace mount /mnt/store --daemon
    Mount(Mount),
    /// Run a program that sees the store's files below a path.
    ///
    /// Mounts the store on that path for the program alone, if the path is a directory and the system allows it. Otherwise loads
    /// libterrace_preload.so into the program, and answers the system calls of a program that is statically linked. Returns the program's
    /// exit code.
    ///
    /// Example: terrace run -- ls -l /terrace
    Run(Run),
    /// Serve the store over a network protocol.
    ///
    /// Example: terrace serve 9p --listen 127.0.0.1:5640
    #[command(subcommand)]
    Serve(Serve),
    /// Run the store's daemon: background work, scrubs, health and metrics.
    ///
    /// Keeps pending replicas, eviction, repair and freed space going while no other process runs, and verifies all replicas once
    /// a week. Serves a page, /metrics and /healthz. Other processes can use the store as usual. Runs until Ctrl-C or SIGTERM.
    ///
    /// Example: terrace node --listen 127.0.0.1:5641
    ///
    /// Example: terrace node --join etcd://10.0.0.1:2379/0123456789abcdef --name b
    ///
    /// Example: terrace node remove c
    Node(Node),
    /// Run one store over the hosts of a job, show the nodes that share a store, or make their log again after it was lost.
    ///
    /// Example: srun --ntasks-per-node=1 terrace cluster up --shared /pfs/me/job --local /local/terrace
    ///
    /// Example: terrace cluster status --wait 5min
    ///
    /// Example: terrace cluster recover --store /srv/a
    Cluster {
        #[command(subcommand)]
        asked: ClusterCommand,
    },
    /// Copy what a job reads into the store, and what it made to where it stays.
    ///
    /// Example: terrace job start --origin /pfs/input --stage inputs.txt
    ///
    /// Example: terrace job end --to /pfs/results --deadline 10m --report end.json
    Job {
        #[command(subcommand)]
        asked: Job,
    },
    /// Show files that lie elsewhere, and read them through the store.
    ///
    /// The files of a directory, a bucket or a server appear below a prefix, read-only. What is read is stored on the tiers, and read from there
    /// the next time.
    ///
    /// Example: terrace origin add data/era5 s3://era5-pds/2019 --option region=us-east-1 --option skip_signature=true
    ///
    /// Example: terrace origin add data/runs /pfs/group/runs --max-age 10s
    ///
    /// Example: terrace origin rm data/era5
    Origin {
        #[command(subcommand)]
        asked: Origin,
    },
    /// Show how safe the data is, and what to do about it.
    ///
    /// Prints safe, working (the store needs only time), warning (you should act) or damaged, and the reasons. Exits with 0
    /// if safe, with 3 if working, and with 1 otherwise.
    ///
    /// Example: terrace health --wait safe
    Health(Health),
    /// List the tiers (as `status` does), add new ones, or remove or renew one.
    ///
    /// To remove a tier, empty it with `terrace drain TIER` first.
    ///
    /// Example: terrace tiers add archive.toml
    ///
    /// Example: terrace tiers remove archive
    Tiers {
        #[command(subcommand)]
        change: Option<Tiers>,
    },
    /// Create a store.
    ///
    /// Without --config, Terrace looks for memory and disks of this machine and uses those as tiers.
    ///
    /// Example: terrace init --store /data/store --config tiers.toml
    ///
    /// With --cluster, several nodes share the store, and etcd keeps its log.
    ///
    /// Example: terrace init --cluster etcd://10.0.0.1:2379 --name a --config shared.toml
    Init(Init),
    /// Measure the speeds of encodings and tiers on this machine. Takes less than 20 seconds.
    ///
    /// Example: terrace profile --data results/
    Profile(Profile),
    /// Simulate policies on a cluster that a file describes.
    ///
    /// Prints the seconds, the bytes in each tier, the cost and the energy of each policy. Nothing is stored.
    ///
    /// Example: terrace simulate cluster.toml
    Simulate(Simulate),
    /// Show how well the ratios and speeds of encodings are predicted.
    ///
    /// Example: terrace predictor
    ///
    /// Example: terrace predictor --take seed.json
    Predictor {
        /// Replace what this store has learned by a file that `profile` or another store wrote.
        #[arg(long, value_name = "FILE")]
        take: Option<PathBuf>,
    },
    /// Rebuild the catalog from the commit log, or a store from a bucket that has outlived its node.
    ///
    /// Repairs the log from its copies on the tiers first. Refuses if commits are missing in all copies. No other process may use
    /// the store meanwhile.
    ///
    /// With --from, makes a new store directory from the copy of the log in a bucket. Directories that are not there any more are replaced by
    /// empty ones below it. Prints the objects that had replicas only there, and then exits with 1.
    ///
    /// Example: terrace rebuild
    ///
    /// Example: terrace rebuild --salvage
    ///
    /// Example: terrace rebuild --store /data/store --from s3://runs/terrace --option region=eu-1
    Rebuild(Rebuild),
    /// Delete a store: first its files on the tiers, then its own directory.
    ///
    /// Refuses if the store holds objects or a target is away, unless --force is given. Files of other programs stay.
    ///
    /// Example: terrace destroy --dry-run --force
    Destroy {
        /// Delete the store with all its objects, and leave its files on targets that are away.
        #[arg(long)]
        force: bool,
        /// Print what would be deleted, and delete nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Declare datasets and manage their replicas.
    ///
    /// Example: terrace dataset add points.dataset
    #[command(subcommand)]
    Dataset(Dataset),
    /// Propose replicas of a dataset in other layouts, from how it is read.
    ///
    /// Prints which fields were read, in which shape and how often, and compares the replicas that could be added: the bytes and the time of
    /// a read with and without each, the bytes that it stores, and the time to make it. One is worth it if the reads of the last weeks would have
    /// saved more time than it takes to make it.
    ///
    /// Example: terrace advise points
    ///
    /// Example: terrace advise points --apply
    Advise {
        /// A dataset, or a file with its declaration.
        dataset: String,
        /// Add the best replica, if one is worth it.
        #[arg(long)]
        apply: bool,
    },
    /// Read and write a dataset in any of its layouts.
    ///
    /// Example: terrace view read points aos --output points.bin
    #[command(subcommand)]
    View(View),
    /// Print completions for a shell.
    #[command(hide = true)]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write manual pages into a directory.
    #[command(hide = true)]
    Manual {
        /// The directory, which is made if it is missing.
        directory: PathBuf,
    },
}

/// The commands on an open store.
#[derive(Subcommand)]
pub enum StoreCommand {
    /// Copy a file or a directory into the store.
    ///
    /// If SOURCE is a directory, its contents are copied, and unchanged files are skipped. If it is -, standard input is
    /// read.
    ///
    /// Example: terrace put run.h5 runs/7/run.h5
    ///
    /// Example: terrace put results/ runs/7 --ack durable
    Put(Put),
    /// Make files objects of the store, without copying their bytes.
    ///
    /// A tier with layout "plain" must be on the files' file system. On XFS and Btrfs, each object gets a clone of its file: the two share
    /// their blocks until one of them changes. Elsewhere it gets a hard link, and the file's owner may still change the bytes: then the
    /// object cannot be read, unless it has another replica, until the file is adopted again. The files are read once, for checksums; the
    /// store never changes them. Links and directories are put, and unchanged files are skipped.
    ///
    /// Example: terrace adopt /scratch/era5 data/era5
    Adopt(Put),
    /// Copy objects out of the store.
    ///
    /// SOURCE is a key, or the prefix of many keys. If the destination is -, the bytes go to standard output. Modes and times come back;
    /// not the times of symbolic links, nor those of directories of mode 755 that hold files.
    ///
    /// Example: terrace get runs/7 results/
    Get(Get),
    /// Write an object to standard output.
    ///
    /// Example: terrace cat runs/7/log.txt
    ///
    /// Example: terrace cat runs/7/log.txt --range 0-1000
    Cat {
        /// A key.
        key: OsString,
        /// Write bytes A to B only; B itself is left out.
        #[arg(long, value_name = "A-B", value_parser = parse_range)]
        range: Option<Range>,
    },
    /// List keys at and below a prefix.
    ///
    /// Example: terrace ls -l runs/7
    Ls {
        /// A key, or the prefix of many keys [default: all keys].
        prefix: Option<OsString>,
        /// Show kinds, modes, lengths, times (UTC) and numbers of replicas, too.
        #[arg(short, long)]
        long: bool,
    },
    /// Delete an object.
    ///
    /// The space is free when the command ends, unless another process has the store open, which may still read the object. Then the next
    /// command or process frees it, half a minute later at the earliest.
    ///
    /// Example: terrace rm runs/7/log.txt
    ///
    /// Example: terrace rm -r runs/7 --dry-run
    Rm {
        /// A key.
        key: OsString,
        /// Delete everything at and below the key.
        #[arg(short, long)]
        recursive: bool,
        /// Let an empty key stand for all objects, as it does elsewhere.
        #[arg(long, requires = "recursive")]
        all: bool,
        /// Print what would be deleted, and delete nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Rename an object, or a directory with all keys below it. No bytes are copied.
    ///
    /// Example: terrace mv runs/7 runs/8
    Mv {
        /// A key, or a directory of many keys.
        from: OsString,
        /// The new key, which replaces an object of that key.
        to: OsString,
    },
    /// Copy an object to another key, inside the store. Both share the stored bytes until one of them changes.
    ///
    /// No bytes are copied, except where one of the keys has plain files, or where their rules want other replicas.
    ///
    /// Example: terrace cp runs/7/run.h5 best.h5
    Cp {
        /// A key.
        from: OsString,
        /// The key of the copy, which replaces an object of that key.
        to: OsString,
    },
    /// Compare files with the objects in the store.
    ///
    /// Exits with 1 if a file is missing in the store or differs.
    ///
    /// Example: terrace check results/ runs/7
    Check {
        /// A file, or a directory.
        source: PathBuf,
        /// The key of the file, or the prefix of the directory's keys.
        prefix: OsString,
        #[command(flatten)]
        filter: Filter,
    },
    /// Wait until no replica is pending and everything is durable.
    ///
    /// Example: terrace sync
    Sync,
    /// Deliver files or requests to a destination as they arrive, exactly once.
    ///
    /// Files in a watched directory are removed once they are delivered and synced; --tail keeps them. Without SOURCE, the command
    /// shows the status of all streams.
    ///
    /// Example: terrace flush /burst --to /archive
    ///
    /// Example: terrace flush /var/log/app --tail --to s3://logs/app
    Flush(Flush),
    /// Show where an object's replicas are and how they are encoded.
    ///
    /// Example: terrace locate runs/7/run.h5
    Locate {
        /// A key.
        key: OsString,
    },
    /// Explain the choice of tiers and encodings for an object or a file.
    ///
    /// Prints, for each replica of the first extent, the three cheapest encodings on each tier, with their expected size and cost, and
    /// which one was chosen, or why not. With --what-if or other requirements, it first shows today's choice beside the supposed one.
    ///
    /// Example: terrace explain runs/7/run.h5
    ///
    /// Example: terrace explain data.f32 --what-if tier.nvme.capacity=2TiB
    Explain(Explain),
    /// Show the ranges of objects that are read most, hottest first.
    ///
    /// Example: terrace hot runs/7 -n 5
    Hot {
        /// A key, or the prefix of many keys [default: all keys].
        prefix: Option<OsString>,
        /// Show at most this many ranges.
        #[arg(short = 'n', long, default_value_t = 20)]
        limit: usize,
    },
    /// Encode objects that are rarely read more densely, on the tier where they are.
    ///
    /// Example: terrace tune runs/7
    Tune {
        /// A key, or the prefix of many keys [default: all keys].
        prefix: Option<OsString>,
        /// Include objects that are read often.
        #[arg(long)]
        all: bool,
    },
    /// Show an object's attributes.
    ///
    /// Example: terrace stat runs/7/run.h5
    Stat {
        /// A key.
        key: OsString,
    },
    /// Show the state of the store and its tiers.
    ///
    /// Example: terrace status
    Status,
    /// Show the state of the store and its tiers until Ctrl-C.
    ///
    /// Example: terrace top --interval 5
    Top {
        /// Seconds between two updates.
        #[arg(long, default_value_t = 1.0)]
        interval: f64,
        /// Stop after this many updates [default: 1 if standard output is not a terminal].
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Copy objects at and below a prefix to a tier.
    ///
    /// Of files of an origin, what is not stored yet is fetched first.
    ///
    /// Example: terrace stage runs/7 --tier nvme
    ///
    /// Example: terrace stage data/era5 --tier nvme --limit 100GiB
    Stage {
        /// A key, or the prefix of many keys.
        prefix: OsString,
        /// The tier to copy to.
        #[arg(long)]
        tier: String,
        /// Fetch at most this many bytes from origins.
        #[arg(long, value_name = "BYTES")]
        limit: Option<Bytes>,
    },
    /// Remove the replicas of objects at and below a prefix from a tier.
    ///
    /// Replicas are made on other tiers first, so that objects keep as many as they should have. If no other failure domain has
    /// room, they have fewer; the command says so.
    ///
    /// Reads another replica of each extent first, and replaces bad ones.
    ///
    /// Example: terrace evict runs/7 --tier nvme
    Evict {
        /// A key, or the prefix of many keys.
        prefix: OsString,
        /// The tier to remove them from.
        #[arg(long)]
        tier: String,
    },
    /// Move all replicas off a tier, so that it can be removed.
    ///
    /// Reads another replica of each extent first, and replaces bad ones. If no other failure domain has room, objects have fewer replicas than
    /// they should; the command says so.
    ///
    /// Example: terrace drain archive
    Drain {
        /// The tier to empty.
        tier: String,
    },
    /// Read every replica and verify its checksums.
    ///
    /// Exits with 1 if a replica is bad or missing. To scrub a large store in seven nights, run one part each.
    ///
    /// Example: terrace scrub runs/7
    ///
    /// Example: terrace scrub --subset 1/7
    Scrub {
        /// A key, or the prefix of many keys [default: all keys].
        prefix: Option<OsString>,
        /// Replace bad and missing replicas.
        #[arg(long)]
        repair: bool,
        /// Check only part n of t.
        #[arg(long, value_name = "n/t", value_parser = subset)]
        subset: Option<(u64, u64)>,
    },
    /// Verify every replica, and replace bad and missing ones.
    ///
    /// Example: terrace repair
    Repair {
        /// A key, or the prefix of many keys [default: all keys].
        prefix: Option<OsString>,
    },
    /// Free space that no object uses, which killed writers left behind.
    ///
    /// Example: terrace prune
    Prune {
        /// Free it even if it is more than 64 MiB and 1 % of a target.
        #[arg(long)]
        force: bool,
    },
}

/// A command for the nodes that share a store.
#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Run one store over the hosts of a job, until SIGTERM. Start it on each host.
    ///
    /// Example: srun --ntasks-per-node=1 terrace cluster up --shared /pfs/me/job --local /local/terrace
    ///
    /// Example: terrace cluster up --hosts a,b --host a --shared /pfs/me/job --local /local/terrace
    Up(job::Up),
    /// End a job's store, from any of its hosts: copy what only the hosts have to the shared tier, save the catalog there, and stop.
    ///
    /// Exits with 1, and names the objects, if some are not safe.
    ///
    /// Example: terrace cluster down --deadline 8min --report end.json
    Down(job::Down),
    /// Show each node, whether it is there, and what its targets hold.
    Status {
        /// Wait until the store is there, with all its nodes, for this time at most.
        #[arg(long, value_name = "TIME")]
        wait: Option<Time>,
    },
    /// Raise the format of the shared log to the newest one that all running nodes know.
    ///
    /// Run this once the program is new on all machines. Older programs can then no longer use the store.
    Upgrade,
    /// Make the shared log again from this machine's catalog, after etcd has lost it or was restored from an older copy.
    ///
    /// End all nodes first, and run this on the machine whose node has most records. A node that has more refuses to follow. The other
    /// nodes then start as usual.
    Recover {
        /// Make it again from here although it was made again from a node with fewer records, and was used since.
        #[arg(long)]
        force: bool,
    },
}

fn subset(text: &str) -> Result<(u64, u64), String> {
    let numbers = text.split_once('/').and_then(|(n, t)| Some((n.parse().ok()?, t.parse().ok()?)));
    numbers.filter(|(n, t)| 1 <= *n && n <= t).ok_or_else(|| format!("{text:?} is not a part; write it as 1/10"))
}
