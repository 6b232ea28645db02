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
