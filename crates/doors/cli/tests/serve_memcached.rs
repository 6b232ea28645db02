//! `terrace serve memcached` as its users start and end it, and as a kill ends it.

#![allow(clippy::unwrap_used)]

#[path = "served/lines.rs"]
mod lines;
mod served;

use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lines::Lines;
use rustix::process::{Pid, Signal, kill_process};
use served::Place;

fn serve(place: &Place) -> Child {
    lines::serve(place, "memcached", "memcached")
}

fn connect(place: &Place) -> Client {
    Client(Lines::connect(place))
}

/// A client that sends lines.
struct Client(Lines);

impl Client {
    /// Sends a line, or a line and a block. None if the server has gone.
    fn ask(&mut self, request: &str) -> Option<String> {
        self.0.ask(&format!("{request}\r\n"))
    }

    fn set(&mut self, key: &str, value: u64) -> Option<String> {
        let value = value.to_string();
        self.ask(&format!("set {key} 0 0 {}\r\n{value}", value.len()))
    }

    fn get(&mut self, key: &str) -> Option<u64> {
        match self.ask(&format!("get {key}")).unwrap().as_str() {
            "END" => None,
            _ => {
                let value = self.0.line().unwrap().parse().unwrap();
                assert_eq!(self.0.line().unwrap(), "END");
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
