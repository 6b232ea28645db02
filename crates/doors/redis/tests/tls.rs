//! TLS: clients that others wrote, strangers, and addresses that other machines reach.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{Served, ask};
use tempfile::TempDir;
use terrace_kit::{Certificate, ListenError};
use terrace_redis::{Address, Dialect, Password, RedisOptions, RedisServeError, RedisServer};
use terrace_testkit::{Missing, Random, skip, wait_until};

const PASSWORD_TEXT: &str = "a password of many letters";

/// A certificate of its own authority, its key and a password, in files.
struct Secrets(TempDir);

impl Secrets {
    fn new() -> Secrets {
        let dir = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
        fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        let password = dir.path().join("password");
        fs::write(&password, PASSWORD_TEXT).unwrap();
        fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).unwrap();
        Secrets(dir)
    }

    fn certificate(&self) -> Option<Certificate> {
        let path = |name: &str| self.0.path().join(name);
        Some(Certificate::read(&path("cert.pem"), &path("key.pem")).unwrap())
    }

    fn password(&self) -> Option<Password> {
        Some(Password::read(&self.0.path().join("password")).unwrap())
    }

    /// Serves on a TCP port with both.
    fn serve(&self, served: &Served, dialect: Dialect) -> (RedisServer, SocketAddr) {
        let (password, certificate) = (self.password(), self.certificate());
        let options = RedisOptions { dialect, password, certificate, ..RedisOptions::default() };
        let server = RedisServer::begin(&served.store, &Address::Tcp(([127, 0, 0, 1], 0).into()), options).unwrap();
        let Address::Tcp(address) = server.address().clone() else { unreachable!("a TCP port was asked for") };
        (server, address)
    }

    /// Runs a script with the port, the authority and the password; none, with a skip, if the module is missing.
    fn run(&self, script: &str, module: &'static str, address: SocketAddr) -> Option<Output> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = folder.join("../../../target/servers/bin/python");
        let has_module = Command::new(&python).args(["-c", &format!("import {module}")]).output();
        if !has_module.is_ok_and(|output| output.status.success()) {
            let reason = format!("there is no {module} in target/servers; `make servers` installs it");
            skip("a test of TLS with Python", &Missing::new("redis", reason));
            return None;
        }
        let mut command = Command::new(python);
        command.arg(folder.join("tests").join(script)).arg(address.port().to_string());
        Some(command.arg(self.0.path().join("cert.pem")).arg(PASSWORD_TEXT).output().unwrap())
    }
}

fn check(output: Option<Output>) {
    let Some(output) = output else { return };
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}\n{errors}");
}

#[test]
fn redis_py_and_pymemcache_speak_tls() {
    let (secrets, served) = (Secrets::new(), Served::new());
    let (_redis, redis) = secrets.serve(&served, Dialect::Redis);
    check(secrets.run("tls_with_redis_py.py", "redis", redis));
    let (_memcached, memcached) = secrets.serve(&served, Dialect::Memcached { max_item_bytes: 1 << 20 });
    check(secrets.run("tls_with_pymemcache.py", "pymemcache", memcached));
}

#[test]
fn redis_cli_speaks_tls() {
    let (secrets, served) = (Secrets::new(), Served::new());
    let (_server, address) = secrets.serve(&served, Dialect::Redis);
    let mut cli = Command::new("redis-cli");
    cli.args(["--tls", "-h", "localhost", "-p", &address.port().to_string(), "--no-auth-warning", "-a", PASSWORD_TEXT]);
    let output = cli.arg("--cacert").arg(secrets.0.path().join("cert.pem")).args(["set", "a", "1"]).output();
    let printed = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match printed {
        Ok(printed) if printed.contains("Unrecognized option") => {
            skip("redis-cli with TLS", &Missing::new("redis-tls", "redis-cli is built without TLS"));
        }
        Ok(printed) => assert_eq!(printed, "OK"),
        Err(error) => skip("redis-cli with TLS", &Missing::new("redis", error)),
    }
}

/// Clients without TLS, and those that break off, harm nobody else.
#[test]
fn strangers_get_no_reply_and_harm_nobody() {
    let (secrets, served) = (Secrets::new(), Served::new());
    let (server, address) = secrets.serve(&served, Dialect::Redis);
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"PING\r\nPING\r\n").unwrap();
    let mut reply = Vec::new();
    // The server closes the connection with bytes that it has not read, so it may be reset.
    let _ = plain.read_to_end(&mut reply);
    // An alert of TLS at most.
    assert!(!reply.windows(4).any(|bytes| bytes == b"PONG") && reply.len() < 64, "{reply:?}");
    let mut random = Random::new(3);
    let open: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stranger = TcpStream::connect(address).unwrap();
            // The head of a message that begins a handshake, and nothing that belongs to it.
            let _ = stranger.write_all(&[22, 3, 1, 0, random.below(256) as u8, 1]);
            let length = random.below(40) as usize;
            let _ = stranger.write_all(&random.bytes(length));
            stranger
        })
        .collect();
    drop(open);
    wait_until("the strangers have gone", || server.traffic().open_connections() == 0);
    assert_eq!(ask(&mut served.client(), &["PING"]), "PONG");
}

#[test]
fn other_machines_need_both_a_password_and_tls() {
    let (secrets, served) = (Secrets::new(), Served::new());
    for (password, certificate, is_right) in [
        (None, None, false),
        (secrets.password(), None, false),
        (None, secrets.certificate(), false),
        (secrets.password(), secrets.certificate(), true),
    ] {
        let options = RedisOptions { password, certificate, ..RedisOptions::default() };
        let begun = RedisServer::begin(&served.store, &Address::Tcp(([0, 0, 0, 0], 0).into()), options).map(drop);
        match begun {
            Ok(()) => assert!(is_right),
            Err(error) => {
                assert!(!is_right && matches!(error, RedisServeError::Listen(ListenError::Open { .. })), "{error}")
            }
        }
    }
}
