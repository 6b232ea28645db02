//! A server of S3 for one test: moto's, which keeps its blobs in memory. It ends with the test.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Missing, free_ports};

/// The bucket that the server has.
pub const S3_BUCKET: &str = "runs";
/// The time that the server may take to start on a busy machine.
const MAX_START_WAIT: Duration = Duration::from_secs(60);
/// The number of ports that are tried, because another process may take one first.
const MAX_STARTS: usize = 5;

/// A running server with an empty bucket, until it is dropped.
pub struct S3 {
    program: PathBuf,
    folder: tempfile::TempDir,
    server: Child,
    port: u16,
}

impl S3 {
    /// Starts a server.
    ///
    /// # Errors
    /// [`Missing`] if this machine has no `moto_server`.
    ///
    /// # Panics
    /// If the server does not start.
    pub fn start() -> Result<S3, Missing> {
        let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers/bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut programs = std::env::split_paths(&path).chain([installed]).map(|folder| folder.join("moto_server"));
        let program = programs.find(|program| program.is_file());
        let program =
            program.ok_or_else(|| Missing::new("s3", "there is no moto_server; `make servers` installs it"))?;
        let folder = tempfile::tempdir().expect("a folder");
        let (server, port) = spawn(&program, &folder.path().join("log"));
        let s3 = S3 { program, folder, server, port };
        s3.make_bucket();
        Ok(s3)
    }

    /// Makes the bucket, which neither Terrace nor OpenDAL does.
    ///
    /// # Panics
    /// If the server refuses it.
    pub fn make_bucket(&self) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).expect("connects");
        let request = format!("PUT /{S3_BUCKET} HTTP/1.0\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("sends");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("receives");
        assert!(answer.lines().next().is_some_and(|line| line.contains(" 200 ")), "{answer}");
    }

    /// Ends the server with all that it has, and starts another one without a bucket, on another port.
    ///
    /// # Panics
    /// If it does not start.
    pub fn lose_everything(&mut self) {
        self.server.kill().and_then(|()| self.server.wait()).expect("ends");
        (self.server, self.port) = spawn(&self.program, &self.folder.path().join("log"));
    }

    /// Returns the port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns OpenDAL's options for it, but for the bucket.
    pub fn options(&self) -> Vec<(&'static str, String)> {
        vec![
            ("endpoint", format!("http://127.0.0.1:{}", self.port)),
            ("region", "us-east-1".into()),
            ("access_key_id", "test".into()),
            ("secret_access_key", "test".into()),
        ]
    }

    /// Returns them as the command line takes them.
    pub fn option_flags(&self) -> Vec<String> {
        self.options()
            .into_iter()
            .flat_map(|(name, value)| ["--option".to_owned(), format!("{name}={value}")])
            .collect()
    }
}

impl Drop for S3 {
    fn drop(&mut self) {
        // Ignoring the errors is safe: the server may have ended.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts a server, and waits until it accepts connections.
fn spawn(program: &Path, log: &Path) -> (Child, u16) {
    let started = (0..MAX_STARTS).find_map(|_| spawn_once(program, log));
    assert!(started.is_some(), "moto_server ends at once: {}", read_log(log));
    started.expect("has started")
}

/// Starts a server on a free port. None if it ends at once: it has found its port taken, or cannot work at all.
fn spawn_once(program: &Path, log: &Path) -> Option<(Child, u16)> {
    let port = free_ports(1)[0];
    let out = File::options().create(true).append(true).open(log).expect("a log");
    let errors = out.try_clone().expect("a log");
    let mut command = Command::new(program);
    command.args(["-H", "127.0.0.1", "-p", &port.to_string()]).stdin(Stdio::null()).stdout(out).stderr(errors);
    let mut server = command.spawn().expect("starts");
    let started = Instant::now();
    while server.try_wait().expect("a process").is_none() {
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Some((server, port));
        }
        assert!(started.elapsed() < MAX_START_WAIT, "moto_server does not start: {}", read_log(log));
        thread::sleep(Duration::from_millis(20));
    }
    None
}

fn read_log(log: &Path) -> String {
    std::fs::read_to_string(log).unwrap_or_default()
}
