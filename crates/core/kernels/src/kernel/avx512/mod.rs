//! Kernels for registers of 64 bytes.

pub(super) mod across;
mod group;
pub(super) mod network;
mod place;
pub(super) mod program;
pub(super) mod run;
mod source;
pub(super) mod stages;
