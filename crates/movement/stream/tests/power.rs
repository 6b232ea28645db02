//! Power cuts while streams run, on the simulated disk of the engine's test: durably accepted requests arrive, and
//! after all requests are sent again, each is there once. `TERRACE_POWER` sets the number of runs in percent of a
//! soak's.

#![allow(clippy::unwrap_used, unsafe_code)]

mod common;
#[path = "../../../engine/terrace/tests/power/disk.rs"]
mod disk;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use common::{Random, number, settings};
use terrace::{Ack, Store};
use terrace_stream::destinations::Files;
use terrace_stream::sources::Watch;
use terrace_stream::{Control, Framed, Origin, Request, Stream};

const DESTINATION_COUNT: u64 = 3;
/// The size of a request with an offset.
const SLOT_BYTES: u64 = 700;
/// The number of runs of a soak.
const SOAK_RUNS: u64 = 100;

/// Makes the request with this number: some append, others have offsets.
fn framed(sequence: u64) -> Framed {
    let mut random = Random::new(sequence);
    let name = format!("d/f{}", random.below(DESTINATION_COUNT));
    let request = match random.below(2) {
        0 => Request::append(name, format!("[{sequence}:{}]", "x".repeat(random.below(2000) as usize))),
        _ => Request::at(format!("{name}-at"), sequence * SLOT_BYTES, vec![sequence as u8 | 1; SLOT_BYTES as usize]),
    };
    Framed { request, origin: Some(Origin { producer: b"p".as_slice().into(), sequence }) }
}

/// Makes the content of the file that is dropped into the watched directory under a number.
fn dropped(number: u64) -> Vec<u8> {
    let mut random = Random::new(number + 1000);
    // Some have several parts.
    let length = if random.below(6) == 0 { 2_500_000 } else { random.below(100_000) };
    vec![number as u8 | 1; length as usize]
}

/// Checks that no file of the watched directory has its name at the destination before it is complete.
fn check_names(root: &Path, count: u64, at: &str) {
    for number in 0..count {
        if let Ok(file) = fs::read(root.join(format!("archive/n{number}"))) {
            assert!(file == dropped(number), "{} bytes of file {number} have its name: {at}", file.len());
        }
    }
}

fn run(store: &Store, root: &Path) {
    let stream = Stream::open(store, "s", Ack::Placed).unwrap();
    let control = Arc::new(Control::default());
    control.drain();
    let to = Arc::new(Files::new(&root.join("archive")).unwrap());
    let running = stream.run(to, &control).unwrap().with_log();
    running.with_directory(&root.join("drop"), &Watch::default()).unwrap().go(&settings()).unwrap();
    let parked: Vec<_> = stream.ledger().all().unwrap().into_iter().filter_map(|(_, mark)| mark.parked).collect();
    assert!(parked.is_empty(), "{parked:?}");
}

/// Returns the sequences of the requests at their destinations, with the number of copies.
fn arrived(root: &Path, until: u64) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    for name in (0..DESTINATION_COUNT).map(|n| format!("d/f{n}")) {
        let text = fs::read_to_string(root.join("archive").join(&name)).unwrap_or_default();
        for part in text.split_inclusive(']') {
            let sequence: u64 = part.trim_start_matches('[').split(':').next().unwrap().parse().unwrap();
            assert_eq!(part.as_bytes(), &*framed(sequence).request.bytes, "{name}: {part:.20}");
            *found.entry(sequence).or_default() += 1;
        }
    }
    for sequence in 1..=until {
        let request = framed(sequence).request;
        let path = root.join("archive").join(std::str::from_utf8(&request.destination).unwrap());
        if let terrace_stream::Place::At(at) = request.place
            && fs::read(path)
                .is_ok_and(|file| file.get(at as usize..).is_some_and(|rest| rest.starts_with(&request.bytes)))
        {
            found.insert(sequence, 1);
        }
    }
    found
}

