//! Parts that the servers of several protocols share.
//!
//! [`ThreadServer`] serves each connection in a thread, which waits for the client; [`TaskServer`] in a task, for libraries that are
//! asynchronous. Both listen, limit the number of connections, and end. A server with a loop of its own takes the [`Listener`]. All refuse
//! addresses that other machines could reach by the same rule, the [`Reach`].
//!
//! [`Certificate`] is for TLS, and [`Traffic`] counts what a server does.

mod certificate;
mod connection;
mod listener;
mod tasks;
mod threads;
mod traffic;

pub use certificate::Certificate;
pub use connection::Connection;
pub use listener::{ACCEPT_RETRY_DELAY, ListenError, Listener, Reach, SocketFile};
pub use tasks::{Ending, TaskOptions, TaskServer};
pub use terrace_system::Address;
pub use threads::{ThreadOptions, ThreadServer};
pub use traffic::{OpenConnection, Traffic};
