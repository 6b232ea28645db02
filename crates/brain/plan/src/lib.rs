//! The planner of Terrace: it decides where to store the replicas of some bytes, and in which encodings. It reads no
//! clock, does no I/O, and keeps no state except what the caller passes in, so that any storage system can use it.
//!
//! - [`policy`]: [`resolve`](policy::resolve) combines an [`Ask`](policy::Ask) of each of three levels into a
//!   [`Policy`](policy::Policy), and reports every decision between requirements as a sentence.
//! - [`snapshot`]: a [`Snapshot`](snapshot::Snapshot) describes tiers and targets as plain data.
//! - [`terrace_cost::Costs`] contains the expected cost of each encoding on the data.
//! - [`plan`]: [`plan()`](plan::plan()) returns the cheapest [`Plan`](plan::Plan) for these inputs,
//!   [`replan`](plan::replan) the cheapest one for data that are stored already. A [`Memo`](plan::Memo) caches plans.
//! - [`explain`]: the alternatives to a plan, and the reasons for the choice.
//! - [`hotness`]: scores of ranges, the order in which ranges are planned, and worthwhile moves between tiers.
//!
//! ```
//! use terrace_codec::Encoding;
//! use terrace_cost::{Costs, Expected};
//! use terrace_plan::plan::{Memo, Want, plan};
//! use terrace_plan::policy::{Ask, Replicas, resolve};
//! use terrace_plan::snapshot::{Snapshot, Target, Tier};
//!
//! let tier = |name: &str, persistent| Tier { name: name.into(), persistent, watts: 5.0 };
//! let target = |tier, domain, speed, latency| Target {
//!     tier, domain, read: speed, write: speed, latency, free: 1 << 30, reserved: 0, load: 0.0, lanes: 4, plain: false, near: false, up: true,
//! };
//! let targets = vec![target(0, 0, 5e9, 1e-6), target(1, 1, 2e8, 5e-3), target(1, 2, 2e8, 5e-3)];
//! let snapshot = Snapshot::new(vec![tier("ram", false), tier("disk", true)], targets, 10.0)?;
//!
//! let ask = Ask { requirements: vec!["min_read_latency".parse()?, "min_storage".parse()?], ..Ask::default() };
//! let (policy, why) = resolve(&ask, &Ask::default(), &Ask::default(), Replicas::default());
//! assert_eq!(why.len(), 1, "{}", why[0]);
//!
//! let zstd: Encoding = "zstd-3".parse()?;
//! let costs = Costs::new([(zstd, Expected::from_speeds(3e8, 9e8, 2.5))]);
//! let mut memo = Memo::default();
//! let plan = plan(&Want::bytes(1 << 20), &snapshot, &policy, &costs, &mut memo)?;
//! assert_eq!(plan.replicas.len(), 3);
//! assert_eq!((plan.replicas[0][0].target, plan.replicas[0][0].encoding), (0, Encoding::NONE), "raw in memory");
//! assert_eq!((plan.replicas[1][0].target, plan.replicas[1][0].encoding), (1, zstd), "dense on disk");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod explain;
pub mod hotness;
mod mix;
mod named;
pub mod plan;
pub mod policy;
mod sets;
pub mod snapshot;
