//! The node ends by a signal or is killed, while others write and ask.

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::client;
use crate::daemon::Daemon;
use crate::place::{Place, noise};

/// How often it is killed, `TERRACE_KILLS` says.
#[test]
fn kills_of_the_node_lose_nothing_that_a_writer_was_told_is_there() {
    let place = Place::new();
    let kills: u64 = std::env::var("TERRACE_KILLS").map_or(8, |text| text.parse().unwrap());
    let is_over = AtomicBool::new(false);
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let n = written.load(Ordering::Relaxed);
                let name = format!("files/{n}");
                place.write(&name, noise(1000 + (n as usize * 77_777) % 3_000_000, n));
                let level = ["placed", "replicated", "durable"][n as usize % 3];
                place.good(["put", name.as_str(), name.as_str(), "--ack", level]);
                // Every fifth is removed again, so that space is given back meanwhile.
                if n % 5 == 4 {
                    place.good(["rm", name.as_str()]);
                    fs::remove_file(place.path(&name)).unwrap();
                }
                written.fetch_add(1, Ordering::Relaxed);
            }
        });
        for kill in 0..kills {
            let node = Daemon::start_with(&place, &["--scrub-every", "1s"], &[("TERRACE_NODE_TIDY_SECONDS", "1")]);
            let before = written.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(kill * 97 % 700));
            if kill % 4 == 3 {
                // Some kills come only after the writer has gone on.
                while written.load(Ordering::Relaxed) == before {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            node.kill();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    place.good(["health", "--wait", "safe"]);
    place.good(["check", "files", "files"]);
    let (scrubbed, code) = place.json(["scrub"]);
    assert_eq!((&scrubbed["bad"], &scrubbed["lost"], code), (&0.into(), &0.into(), 0), "{scrubbed}");
    let kept = fs::read_dir(place.path("files")).unwrap().count();
    println!("{kills} kills, {} objects written meanwhile, {kept} kept: all there", written.into_inner());
}

#[test]
fn a_signal_ends_it_after_the_requests_that_it_has_got() {
    let place = Place::new();
    place.write("a", noise(8 << 20, 1));
    place.good(["put", "a", "a"]);
    let mut node = Daemon::start(&place, &["--scrub-every", "1s"]);
    let address = node.address;
    let is_over = AtomicBool::new(false);
    let answered = AtomicU64::new(0);
    thread::scope(|scope| {
        for client in 0..4 {
            let (is_over, answered) = (&is_over, &answered);
            let path = ["/metrics", "/", "/healthz", "/none"][client];
            scope.spawn(move || {
                loop {
                    // Once the signal was sent, the node may refuse a connection, but cuts no answer: `get` panics then.
                    let was_over = is_over.load(Ordering::Acquire);
                    match client::get(address, path) {
                        Ok(answer) => {
                            assert!([200, 404].contains(&answer.code), "{answer:?}");
                            answered.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert!(was_over || is_over.load(Ordering::Acquire), "{path}: {error}");
                            return;
                        }
                    }
                }
            });
        }
        while answered.load(Ordering::Relaxed) < 20 {
            thread::sleep(Duration::from_millis(5));
        }
        // These have sent their requests before the signal, and read the answers after it.
        let mut waiting: Vec<_> = (0..16).map(|_| client::connect(address).unwrap()).collect();
        for stream in &mut waiting {
            stream.write_all(format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).unwrap();
        }
        is_over.store(true, Ordering::Release);
        node.signal(Signal::TERM);
        for stream in &mut waiting {
            assert_eq!(client::read(stream).unwrap().code, 200);
        }
        assert_eq!(node.wait(), Some(0));
    });
    assert!(client::connect(address).is_err());
    place.good(["check", "a", "a"]);
    assert_eq!(place.json(["health"]).0["node"], false);
}

#[test]
fn it_ends_by_each_signal_and_when_the_store_is_gone() {
    let place = Place::new();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut node = Daemon::start(&place, &[]);
        node.signal(signal);
        assert_eq!(node.wait(), Some(0), "{signal:?}");
    }
    // A store that cannot be opened again ends it with an error.
    let mut node = Daemon::start_with(&place, &[], &[("TERRACE_NODE_TIDY_SECONDS", "1")]);
    fs::remove_file(place.path("store/store")).unwrap();
    assert_eq!(node.wait(), Some(1));
}
