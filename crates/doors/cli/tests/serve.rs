//! `terrace serve 9p` as its users start and end it.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../../nine/tests/common/client.rs"]
#[allow(dead_code)] // It can do more than is asked of it here.
mod client;
mod served;

use std::process::Child;

use client::{Client, OPEN_READ_WRITE, OPEN_WRITE};
use rustix::process::{Pid, Signal, kill_process};
use served::Place;
use terrace_testkit::Random;

/// Serves on any port; its address.
fn serve(place: &Place) -> (Child, String) {
    let (child, line) = place.start(&["9p", "--listen", "127.0.0.1:0"]);
    assert!(line.contains("is served by 9P2000 on 127.0.0.1:"), "{line:?}");
    (child, line.trim().rsplit(' ').next().unwrap().to_owned())
}

#[test]
fn signals_end_it_and_nothing_is_lost() {
    let place = Place::new();
    for (round, signal) in [(0, Signal::TERM), (1, Signal::INT)] {
        let (mut child, address) = serve(&place);
        let mut client = Client::tcp(&address).unwrap();
        let name = format!("file {round}");
        // It stays open, so that nothing but the end can have written it.
        let fid = client.create("", &name, 0o644, OPEN_READ_WRITE).unwrap();
        client.write(fid, 0, b"kept back").unwrap();
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(client.read(fid, 0, 1).is_err());
        assert_eq!(place.run(&["cat", &name]).stdout, b"kept back");
    }
}

/// How often it is killed, `TERRACE_KILLS` says.
#[test]
fn what_was_synced_survives_a_kill() {
    let place = Place::new();
    let kills: u64 = std::env::var("TERRACE_KILLS").map_or(8, |text| text.parse().unwrap());
    let mut random = Random::new(7);
    let mut next = move |below: u64| random.below(below);
    const OBJECT_BYTES: usize = 3 << 20;
    // What must be there, and what may be: bytes written since may have come, or not.
    let mut synced = vec![0u8; OBJECT_BYTES];
    let mut synced_writes = 0;
    for round in 0..kills {
        let (mut child, address) = serve(&place);
        let mut client = Client::tcp(&address).unwrap();
        let fid = match round {
            0 => client.create("", "file", 0o644, OPEN_WRITE).unwrap(),
            _ => client.open("file", OPEN_READ_WRITE).unwrap(),
        };
        if round == 0 {
            client.wstat(fid, None, Some(OBJECT_BYTES as u64), "").unwrap();
            client.sync(fid).unwrap();
        }
        let mut since = Vec::new();
        for step in 0..5 + next(40) {
            let length = [7, 4096, 100_000, 1 << 20][next(4) as usize];
            let at = next((OBJECT_BYTES - length) as u64);
            let fill = (1 + next(255)) as u8;
            assert_eq!(client.write(fid, at, &vec![fill; length]).unwrap() as usize, length);
            since.push((at as usize, length, fill));
            if step % 3 == 2 {
                client.sync(fid).unwrap();
                synced_writes += since.len();
                for (at, length, fill) in since.drain(..) {
                    synced[at..at + length].fill(fill);
                }
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = place.run(&["cat", "file"]).stdout;
        assert_eq!(found.len(), OBJECT_BYTES);
        for (at, byte) in found.iter().enumerate() {
            let may_be =
                || since.iter().any(|(from, length, fill)| (*from..from + length).contains(&at) && fill == byte);
            assert!(*byte == synced[at] || may_be(), "round {round}: byte {at} is {byte}, not {}", synced[at]);
        }
        synced = found;
    }
    println!("{kills} kills, {synced_writes} writes synced before: all there");
}

#[test]
fn it_listens_where_it_is_told_and_says_where_it_cannot() {
    let place = Place::new();
    let open = place.run(&["serve", "9p", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(errors.contains("no authentication") && errors.contains("--trust-network"), "{errors}");
    let help = String::from_utf8_lossy(&place.run(&["serve", "9p", "--help"]).stdout).into_owned();
    assert!(help.contains("no authentication"), "{help}");
    let both = place.run(&["serve", "9p", "--listen", "127.0.0.1:0", "--unix", "x"]);
    assert_eq!(both.status.code(), Some(2));
    let socket = place.0.path().join("socket");
    let (mut child, _) = place.start(&["9p", "--unix", socket.to_str().unwrap()]);
    let mut client = Client::unix(&socket).unwrap();
    let fid = client.create("", "a", 0o644, OPEN_WRITE).unwrap();
    client.write(fid, 0, b"1").unwrap();
    client.clunk(fid).unwrap();
    assert_eq!(place.run(&["cat", "a"]).stdout, b"1");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!socket.exists());
}
