//! Real servers on loopback, each behind a proxy, ended by its own process id.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Missing, Proxy, free_ports};

/// How long a server may take to start on a busy machine.
const MAX_START_WAIT: Duration = Duration::from_secs(60);
/// How often a server is started on another port where somebody has taken the first.
const MAX_STARTS: usize = 5;

/// A server behind a proxy.
pub struct Running {
    command: Box<dyn Fn(u16) -> Command>,
    child: Child,
    log: PathBuf,
    /// The server's own port.
    pub(crate) port: u16,
    /// Clients connect to it.
    pub proxy: Proxy,
}

impl Running {
    /// Starts the command of a server for a port, and waits until it takes connections.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(log: &Path, command: impl Fn(u16) -> Command + 'static) -> Running {
        let proxy = Proxy::start();
        let (child, port) = spawn(&command, log);
        proxy.lead_to(port);
        Running { command: Box::new(command), child, log: log.to_owned(), port, proxy }
    }

    /// Ends it in the middle of whatever it does.
    ///
    /// # Panics
    /// If it cannot be ended.
    pub fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("ends");
        // sshd leaves a process for each connection, which ends with it.
        self.proxy.cut_off();
    }

    /// Starts it again after [`Running::kill`], on another port behind the same proxy.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start_again(&mut self) {
        let (child, port) = spawn(&*self.command, &self.log);
        (self.child, self.port) = (child, port);
        self.proxy.lead_to(port);
    }

    /// Returns the server's output so far.
    pub fn said(&self) -> String {
        said(&self.log)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.proxy.cut_off();
    }
}

/// Starts a server on a free port and waits until it takes connections.
fn spawn(command: &dyn Fn(u16) -> Command, log: &Path) -> (Child, u16) {
    for _ in 0..MAX_STARTS {
        let port = free_ports(1)[0];
        let out = File::options().create(true).append(true).open(log).expect("a log");
        let mut command = command(port);
        command.stdin(Stdio::null()).stdout(out.try_clone().expect("the log")).stderr(out);
        let mut child = command.spawn().expect("the server starts");
        let started = Instant::now();
        // One that has ended found its port taken, or cannot work at all: then its log is shown below.
        while child.try_wait().expect("a process").is_none() {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return (child, port);
            }
            assert!(started.elapsed() < MAX_START_WAIT, "{command:?} does not start: {}", said(log));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    unreachable!("the server ends at once: {}", said(log))
}

fn said(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

/// Returns the folder of what `make servers` downloads.
pub fn downloads() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers")
}

/// Finds a program that `make servers` installs.
///
/// # Errors
/// If it is not there.
pub fn find_server(need: &'static str, program: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([downloads().join("bin"), "/usr/sbin".into()]);
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| Missing::new(need, format!("there is no {program}; `make servers` installs it")))
}
