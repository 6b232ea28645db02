//! One node of a store whose log several nodes share ([`Member`]): it appends what the clients of this machine change, follows the log
//! into the catalog, and tells each client the verdict of its change there.
//!
//! Two threads do this. One appends: a record at a time, with all changes that came meanwhile. The other follows. A client waits until
//! its change is in the log *and* in this node's catalog, so it reads what it wrote.

mod append;
mod clients;
mod deliver;
mod error;
mod follow;
mod heads;
#[doc(hidden)]
pub mod hostile;
mod keeper;
mod member;
mod session;
mod snapshots;
mod state;

pub use clients::{Client, ClientServer};
pub use error::MemberError;
pub use member::Member;
pub use session::Session;
pub use snapshots::SnapshotFolder;
pub use state::OwnTarget;
