//! The parts of the operating system that Terrace uses: clocks, the boot id, file locks, forks, words that processes share,
//! files that are replaced as a whole, syncs that failed, files of secrets, and sockets of servers. Also the hooks with which tests make a process fail.

pub mod boot;
pub mod clock;
#[doc(hidden)]
pub mod fail;
pub mod failed_sync;
pub mod fork;
mod listening;
pub mod lock;
mod lock_wait;
mod private_file;
mod real_path;
mod regular;
mod replace;
pub mod reserve;
pub mod words;

pub use listening::{Address, listen_privately};
pub use lock::Locked;
pub use private_file::read_private;
pub use real_path::real_path;
pub use regular::{open_regular, read_regular};
pub use replace::{remove_folder, remove_leftovers, replace, replace_durably, split_leftover};