/// Streams some requests and files, loses the power at some moments, and looks at what comes of it each time.
/// The machine is started, and knows it.
fn boot(number: &mut u64) {
    *number += 1;
    // SAFETY: no store is open, so no other thread of this process reads the environment.
    unsafe { std::env::set_var("TERRACE_BOOT_ID", format!("boot {number}")) };
}

fn try_out(root: &Path, boots: &mut u64, random: &mut Random) -> u64 {
    boot(boots);
    let _ = fs::remove_dir_all(root);
    fs::create_dir_all(root.join("drop")).unwrap();
    let store = common::store(root);
    let until = 20 + random.below(60);
    let moments = (0..5).map(|_| 1 + random.below(150)).collect::<BTreeSet<u64>>();
    disk::watch(root, moments);
    let (mut next, mut files) = (1, 0);
    while next <= until {
        let durable = random.below(2) == 0;
        disk::progress(|progress| progress.begun = next as usize);
        let stream = Stream::open(&store, "s", if durable { Ack::Durable } else { Ack::Placed }).unwrap();
        let end = (next + 1 + random.below(12)).min(until + 1);
        stream.append_framed((next..end).map(framed).collect()).unwrap();
        next = end;
        if durable {
            disk::progress(|progress| progress.synced = next as usize);
        }
        if random.below(3) == 0 {
            let path = root.join(format!("drop/n{files}"));
            fs::write(&path, dropped(files)).unwrap();
            File::open(&path).unwrap().sync_all().unwrap();
            File::open(root.join("drop")).unwrap().sync_all().unwrap();
            files += 1;
            disk::progress(|progress| progress.returned = files as usize);
        }
        if random.below(3) == 0 {
            run(&store, root);
        }
    }
    run(&store, root);
    let losses = disk::end();
    drop(store);
    for loss in &losses {
        let at = format!("call {}, request {}", loss.call, loss.progress.begun);
        fs::remove_dir_all(root).unwrap();
        loss.restore(root, &mut |n| random.below(n));
        let _ = fs::remove_dir_all(root.join("ram"));
        boot(boots);
        fs::create_dir_all(root.join("drop")).unwrap();
        // The last file may be on its way into the directory.
        check_names(root, loss.progress.returned as u64 + 1, &at);
        let store = Store::open(&root.join("store")).unwrap();
        run(&store, root);
        let found = arrived(root, until);
        let lost: Vec<u64> = (1..loss.progress.synced as u64).filter(|n| !found.contains_key(n)).collect();
        assert!(lost.is_empty(), "{lost:?} were durable and did not arrive: {at}");
        let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
        let mut again: Vec<u64> = (1..=until).chain(1..=until).collect();
        random.shuffle(&mut again);
        stream.append_framed(again.into_iter().map(framed).collect()).unwrap();
        run(&store, root);
        let found = arrived(root, until);
        let wrong: Vec<_> = (1..=until).filter(|n| found.get(n) != Some(&1)).map(|n| (n, found.get(&n))).collect();
        assert!(wrong.is_empty(), "{wrong:?} are not there once: {at}");
        for number in 0..loss.progress.returned as u64 {
            let file = fs::read(root.join(format!("archive/n{number}")));
            assert!(file.is_ok_and(|file| file == dropped(number)), "file {number} is lost: {at}");
        }
        let archive = common::tree(&root.join("archive"));
        let part = archive.keys().find(|name| name.ends_with(".terrace-part"));
        assert!(part.is_none(), "{part:?} is left: {at}");
    }
    losses.len() as u64
}

#[test]
fn durably_accepted_requests_arrive_once_after_any_power_cut() {
    // SAFETY: no other thread runs yet that could read the environment.
    unsafe { std::env::set_var("TERRACE_LOG_FILE", "4096") };
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }).unwrap();
    let mut random = Random::new(number("TERRACE_SEED", 1));
    let runs = (SOAK_RUNS * number("TERRACE_POWER", 10)).div_ceil(100);
    let mut boots = 0;
    let losses: u64 = (0..runs).map(|_| try_out(&folder.path().join("disk"), &mut boots, &mut random)).sum();
    println!("{losses} losses of power in {runs} runs: what was durable arrived, and all of it once");
}
