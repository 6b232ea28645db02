//! A simulation of Terrace's planner on a described cluster, in virtual time. It computes what is stored where, how
//! long the job takes, what the space costs, and the energy used. It reads no clock and does no I/O: the same
//! description gives the same outcome.
//!
//! - [`Cluster`]: nodes, cores, links, and tiers of targets.
//! - [`Work`]: the writes of each process; [`Phase`]: alternating writes and reads.
//! - [`Choose`]: the interface that places the replicas of a block; [`Planner`] implements it with the planner under a
//!   policy.
//! - [`simulate()`]: runs all processes, event by event.
//!
//! A process works on several objects at a time and writes them block by block. Each block is planned when it is
//! written, encoded by a core of its node, and written through the link to its target. Cores, links and targets serve
//! requests in order of arrival. One worker per node and target makes the replicas that a write does not wait for.
//!
//! A simulated process plans as a real one does: when it gets a core, with the speeds that its node has learned. It knows which
//! writes have begun, not what others are encoding ([`Knows::Begun`]); the bench's replays know everything. Cores, links and
//! targets are one kind of server (`machine.rs`) with *lanes*, the number of operations whose latencies may overlap. Simultaneous
//! events run in the order of their creation.

mod choose;
mod cluster;
mod heap;
mod held;
mod job;
mod machine;
mod mover;
mod outcome;
mod room;
mod run;
mod thread;
mod work;

pub use choose::{Choose, Kind, Noted, Piece, Planner};
pub use cluster::{Cluster, ClusterError, Link, Place, Tier};
pub use job::{Error, Job};
pub use outcome::{Outcome, PhaseOutcome};
pub use room::Knows;
pub use run::simulate;
pub use work::{Even, Phase, Work};
