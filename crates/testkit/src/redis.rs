//! A redis-server for one test, with a socket in its own folder. It ends with the test.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Missing, skip};

/// A running server, until it is killed or dropped.
pub struct Redis {
    folder: tempfile::TempDir,
    server: Child,
}

impl Redis {
    /// Starts a server. Returns none, and counts a skip, if this machine has no `redis-server`.
    ///
    /// # Panics
    /// If the server ends at once, or does not start.
    pub fn start() -> Option<Redis> {
        let folder = tempfile::tempdir().expect("a folder");
        let Some(server) = spawn(&folder) else {
            skip("a test of Redis", &Missing::new("redis", "there is no redis-server; `make servers` installs it"));
            return None;
        };
        Some(Redis { folder, server })
    }

    /// Returns the address for OpenDAL.
    pub fn endpoint(&self) -> String {
        format!("unix://localhost{}", self.socket().display())
    }

    /// Returns the address for Redis' own clients.
    pub fn address(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    /// Ends the server like a loss of power.
    ///
    /// # Panics
    /// If it cannot be ended.
    pub fn kill(&mut self) {
        self.server.kill().and_then(|()| self.server.wait()).expect("ends");
    }

    /// Starts it again after [`Redis::kill`], with its data.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        self.server = spawn(&self.folder).expect("starts again");
    }

    /// The socket that it listens on.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts a server that writes every change to a file, and waits until it accepts connections.
fn spawn(folder: &tempfile::TempDir) -> Option<Child> {
    let socket = folder.path().join("socket");
    let _ = std::fs::remove_file(&socket);
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    command.arg("--dir").arg(folder.path()).arg("--unixsocket").arg(&socket);
    let mut server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let started = Instant::now();
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        let ended = server.try_wait().expect("a process");
        assert!(ended.is_none(), "redis-server ended: {ended:?}");
        assert!(started.elapsed() < Duration::from_secs(20), "redis-server does not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(server)
}
