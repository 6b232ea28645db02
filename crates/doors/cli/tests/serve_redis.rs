//! `terrace serve redis` as its users start and end it, and as a kill ends it.

#![allow(clippy::unwrap_used)]

#[path = "served/lines.rs"]
mod lines;
mod served;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lines::{ACK_LEVELS, Lines, kills_of_a_level, lose_a_disk, place_that_acknowledges, socket, value_of};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use served::Place;
use terrace_testkit::{Missing, skip};

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

/// As many clients as a server takes unless it is told otherwise.
#[test]
fn ten_thousand_clients_are_served() {
    const CLIENT_COUNT: usize = 10_000;
    const MAX_CLIENT_BYTES: usize = 16 << 10;
    let limit = getrlimit(Resource::Nofile);
    // The server needs some more than its clients.
    let needed = CLIENT_COUNT as u64 + 2048;
    if limit.maximum.is_some_and(|most| most < needed) {
        let reason = format!("a process may open fewer than {needed} files");
        skip("ten thousand clients", &Missing::new("descriptors", reason));
        return;
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit }).unwrap();
    let place = Place::new();
    let mut child = serve(&place);
    let before = resident_bytes(&child);
    let mut clients: Vec<UnixStream> =
        (0..CLIENT_COUNT).map(|_| UnixStream::connect(socket(&place)).unwrap()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.write_all(format!("SET key{number} {number}\r\n").as_bytes()).unwrap();
    }
    let mut reply = [0; 5];
    for client in &mut clients {
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+OK\r\n");
    }
    let mut refused = String::new();
    UnixStream::connect(socket(&place)).unwrap().read_to_string(&mut refused).unwrap();
    assert_eq!(refused, "-ERR max number of clients reached\r\n");
    let grown = resident_bytes(&child).saturating_sub(before);
    println!("{CLIENT_COUNT} clients: {} bytes for each", grown / CLIENT_COUNT);
    assert!(grown < CLIENT_COUNT * MAX_CLIENT_BYTES, "{CLIENT_COUNT} clients take {grown} bytes");
    drop(clients);
    terrace_testkit::wait_until("there is room again", || {
        let mut client = connect(&place);
        client.ask("get key9999").as_deref() == Some("9999")
    });
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// The memory that a process has.
fn resident_bytes(child: &Child) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
    resident.unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
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
                        // The key with the number and the count change together, or not at all.
                        let replies = [
                            "multi".to_owned(),
                            format!("set client:{number}:{next} {}", value_of(number, next)),
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
        let loses_a_disk = round == kills && level == "replicated";
        if loses_a_disk {
            lose_a_disk(&place);
        }
        let mut child = serve(&place);
        let mut client = connect(&place);
        for (number, last) in acknowledged.iter().enumerate() {
            let answered = last.load(Ordering::Relaxed);
            let found: u64 = client.ask(&format!("get last:{number}")).unwrap().parse().unwrap();
            // The last transaction may have come without its reply.
            assert!(
                found == answered || found == answered + 1,
                "{level}, round {round}: {found}, but {answered} was acknowledged"
            );
            // The disk that is lost may have had the only replica of a transaction without a reply.
            let whole = if loses_a_disk { answered } else { found };
            for one in 1..=whole {
                let value = client.ask(&format!("get client:{number}:{one}")).unwrap();
                assert_eq!(value, value_of(number, one), "{level}, round {round}");
            }
            assert_eq!(client.ask(&format!("get client:{number}:{}", found + 1)).unwrap(), "nil");
            last.store(found, Ordering::Relaxed);
        }
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        // What should be on a lost disk cannot be synced at the end, and the server says so.
        let code = child.wait().unwrap().code();
        assert!(code == Some(0) || loses_a_disk && code == Some(1), "{code:?}");
    }
}
