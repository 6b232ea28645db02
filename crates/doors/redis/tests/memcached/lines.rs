//! A client that sends lines.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use terrace_redis::{Dialect, RedisOptions};

use crate::common::Served;

/// The values that these tests may write.
pub const MAX_ITEM_BYTES: usize = 1 << 20;

pub fn options() -> RedisOptions {
    RedisOptions { dialect: Dialect::Memcached { max_item_bytes: MAX_ITEM_BYTES }, ..RedisOptions::default() }
}

pub fn serve() -> Served {
    Served::with(options())
}

pub struct Lines(BufReader<UnixStream>);

impl Lines {
    pub fn connect(socket: &Path) -> Lines {
        Lines(BufReader::new(UnixStream::connect(socket).unwrap()))
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The next line, without its end; empty if the server has closed the connection.
    pub fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).unwrap();
        String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned()
    }

    /// Sends a request, and returns the line that answers it.
    pub fn ask(&mut self, request: &str) -> String {
        self.send(format!("{request}\r\n").as_bytes());
        self.line()
    }

    pub fn set(&mut self, key: &str, value: &str) {
        assert_eq!(self.ask(&format!("set {key} 0 0 {}\r\n{value}", value.len())), "STORED");
    }

    /// Sends a request for items, and returns each as the words of its line and its value.
    pub fn get(&mut self, request: &str) -> Vec<(Vec<String>, String)> {
        self.send(format!("{request}\r\n").as_bytes());
        self.items()
    }

    /// Reads items up to the line `END`.
    pub fn items(&mut self) -> Vec<(Vec<String>, String)> {
        let mut items = Vec::new();
        loop {
            let line = self.line();
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            if words[0] != "VALUE" {
                assert_eq!(line, "END");
                return items;
            }
            let mut value = vec![0; words[3].parse::<usize>().unwrap() + 2];
            self.0.read_exact(&mut value).unwrap();
            assert!(value.ends_with(b"\r\n"), "{line}");
            value.truncate(value.len() - 2);
            items.push((words[1..].to_vec(), String::from_utf8_lossy(&value).into_owned()));
        }
    }

    /// The value of a key.
    pub fn value(&mut self, key: &str) -> Option<String> {
        self.get(&format!("get {key}")).pop().map(|(_, value)| value)
    }

    /// The number that `cas` compares.
    pub fn unique(&mut self, key: &str) -> String {
        self.get(&format!("gets {key}"))[0].0[3].clone()
    }
}
