//! Attributes of a store's files in the C library's terms, for doors that answer calls in its terms: the preload library and the
//! supervisor of programs that enter the kernel themselves.

// The C library's structures have fields that no constructor sets.
#![allow(unsafe_code)]

mod attributes;
mod changes;

pub use attributes::{entry_type, mode, number, to_stat, to_statx};
pub use changes::{to_attribute_names, to_owner, to_pair_name, to_presence};
