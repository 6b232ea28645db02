//! Shows a store below a path prefix to programs that enter the kernel themselves: static ones, and those of Go.
//!
//! The kernel asks the *supervisor*, in the process that started the program, at each call with a path that the program or one
//! of its children makes (`seccomp(2)`, user notification). A path that is not below the prefix is the kernel's: the call continues. Any
//! other call is answered from the store, by a thread of its own: programs that use the store by a library make calls while they hold its
//! locks, and must not wait for a thread that waits for these locks.
//!
//! **An open file is an ordinary one of the kernel's**, so that reads, writes and mappings need no answer. For reading, it holds a copy of
//! the bytes; for writing, it is a *spool*, which is placed in the store when its last descriptor is closed, and
//! when the program ends.

mod answer;
mod calls;
mod descriptors;
mod filter;
mod inode;
mod listener;
mod listing;
mod memory;
mod pairs;
mod paths;
mod sieve;
mod spool;
mod spools;
mod supervisor;
mod times;

pub use supervisor::{ServingSupervisor, Supervision};
