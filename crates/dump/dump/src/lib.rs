//! Collective dumps of the buffers of many ranks, replicated over the nodes' stores. Natural duplicates count as replicas.
//!
//! All ranks of a [`transport::World`] call [`dump()`], each with the store of its node; later, in another run with any number of ranks,
//! they call [`restore()`], which needs all stores but any `replicas - 1`. [`regions`] does the same for regions of memory that have
//! numbers, and [`background`] while the program continues; [`gc`] drops old versions. The steps are modules of their own: [`chunk`], [`votes`] and [`table`] by [`halving`],
//! [`plan`], [`exchange`]; [`simulate`](simulate::simulate) runs them for thousands of ranks without moving anything.
//!
//! **Steps are pure where possible, and simulated for 10,000 ranks** (`tests/scale.rs`). What ranks know about a chunk is collected at
//! the chunk's home rank ([`halving`]), which alone decides where a shared chunk is stored, and tells the ranks that have it. Each
//! rank computes the place of all other chunks itself, from each rank's load. No rank knows all chunks: only loads (4 bytes per
//! rank), stores, versions and buffer lengths are gathered from all ranks.
//!
//! **No rank waits for one that has given up**: after each local step that may fail, all ranks agree whether it failed anywhere. **A
//! version exists once a store has its `complete` record**, written after all stores are synced. A store's indexes say which of its
//! data are needed, so [`gc`] needs no other store.
//!
//! **A restart by other ranks plans from a census** (`regions/census.rs`): each rank restores what some dumped ranks had, all tell what they
//! have and what they need, and each computes the same transfers. If regions do not fit, all ranks find that out before any memory changes.
//!
//! **A version flows by chunks, not by objects** (`flow/`): a copy of the stores' objects would send each chunk as often as it has copies,
//! and could be restored only into as many stores. All ranks agree on one sender of each chunk by its hash, so there is no coordinator;
//! packs have the hash of their bytes as names, so the next flow of the same version finds those that an interrupted one has sent. Streams
//! are not used: their marks are in one store, and that may be lost.
//!
//! **One job at a time changes a dump in an archive** (`archive/claim.rs`). Directories and buckets have no locks that end with a process,
//! and the clocks of two machines differ, so a job rewrites a file of its own, and another one takes over once it has seen no change for 30
//! seconds by its own clock. A job that was stopped for so long cannot be kept from its next write, whatever it has checked before. So no
//! name of a file is used for other bytes: packs and records are named by their hashes, and a version's record is made by put-if-absent.
//!
//! **A thread makes the checkpoints that ranks do not wait for** ([`background`]), with a communicator of its own, so the program needs
//! `MPI_THREAD_MULTIPLE`. Without a thread, a dump would progress only in the program's calls, in none of its computing, and each
//! collective step would need a form that does not block; one-sided communication has none. The regions are copied first: page protection
//! does not see what the kernel or a network card writes into a region. For such programs, windows are messages (`messages.rs` of
//! `terrace-dump-mpi`): with `MPI_THREAD_MULTIPLE`, OpenMPI 4 has no one-sided communication over TCP.
//!
//! ```
//! use terrace::{Config, Store};
//! use terrace_dump::transport::{World, threads::Threads};
//! use terrace_dump::{Options, Wanted, dump, restore};
//!
//! let dir = tempfile::tempdir()?;
//! let store = |node: u32| {
//!     let at = dir.path().join(node.to_string());
//!     let disk = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", at.join("disk").display());
//!     Store::init(&at.join("store"), &Config::parse(&disk, "example")?)
//! };
//! let stores = [store(0)?, store(1)?, store(2)?];
//! let dumped = Threads::on(&[0, 1, 2]).run(|world| {
//!     let field = vec![world.rank() as u8; 100_000];
//!     dump(world, &stores[world.node() as usize], "field", &[&field], &Options { replicas: 2, ..Options::default() })
//! });
//! assert!(dumped.iter().all(Result::is_ok));
//! // One store is lost; two ranks restore the buffers of three.
//! let restored = Threads::on(&[0, 1]).run(|world| {
//!     let store = &stores[world.node() as usize + 1];
//!     restore(world, store, "field", None, Wanted::Dealt, 1 << 20)?.whole()
//! });
//! let [first, second] = &restored[..] else { unreachable!() };
//! assert_eq!(first.as_ref().map(|ranks| ranks[&2][0][7]).ok(), Some(2));
//! assert_eq!(second.as_ref().map(|ranks| ranks[&1][0].len()).ok(), Some(100_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod archive;
mod ask;
pub mod background;
pub mod chunk;
mod confirm;
mod dump;
mod error;
pub mod exchange;
#[cfg(feature = "flags")]
pub mod flags;
mod flow;
pub mod gc;
pub mod halving;
#[doc(hidden)]
pub mod hostile;
mod keep;
mod lock;
mod lost;
mod manifest;
mod missing;
mod names;
mod options;
mod pack;
mod packed;
mod parcel;
pub mod plan;
pub mod regions;
mod restore;
mod session;
pub mod simulate;
pub mod table;
mod terms;
pub mod transport;
pub mod votes;

pub use dump::dump;
pub use error::{Difference, Error, Lost, Result};
pub use flow::{Flowed, flow};
pub use names::is_pack;
pub use options::{Dumped, Duplicates, Options};
pub use restore::{Restored, Wanted, restore, restore_whole};
pub use terms::Terms;
