//! Full destinations, and a full tier of the log.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Random, settings};
use terrace::{Ack, Config, Store};
use terrace_stream::destinations::Files;
use terrace_stream::{Control, Request, Settings, Stream};
use terrace_testkit::SmallDisk;

/// The size of a request.
const REQUEST_BYTES: usize = 64 << 10;

/// Makes bytes that no encoding shrinks. Otherwise a full tier could take more bytes than its size.
fn part(number: usize) -> Vec<u8> {
    let mut random = Random::new(number as u64);
    (0..REQUEST_BYTES).map(|_| random.below(256) as u8).collect()
}

fn request(name: &str, number: usize) -> Request {
    Request::append(name, part(number))
}

fn expected(requests: usize) -> Vec<u8> {
    (0..requests).flat_map(part).collect()
}

#[test]
fn a_full_destination_is_retried_then_parked_and_continues_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("archive/small");
    let Some(_disk) = SmallDisk::mount("a full destination", &small, "size=1m") else { return };
    let store = common::store(dir.path());
    fs::write(small.join("in-the-way"), vec![1; 600_000]).unwrap();
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    for number in 0..12 {
        stream.append(vec![request("small/a", number), request("large/b", number)]).unwrap();
    }
    let run = |patience| {
        let control = Arc::new(Control::default());
        control.drain();
        let to = Arc::new(Files::new(&dir.path().join("archive")).unwrap());
        let settings = Settings { patience, ..settings() };
        std::thread::scope(|scope| {
            let running = scope.spawn(|| stream.run(to, &control).unwrap().with_log().go(&settings).unwrap());
            // Requests that fit arrive, and others do not affect them.
            while fs::read(dir.path().join("archive/large/b")).map_or(0, |file| file.len()) < 12 * REQUEST_BYTES {
                assert!(
                    !running.is_finished() || control.figures.failed.load(std::sync::atomic::Ordering::Relaxed) > 0
                );
                std::thread::sleep(Duration::from_millis(2));
            }
            if patience > Duration::from_secs(1) {
                while control.figures.failed.load(std::sync::atomic::Ordering::Relaxed) == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                fs::remove_file(small.join("in-the-way")).unwrap();
            }
            running.join().unwrap();
        });
        stream.ledger().all().unwrap().into_iter().filter_map(|(_, mark)| mark.parked).collect::<Vec<_>>()
    };
    let parked = run(Duration::from_millis(100));
    assert!(parked.len() == 1 && parked[0].contains("No space left on device"), "{parked:?}");
    assert_eq!(run(Duration::from_secs(60)), Vec::<String>::new());
    assert!(fs::read(small.join("a")).unwrap() == expected(12));
    assert!(fs::read(dir.path().join("archive/large/b")).unwrap() == expected(12));
    assert_eq!(stream.backlog().unwrap().requests, 0);
}

#[test]
fn producers_wait_while_the_tier_of_the_log_is_full() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'nvme'\nkind = 'directory'\ntargets = ['{}']\ncapacity = '4MiB'\n",
        dir.path().join("nvme").display()
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    let control = Arc::new(Control::default());
    let to = Arc::new(Files::new(&dir.path().join("archive")).unwrap());
    let longest = std::thread::scope(|scope| {
        let running = scope.spawn(|| stream.run(to, &control).unwrap().with_log().go(&settings()).unwrap());
        let append = |number| {
            let begun = Instant::now();
            stream.append(vec![request("a", number)]).unwrap();
            begun.elapsed()
        };
        // This is five times the capacity of the tier.
        let longest = (0..320).map(append).max().unwrap();
        control.drain();
        running.join().unwrap();
        longest
    });
    assert!(fs::read(dir.path().join("archive/a")).unwrap() == expected(320));
    println!("20 MiB through a tier of 4 MiB; the longest wait was {} ms", longest.as_millis());
}

#[test]
fn a_producer_gets_an_error_if_the_log_stays_full_and_accepted_requests_arrive() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'nvme'\nkind = 'directory'\ntargets = ['{}']\ncapacity = '2MiB'\n",
        dir.path().join("nvme").display()
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    let accepted = (0..100).take_while(|number| match stream.append(vec![request("a", *number)]) {
        Ok(()) => true,
        Err(terrace_stream::Error::Engine(terrace::Error::NoSpace { .. })) => false,
        Err(e) => unreachable!("{e}"),
    });
    let accepted = accepted.count();
    assert!((8..40).contains(&accepted), "{accepted}");
    let control = Arc::new(Control::default());
    control.drain();
    let to = Arc::new(Files::new(&dir.path().join("archive")).unwrap());
    stream.run(to, &control).unwrap().with_log().go(&settings()).unwrap();
    assert!(fs::read(dir.path().join("archive/a")).unwrap() == expected(accepted));
    stream.append(vec![request("a", accepted)]).unwrap();
}
