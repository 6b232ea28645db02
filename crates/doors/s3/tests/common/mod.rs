//! A store that is served to clients, and programs that are clients.

// Each test file is a program of its own, and uses some of these.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use terrace::{Config, Store};
use terrace_s3::{Keys, S3Options, Server};
use terrace_testkit::{Missing, skip};

pub const ACCESS_KEY: &str = "terrace";
pub const SECRET_KEY: &str = "0123456789abcdef";
/// How long an answer may take on a busy machine.
const MAX_ANSWER_WAIT: Duration = Duration::from_secs(60);

/// A store of a directory tier, served on loopback.
pub struct Served {
    pub dir: TempDir,
    pub store: Store,
    pub server: Server,
}

pub fn new_store(dir: &Path, more: &str) -> Store {
    let tier =
        |name: &str| format!("[[tier]]\nname = '{name}'\nkind = 'directory'\ntargets = ['{}/{name}']\n", dir.display());
    let config = format!("[store]\nreplicas = {{ default = 1 }}\n{}{}{more}", tier("fast"), tier("slow"));
    Store::init(&dir.join("store"), &Config::parse(&config, "test").unwrap()).unwrap()
}

/// The file of keys with the one client of the tests.
pub fn keys(dir: &Path) -> Keys {
    let path = dir.join("keys");
    fs::write(&path, format!("{ACCESS_KEY} {SECRET_KEY}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    Keys::read(&path).unwrap()
}

pub fn options() -> S3Options {
    S3Options::on(([127, 0, 0, 1], 0).into())
}

impl Served {
    /// To clients that sign their requests.
    pub fn new() -> Served {
        let dir = tempfile::tempdir().unwrap();
        let store = new_store(dir.path(), "");
        let options = S3Options { keys: Some(keys(dir.path())), ..options() };
        Served { server: Server::begin(&store, options).unwrap(), store, dir }
    }

    /// To everybody on this machine.
    pub fn open() -> Served {
        let dir = tempfile::tempdir().unwrap();
        let store = new_store(dir.path(), "");
        Served { server: Server::begin(&store, options()).unwrap(), store, dir }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Sends a request as it stands, and returns the whole answer.
    pub fn ask(&self, request: &str) -> String {
        String::from_utf8_lossy(&ask(self.server.address(), request.as_bytes())).into_owned()
    }

    /// Runs a script of `tests/python` with this server's address. None, with a counted skip, where there are no such clients.
    pub fn python(&self, script: &str) -> Option<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
        let python = python_program(script)?;
        let mut command = Command::new(python);
        command.arg(folder.join(script)).arg(self.endpoint()).current_dir(self.dir.path());
        Some(succeed(self.with_keys(&mut command)))
    }

    /// Gives a program the client's keys.
    pub fn with_keys<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command
            .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
            .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
            .env("AWS_DEFAULT_REGION", "us-east-1");
        // rclone does not get along with the authorities that the machine may name for clients of Amazon's.
        command.env_remove("AWS_CA_BUNDLE").env("AWS_EC2_METADATA_DISABLED", "true").env("PYTHONDONTWRITEBYTECODE", "1")
    }
}

/// Runs a program, which must succeed. Returns what it printed.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// The Python that has the clients of `make servers`.
pub fn python_program(test: &str) -> Option<PathBuf> {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/bin/python");
    let has_clients =
        || Command::new(&python).args(["-c", "import boto3, duckdb_extension_httpfs, pyarrow, s3fs"]).output();
    if has_clients().is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    skip(test, &Missing::new("s3", "there are no boto3, DuckDB, pyarrow and s3fs; `make servers` installs them"));
    None
}

/// Sends bytes, and returns what comes until the server closes the connection.
pub fn ask(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(MAX_ANSWER_WAIT)).unwrap();
    // The server may answer, and leave, before it has read everything.
    let _ = stream.write_all(request);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// The status of an answer.
pub fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}
