//! A server on a socket of the file system, and a stream of lines to it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;

use crate::served::Place;

pub fn socket(place: &Place) -> PathBuf {
    place.0.path().join("socket")
}

/// Serves a store to clients of this kind, and checks that the server says so.
pub fn serve(place: &Place, kind: &str, clients: &str) -> Child {
    let (child, line) = place.start(&[kind, "--unix", socket(place).to_str().unwrap()]);
    assert!(line.contains(&format!("is served to clients of {clients} on ")), "{line:?}");
    child
}

/// A connection to the server.
pub struct Lines(BufReader<UnixStream>);

impl Lines {
    pub fn connect(place: &Place) -> Lines {
        Lines(BufReader::new(UnixStream::connect(socket(place)).unwrap()))
    }

    /// Sends text, and returns the first line of the reply. None if the server has gone.
    pub fn ask(&mut self, request: &str) -> Option<String> {
        self.0.get_mut().write_all(request.as_bytes()).ok()?;
        self.line()
    }

    pub fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }
}

/// The levels of acknowledgement.
pub const ACK_LEVELS: [&str; 3] = ["placed", "replicated", "durable"];

/// A store with two replicas of each value, on two disks, that acknowledges at this level.
pub fn place_that_acknowledges(level: &str) -> Place {
    Place::with(&format!("[store]\nack = '{level}'\nreplicas = {{ default = 2 }}\n"), &["disk", "other"])
}

/// How often a server is killed at each level: `TERRACE_KILLS` says how often at all of them.
pub fn kills_of_a_level() -> u64 {
    std::env::var("TERRACE_KILLS").map_or(2, |text| text.parse::<u64>().unwrap().div_ceil(ACK_LEVELS.len() as u64))
}

/// A value: the number of a change. Those of every second client have 6,000 digits, so that their frames lie on the disks.
pub fn value_of(client: usize, number: u64) -> String {
    let width = if client.is_multiple_of(2) { 1 } else { 6000 };
    format!("{number:0width$}")
}

/// Takes away one of two disks. What was replicated is on the other.
pub fn lose_a_disk(place: &Place) {
    std::fs::remove_dir_all(place.0.path().join("other")).unwrap();
}
