//! `terrace serve memcached` as its users start and end it, and as a kill ends it.

#![allow(clippy::unwrap_used)]

mod served;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use served::Place;

fn socket(place: &Place) -> PathBuf {
    place.0.path().join("socket")
}

fn serve(place: &Place) -> Child {
    let (child, line) = place.start(&["memcached", "--unix", socket(place).to_str().unwrap()]);
    assert!(line.contains("is served to clients of memcached on "), "{line:?}");
    child
}

fn connect(place: &Place) -> Client {
    Client(BufReader::new(UnixStream::connect(socket(place)).unwrap()))
}

/// A client that sends lines.
struct Client(BufReader<UnixStream>);

impl Client {
    /// Sends a line, or a line and a block. None if the server has gone.
    fn ask(&mut self, request: &str) -> Option<String> {
        write!(self.0.get_mut(), "{request}\r\n").ok()?;
        self.line()
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.strip_suffix("\r\n").map(str::to_owned)
    }

    fn set(&mut self, key: &str, value: u64) -> Option<String> {
        let value = value.to_string();
        self.ask(&format!("set {key} 0 0 {}\r\n{value}", value.len()))
    }

    fn get(&mut self, key: &str) -> Option<u64> {
        match self.ask(&format!("get {key}")).unwrap().as_str() {
            "END" => None,
            _ => {
                let value = self.line().unwrap().parse().unwrap();
                assert_eq!(self.line().unwrap(), "END");
                Some(value)
            }
        }
    }
}

#[test]
fn signals_end_it_and_it_says_where_it_cannot_listen() {
    let place = Place::new();
    let mut child = serve(&place);
    let mut client = connect(&place);
    assert_eq!(client.set("a/b", 1).unwrap(), "STORED");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(client.ask("get a/b"), None);
    assert_eq!(place.run(&["cat", "redis/0/a/b\u{1}"]).stdout, b"1");
    let open = place.run(&["serve", "memcached", "--listen", "0.0.0.0:0"]);
    let errors = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(open.status.code() == Some(1) && errors.contains("can be reached from other machines"), "{errors}");
}

/// How often it is killed, `TERRACE_KILLS` says.
#[test]
fn items_that_were_acknowledged_survive_a_kill() {
    let place = Place::new();
    let kills: u64 = std::env::var("TERRACE_KILLS").map_or(4, |text| text.parse().unwrap());
    const CLIENT_COUNT: usize = 4;
    // The last acknowledged number of each client.
    let acknowledged: Vec<AtomicU64> = (0..CLIENT_COUNT).map(|_| AtomicU64::new(0)).collect();
    for round in 1..=kills {
        let mut child = serve(&place);
        thread::scope(|scope| {
            for (number, last) in acknowledged.iter().enumerate() {
                let mut client = connect(&place);
                scope.spawn(move || {
                    loop {
                        let next = last.load(Ordering::Relaxed) + 1;
                        match client.set(&format!("client:{number}:{next}"), next).as_deref() {
                            Some("STORED") => last.store(next, Ordering::Relaxed),
                            _ => return,
                        }
                    }
                });
            }
            terrace_testkit::wait_until("all clients write", || {
                acknowledged.iter().all(|last| last.load(Ordering::Relaxed) >= 20 * round)
            });
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let mut child = serve(&place);
        let mut client = connect(&place);
        for (number, last) in acknowledged.iter().enumerate() {
            for one in 1..=last.load(Ordering::Relaxed) {
                assert_eq!(client.get(&format!("client:{number}:{one}")), Some(one), "round {round}");
            }
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
