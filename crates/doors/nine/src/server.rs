//! [`serve_files`]: begins a server.

use std::sync::Arc;
use std::time::Duration;

use terrace::Files;
use terrace_kit::{Address, ListenError, Reach, ThreadOptions, ThreadServer};
use terrace_tree::Tree;

use crate::nine;

/// The reason to refuse other machines.
const OPEN_ADVICE: &str = "and everybody who reaches it reads and writes everything: 9P has no authentication; listen on 127.0.0.1 \
                           and forward the port by ssh, or say --trust-network";

/// How long requests in progress may take when the server ends.
const DRAIN_TIME: Duration = Duration::from_secs(60);

/// The limits on the number and idle time of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest number of connections; each may hold a few MiB and its open files. To admit one more, the server closes the connection
    /// that has been idle longest: first among those without a version, then among those without open files, then among all.
    pub connections: usize,
    /// A connection that has been idle for less than this is not closed for another, unless it has no version. A connection with open
    /// files is spared for twelve times as long.
    pub spared: Duration,
    /// A connection that sends no request, or does not receive its reply, for this long is closed; `None` disables the limit.
    pub idle: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { connections: 256, spared: Duration::from_secs(5), idle: Some(Duration::from_secs(24 * 60 * 60)) }
    }
}

/// Serves files and views by 9P2000. Every client has full access; `trusted` admits other machines. The end of the server closes the
/// files of its connections.
///
/// ```
/// use terrace::files::Files;
/// use terrace::{Config, Store};
/// use terrace_nine::{Limits, serve_files};
///
/// let dir = tempfile::tempdir()?;
/// let disk = dir.path().join("disk");
/// let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", disk.display());
/// let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "the example")?)?;
/// let address = terrace_kit::Address::Tcp("127.0.0.1:0".parse()?);
/// let mut server = serve_files(&Files::new(&store)?, &address, false, Limits::default())?;
/// println!("serves {}", server.address());
/// server.end();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the system refuses the address, or other machines can reach it without `trusted`.
pub fn serve_files(
    files: &Files,
    address: &Address,
    trusted: bool,
    limits: Limits,
) -> Result<ThreadServer, ListenError> {
    let reach = if trusted { Reach::Anywhere } else { Reach::ThisMachine(OPEN_ADVICE) };
    let options = ThreadOptions {
        name: "terrace-nine",
        max_connections: limits.connections,
        idle: limits.idle,
        drain_time: DRAIN_TIME,
    };
    let tree = Arc::new(Tree::new(files));
    ThreadServer::begin(address, reach, options, move |connection| nine::serve(&tree, connection, limits.spared))
}
