//! Kernels for registers of 32 bytes.

pub(super) mod across;
pub(super) mod program;
pub(super) mod run;
pub(super) mod square;
pub(super) mod transpose;
