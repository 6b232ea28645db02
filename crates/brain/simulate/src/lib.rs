//! Terrace's planner on a described cluster, in virtual time: what would be stored where, how long it would take, what
//! it would cost and draw. Nothing here reads a clock or does I/O: the same description gives the same outcome.
//!
//! - [`Cluster`]: nodes, cores, links, and tiers of targets.
//! - [`Work`]: what each process writes; [`Phase`]: writes and reads in turn.
//! - [`Choose`]: who says where a block's replicas go; [`Planner`] is the planner under a policy.
//! - [`simulate()`]: has all processes do it, event by event.
//!
//! Processes take objects, some at a time, and write them block by block: each block is planned as it comes, encoded
//! by a core of its node, and written through the link to its target. Every one of these serves what comes first. What a
//! write does not wait for is made by one worker for each node and target.

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
