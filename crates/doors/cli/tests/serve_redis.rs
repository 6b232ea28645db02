//! `terrace serve redis` as its users start and end it, and as a kill ends it.

#![allow(clippy::unwrap_used)]

#[path = "served/lines.rs"]
mod lines;
mod served;

use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lines::{Lines, socket};
use rustix::process::{Pid, Signal, kill_process};
use served::Place;

fn serve(place: &Place) -> Child {
    lines::serve(place, "redis", "Redis")
}

fn connect(place: &Place) -> Client {
    Client(Lines::connect(place))
}

/// A client that sends lines.
struct Client(Lines);

impl Client {
    /// Sends a command, and returns its reply: a line, or the bytes behind a length. None if the server has gone.
    fn ask(&mut self, line: &str) -> Option<String> {
        let reply = self.0.ask(&format!("{line}\n"))?;
        match reply.strip_prefix('$') {
            Some("-1") => Some("nil".to_owned()),
            Some(_) => self.0.line(),
            None => Some(reply),
        }
    }
}

#[test]
fn signals_end_it_and_it_says_where_it_cannot_listen() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT] {
        let mut child = serve(&place);
        let mut client = connect(&place);
        assert_eq!(client.ask("set a/b 1").unwrap(), "+OK");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(client.ask("get a/b"), None);
        assert_eq!(place.run(&["cat", "redis/0/a/b\u{1}"]).stdout, b"1");
        assert!(!socket(&place).exists());
    }
    let open = place.run(&["serve", "redis", "--listen", "0.0.0.0:0"]);
    let errors = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(open.status.code() == Some(1) && errors.contains("--password-file"), "{errors}");
    let missing = place.run(&["serve", "redis", "--password-file", "nowhere"]);
    let errors = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(missing.status.code() == Some(1) && errors.contains("the file of the password"), "{errors}");
}

/// How often it is killed, `TERRACE_KILLS` says.
#[test]
fn what_was_acknowledged_survives_a_kill() {
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
                        // The key with the number and the count change together, or not at all.
                        let replies = [
                            "multi".to_owned(),
                            format!("set client:{number}:{next} {next}"),
                            format!("set last:{number} {next}"),
                            "exec".to_owned(),
                        ]
                        .map(|line| client.ask(&line));
                        let is_done = replies[3].as_deref() == Some("*2");
                        if !is_done || client.0.line().is_none() || client.0.line().is_none() {
                            return;
                        }
                        last.store(next, Ordering::Relaxed);
                    }
                });
            }
            let enough = 20 * round;
            terrace_testkit::wait_until("all clients write", || {
                acknowledged.iter().all(|last| last.load(Ordering::Relaxed) >= enough)
            });
            child.kill().unwrap();
            child.wait().unwrap();
        });
        let mut child = serve(&place);
        let mut client = connect(&place);
        for (number, last) in acknowledged.iter().enumerate() {
            let last = last.load(Ordering::Relaxed);
            let found: u64 = client.ask(&format!("get last:{number}")).unwrap().parse().unwrap();
            // The last transaction may have come without its reply.
            assert!(found == last || found == last + 1, "round {round}: {found}, but {last} was acknowledged");
            for one in 1..=found {
                assert_eq!(
                    client.ask(&format!("get client:{number}:{one}")).unwrap(),
                    one.to_string(),
                    "round {round}"
                );
            }
            assert_eq!(client.ask(&format!("get client:{number}:{}", found + 1)).unwrap(), "nil");
        }
        acknowledged.iter().enumerate().for_each(|(number, last)| {
            let found = client.ask(&format!("get last:{number}")).unwrap();
            last.store(found.parse().unwrap(), Ordering::Relaxed);
        });
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}
