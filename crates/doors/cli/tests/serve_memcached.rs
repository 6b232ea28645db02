//! `terrace serve memcached` as its users start and end it, and as a kill ends it.

#![allow(clippy::unwrap_used)]

#[path = "served/lines.rs"]
mod lines;
mod served;

use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lines::{ACK_LEVELS, Lines, kills_of_a_level, lose_a_disk, place_that_acknowledges, value_of};
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

    fn set(&mut self, key: &str, value: &str) -> Option<String> {
        self.ask(&format!("set {key} 0 0 {}\r\n{value}", value.len()))
    }

    fn get(&mut self, key: &str) -> Option<String> {
        match self.ask(&format!("get {key}")).unwrap().as_str() {
            "END" => None,
            _ => {
                let value = self.0.line().unwrap();
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
    assert_eq!(client.set("a/b", "1").unwrap(), "STORED");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(client.ask("get a/b"), None);
    assert_eq!(place.run(&["cat", "redis/0/a/b\u{1}"]).stdout, b"1");
    let open = place.run(&["serve", "memcached", "--listen", "0.0.0.0:0"]);
    let errors = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(open.status.code() == Some(1) && errors.contains("can be reached from other machines"), "{errors}");
}

#[test]
fn items_that_were_acknowledged_survive_a_kill() {
    ACK_LEVELS.iter().for_each(|level| kill_while_clients_write(level));
}

fn kill_while_clients_write(level: &str) {
    let place = place_that_acknowledges(level);
    let kills = kills_of_a_level();
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
                        match client.set(&format!("client:{number}:{next}"), &value_of(number, next)).as_deref() {
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
        let loses_a_disk = round == kills && level == "replicated";
        if loses_a_disk {
            lose_a_disk(&place);
        }
        let mut child = serve(&place);
        let mut client = connect(&place);
        for (number, last) in acknowledged.iter().enumerate() {
            for one in 1..=last.load(Ordering::Relaxed) {
                let value = client.get(&format!("client:{number}:{one}"));
                assert_eq!(value, Some(value_of(number, one)), "{level}, round {round}");
            }
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        // What should be on a lost disk cannot be synced at the end, and the server says so.
        let code = child.wait().unwrap().code();
        assert!(code == Some(0) || loses_a_disk && code == Some(1), "{code:?}");
    }
}
