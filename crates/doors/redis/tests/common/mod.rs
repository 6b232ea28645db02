//! A store that is served for a test.

#![allow(dead_code)] // Each test uses some of it.

use std::path::PathBuf;
use std::process::Command;

use redis::{Client, Connection};
use tempfile::TempDir;
use terrace::{Config, Store};
use terrace_redis::{Address, RedisOptions, RedisServer};
use terrace_testkit::{Missing, skip};

pub struct Served {
    pub server: RedisServer,
    pub store: Store,
    pub socket: PathBuf,
    dir: TempDir,
}

impl Served {
    pub fn new() -> Served {
        Served::with(RedisOptions::default())
    }

    pub fn with(options: RedisOptions) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().join("disk");
        let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", disk.display());
        let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
        let socket = dir.path().join("socket");
        let server = RedisServer::begin(&store, &Address::Unix(socket.clone()), options).unwrap();
        Served { server, store, socket, dir }
    }

    /// Another server of the same store.
    pub fn beside(&self) -> (RedisServer, PathBuf) {
        let socket = self.dir.path().join("beside");
        let address = Address::Unix(socket.clone());
        (RedisServer::begin(&self.store, &address, RedisOptions::default()).unwrap(), socket)
    }

    pub fn client(&self) -> Connection {
        connect(&self.socket)
    }

    /// Runs `redis-cli`; none, with a skip, if the machine lacks it.
    pub fn cli(&self, arguments: &[&str]) -> Option<String> {
        let output = Command::new("redis-cli").arg("-s").arg(&self.socket).args(arguments).output();
        let Ok(output) = output else {
            skip("a test with redis-cli", &Missing::new("redis", "there is no redis-cli; `make servers` installs it"));
            return None;
        };
        Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }
}

pub fn connect(socket: &std::path::Path) -> Connection {
    let address = format!("redis+unix://{}", socket.display());
    Client::open(address).unwrap().get_connection().unwrap()
}

/// A request for [`redis::Cmd::query`].
pub fn command(words: &[&str]) -> redis::Cmd {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command
}

/// Sends a request of words that are text, and shows the reply.
pub fn ask(client: &mut Connection, words: &[&str]) -> String {
    match command(words).query::<redis::Value>(client) {
        Ok(value) => show(&value),
        Err(error) => format!("-{error}"),
    }
}

/// A reply as a short text.
pub fn show(value: &redis::Value) -> String {
    use redis::Value;
    let all = |values: &[Value]| values.iter().map(show).collect::<Vec<_>>().join(" ");
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Okay => "OK".to_owned(),
        Value::Int(number) => number.to_string(),
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::SimpleString(text) => text.clone(),
        Value::Array(values) | Value::Set(values) => format!("[{}]", all(values)),
        Value::ServerError(error) => format!("-{error:?}"),
        other => format!("{other:?}"),
    }
}
