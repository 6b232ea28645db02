//! The decisions of Terrace, alone: which replicas of some bytes go where, and in which encoding. Nothing here reads a
//! clock, does I/O or keeps state but what is passed in, so that any storage system can use it.
//!
//! - [`policy`]: an [`Ask`](policy::Ask) of each of three levels becomes a [`Policy`](policy::Policy), every decision
//!   between requirements with a sentence that says why.
//! - [`snapshot`]: tiers and targets as plain data become a [`Snapshot`](snapshot::Snapshot).
//! - [`terrace_cost::Costs`] holds what each encoding is expected to cost on the data at hand.
//! - [`plan`]: [`plan()`](plan::plan()) gives the cheapest [`Plan`](plan::Plan) for these;
//!   [`replan`](plan::replan) for what is stored already. A [`Memo`](plan::Memo) remembers.
//! - [`explain`]: what was weighed for a plan, and why it is what it is.
//! - [`hotness`]: scores of ranges, the order in which they are planned, and what is worth moving.
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
//!     tier, domain, read: speed, write: speed, latency, free: 1 << 30, reserved: 0, load: 0.0, lanes: 4, plain: false, up: true,
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
pub mod snapshot;
