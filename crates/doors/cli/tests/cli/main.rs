//! The binary as people and scripts use it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod adopt;
#[cfg(feature = "object")]
mod bucket;
mod copying;
mod damage;
mod dataset;
mod destroy;
mod dump;
mod errors;
mod explain;
mod flush;
mod guide;
mod moves;
mod names;
mod origin;
mod output;
mod pipes;
mod place;
mod predictor;
mod real;
mod released;
mod restart;
mod restore;
mod signals;
mod simulate;
mod sparse;
mod staging;
mod staging_case;
mod staging_hang;
mod staging_inputs;
mod staging_lists;
#[cfg(feature = "object")]
mod staging_s3;
mod tiers;
mod unconfigured;
