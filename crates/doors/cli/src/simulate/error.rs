//! The errors of a description.

use terrace::config::Bytes;
use terrace_simulate::ClusterError;
use thiserror::Error;

/// The largest number of blocks; more would take several minutes for each policy.
pub const MAX_SIMULATED_BLOCKS: usize = 200_000_000;

/// The reasons why a description is invalid.
#[derive(Debug, Error)]
pub enum DescriptionError {
    #[error("{0}")]
    Text(#[from] toml::de::Error),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("[workload] {key} is 0; give at least 1")]
    None { key: &'static str },
    #[error("[workload] block is {0}; give 4KiB to 1GiB")]
    Block(Bytes),
    #[error("[workload] object is {object}, which is no multiple of block, {block}; change one of them")]
    Uneven { object: Bytes, block: Bytes },
    #[error("[workload] expected_reads is {0}; give a number of at least 0")]
    Reads(f64),
    #[error(
        "these are {blocks} blocks, and at most {MAX_SIMULATED_BLOCKS} are gone through; \
         give a larger block, or fewer steps or objects"
    )]
    Long { blocks: usize },
    #[error("a [[{0}]] has an empty name; give it one")]
    Unnamed(&'static str),
    #[error("[[{0}]] is missing; describe at least one")]
    Missing(&'static str),
    #[error("two are named {0:?} among [[{1}]]; give each a name of its own")]
    Twice(String, &'static str),
    #[error("tier {tier:?}: `{key}` is missing; give bytes per second, such as \"500MB/s\"")]
    Speed { tier: String, key: &'static str },
    #[error("tier {tier:?}: no link is named {link:?}; describe it by [[link]], or leave `link` out")]
    Link { tier: String, link: String },
    #[error("[data] names files and [[data.encoding]]; keep one: what encodings do is either sampled or given")]
    Both,
    #[error("[[data.encoding]] {name:?}: {reason}")]
    Encoding { name: String, reason: String },
    #[error("policy {policy:?}: {reason}")]
    Policy { policy: String, reason: String },
}
