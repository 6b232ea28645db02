//! Many processes on one store: writers of different ranges, writers of one key, forks.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::files::{File, Owner};
use terrace::{Ack, Config, Error, Files, PutOptions, Store};

const RANGE_COUNT: u64 = 300;
/// Bytes of a value: more than one extent, and no multiple of a sub-block.
const VALUE_BYTES: usize = 1_200_007;

fn new_store(dir: &Path) -> Store {
    let d = dir.display();
    let text = format!(
        "[store]\nreplicas = {{ max = 3, default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{d}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{d}/a']\n\
         [[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{d}/bucket']\n"
    );
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

/// Nanoseconds of the clock that all processes share.
fn now() -> u128 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u128 * 1_000_000_000 + time.tv_nsec as u128
}

/// Runs `child` of this file in a process of its own.
fn spawn(dir: &Path, role: &str, who: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).stdout(Stdio::null());
    command.env("TEST_ROLE", role).env("TEST_DIR", dir).env("TEST_WHO", who.to_string()).spawn().unwrap()
}

fn all_end_well(dir: &Path, children: Vec<Child>) {
    std::thread::sleep(Duration::from_millis(300));
    fs::write(dir.join("go"), "").unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn child() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let dir = std::env::var("TEST_DIR").unwrap();
    let who: u64 = std::env::var("TEST_WHO").unwrap().parse().unwrap();
    let dir = Path::new(&dir);
    let store = Store::open(&dir.join("store")).unwrap();
    // All begin at once.
    while !dir.join("go").exists() {
        std::thread::yield_now();
    }
    match role.as_str() {
        "ranges" => write_ranges(&store, who),
        "values" => put_values(&store, dir, who),
        "file writes" => write_files(&store, dir, who),
        "file reads" => read_files(&store, dir, who),
        _ => read_values(&store, dir, who),
    }
}

/// Every eighth range is `who`'s; ranges differ in length and meet within sub-blocks.
fn ranges(who: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let length = |range: u64| 500 + range * 977 % 30_000;
    (0..8 * RANGE_COUNT)
        .scan(0, move |at, range| {
            let start = *at;
            *at += length(range);
            Some((range, start, length(range)))
        })
        .filter(move |(range, ..)| range % 8 == who)
        .map(|(range, start, length)| (start, vec![(range % 251) as u8 + 1; length as usize]))
}

fn write_ranges(store: &Store, who: u64) {
    for (start, bytes) in ranges(who) {
        store.write_at(b"shared", start, &bytes, &PutOptions::default()).unwrap();
    }
}

#[test]
fn eight_processes_write_ranges_of_one_object_and_no_byte_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    all_end_well(dir.path(), (0..8).map(|who| spawn(dir.path(), "ranges", who)).collect());
    let found = store.get(b"shared").unwrap();
    let mut whole = vec![0; found.len()];
    for (start, bytes) in (0..8).flat_map(ranges) {
        whole[start as usize..start as usize + bytes.len()].copy_from_slice(&bytes);
    }
    assert!(
        found == whole,
        "of {} bytes {} differ",
        whole.len(),
        found.iter().zip(&whole).filter(|(a, b)| a != b).count()
    );
    store.sync().unwrap();
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

/// How long the processes of the history put and get.
fn history_time() -> Duration {
    Duration::from_millis(std::env::var("TERRACE_HISTORY_MS").map_or(1500, |ms| ms.parse().unwrap()))
}

/// One operation of the history: the value that it wrote or read, and when it began and ended.
struct Event {
    wrote: bool,
    value: u64,
    begin: u128,
    end: u128,
}

fn record(dir: &Path, who: u64, mut operation: impl FnMut(u64, u64) -> Option<(bool, u64)>) {
    let mut journal = fs::File::create(dir.join(format!("journal-{who}"))).unwrap();
    let start = Instant::now();
    let mut round = 0;
    while start.elapsed() < history_time() {
        round += 1;
        let key = (round * 7 + who) % 3;
        let begin = now();
        if let Some((wrote, value)) = operation(key, round) {
            writeln!(journal, "{key} {wrote} {value} {begin} {}", now()).unwrap();
        }
    }
}

fn put_values(store: &Store, dir: &Path, who: u64) {
    record(dir, who, |key, round| {
        let value = who << 32 | round;
        let length = if round % 3 == 0 { VALUE_BYTES } else { 8 * (1 + round as usize % 500) };
        let bytes: Vec<u8> = value.to_le_bytes().into_iter().cycle().take(length).collect();
        store.put_bytes(format!("k{key}").as_bytes(), &bytes, &PutOptions::default()).unwrap();
        Some((true, value))
    });
}

fn read_values(store: &Store, dir: &Path, who: u64) {
    record(dir, who, |key, _| {
        let bytes = match store.get(format!("k{key}").as_bytes()) {
            Ok(bytes) => bytes,
            // Others replace it faster than it can be read: that is said, and no bytes are given out.
            Err(Error::NotFound { .. } | Error::Replaced { .. }) => return None,
            Err(e) => panic_with(&e),
        };
        let value = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        assert!(bytes.iter().zip(value.to_le_bytes().iter().cycle()).all(|(a, b)| a == b), "bytes of two generations");
        Some((false, value))
    });
}

/// The bytes of each file of a history.
const FILE_BYTES: usize = 4096;

fn open_files(store: &Store) -> Vec<File> {
    let files = Files::new(store).unwrap();
    (0..3).map(|key| files.open(format!("k{key}").as_bytes()).unwrap()).collect()
}

fn write_files(store: &Store, dir: &Path, who: u64) {
    let files = open_files(store);
    record(dir, who, |key, round| {
        let value = who << 32 | round;
        let bytes: Vec<u8> = value.to_le_bytes().into_iter().cycle().take(FILE_BYTES).collect();
        files[key as usize].write_at(0, &bytes).unwrap();
        files[key as usize].flush().unwrap();
        Some((true, value))
    });
}

/// Each handle reads the same bytes again and again, so that it holds them between the writes of others.
fn read_files(store: &Store, dir: &Path, who: u64) {
    let files = open_files(store);
    record(dir, who, |key, round| {
        let (file, mut bytes) = (&files[key as usize], [0; FILE_BYTES]);
        let from = round as usize % 400 * 8;
        if !file.read_at(from as u64, &mut bytes[from..]).is_ok_and(|length| length == FILE_BYTES - from) {
            return None;
        }
        let value = u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap());
        let of_value = value.to_le_bytes();
        assert!(bytes[from..].chunks(8).all(|part| part == of_value), "bytes of two writes");
        (value > 0).then_some((false, value))
    });
}

fn panic_with(error: &Error) -> ! {
    // This prints nothing by itself.
    eprintln!("{error}");
    std::panic::resume_unwind(Box::new(error.to_string()))
}

/// Whether some order of all operations, each somewhere between its begin and its end, explains every read: for
/// writes of distinct values that is so if no two values' spans must overlap (Gibbons and Korach, "Testing shared
/// memories", 1997, section 4).
fn is_linearizable(events: &[Event]) -> Result<(), String> {
    let mut spans: BTreeMap<u64, (u128, u128, bool)> = BTreeMap::new();
    for event in events {
        let (first_end, last_begin, written) = spans.entry(event.value).or_insert((u128::MAX, 0, false));
        *first_end = event.end.min(*first_end);
        *last_begin = event.begin.max(*last_begin);
        *written |= event.wrote;
    }
    for read in events.iter().filter(|e| !e.wrote) {
        let write = events.iter().find(|e| e.wrote && e.value == read.value);
        match write {
            None => return Err(format!("{:x} was read and never written", read.value)),
            Some(write) if read.end < write.begin => {
                return Err(format!("{:x} was read before it was written", read.value));
            }
            _ => {}
        }
    }
    // A value whose first operation ended before its last began must hold all the time between.
    let (forward, backward): (Vec<_>, Vec<_>) = spans.iter().partition(|(_, (first, last, _))| first < last);
    let mut held: Vec<(u128, u128, u64)> =
        forward.iter().map(|(value, (first, last, _))| (*first, *last, **value)).collect();
    held.sort_unstable();
    for pair in held.windows(2) {
        if pair[1].0 < pair[0].1 {
            return Err(format!("{:x} and {:x} must both hold at once", pair[0].2, pair[1].2));
        }
    }
    for (value, (first, last, _)) in backward {
        if held.iter().any(|(from, to, _)| from < last && first < to) {
            return Err(format!("{value:x} must lie within another value's time"));
        }
    }
    Ok(())
}

#[test]
fn the_checker_refuses_what_cannot_have_been() {
    let event = |wrote, value, begin, end| Event { wrote, value, begin, end };
    let fine = [event(true, 1, 0, 5), event(true, 2, 3, 9), event(false, 1, 4, 6), event(false, 2, 7, 8)];
    assert_eq!(is_linearizable(&fine), Ok(()));
    let stale = [event(true, 1, 0, 1), event(true, 2, 2, 3), event(false, 1, 4, 5)];
    assert!(is_linearizable(&stale).is_err());
    let back = [
        event(true, 1, 0, 9),
        event(true, 2, 0, 9),
        event(false, 1, 1, 2),
        event(false, 2, 3, 4),
        event(false, 1, 5, 6),
    ];
    assert!(is_linearizable(&back).is_err());
    assert!(is_linearizable(&[event(false, 1, 0, 1)]).is_err());
}

#[test]
fn puts_and_gets_of_many_processes_have_an_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    have_an_order(dir.path(), ["values", "reads"]);
    store.sync().unwrap();
}

#[test]
fn writes_and_small_reads_of_open_files_by_many_processes_have_an_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let files = Files::new(&store).unwrap();
    for key in 0..3 {
        let file = files.create(format!("k{key}").as_bytes(), 0o644, Owner { uid: 0, gid: 0 }, true).unwrap();
        file.write_at(0, &[0; FILE_BYTES]).unwrap();
    }
    have_an_order(dir.path(), ["file writes", "file reads"]);
    store.sync().unwrap();
}

/// Runs three writers and three readers, and checks that some order of their operations explains each read.
fn have_an_order(dir: &Path, [writers, readers]: [&str; 2]) {
    let writers = (0..3).map(|who| spawn(dir, writers, who));
    let readers = (3..6).map(|who| spawn(dir, readers, who));
    all_end_well(dir, writers.chain(readers).collect());
    let mut histories: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for who in 0..6 {
        for line in fs::read_to_string(dir.join(format!("journal-{who}"))).unwrap().lines() {
            let field: Vec<&str> = line.split(' ').collect();
            let time = |at: usize| field[at].parse::<u128>().unwrap();
            let event =
                Event { wrote: field[1] == "true", value: field[2].parse().unwrap(), begin: time(3), end: time(4) };
            histories.entry(field[0].parse().unwrap()).or_default().push(event);
        }
    }
    let operations: usize = histories.values().map(Vec::len).sum();
    let reads: usize = histories.values().flatten().filter(|e| !e.wrote).count();
    println!("{operations} operations, {reads} of them reads, by 6 processes: in order");
    assert!(reads > 10 && operations - reads > 10);
    for (key, events) in &histories {
        assert_eq!(is_linearizable(events), Ok(()), "k{key}");
    }
}

#[test]
fn a_store_opened_twice_is_one() {
    let dir = tempfile::tempdir().unwrap();
    let first = new_store(dir.path());
    let second = Store::open(&dir.path().join(".").join("store")).unwrap();
    first.put_bytes(b"k", b"bytes", &PutOptions::default()).unwrap();
    drop(first);
    assert_eq!(second.get(b"k").unwrap(), b"bytes");
    assert!(matches!(Store::rebuild(&dir.path().join("store")), Err(Error::Store { .. })), "it is open");
    drop(second);
    assert_eq!(Store::rebuild(&dir.path().join("store")).unwrap().get(b"k").unwrap(), b"bytes");
}

/// Ends with what `child` answers in a fork of this process; gives its number.
#[allow(unsafe_code)]
fn fork(child: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child calls only this test's code, and ends without unwinding or running anything at exit.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: a child that waits for ever is ended by the signal, which nothing here handles.
            unsafe { libc::alarm(60) };
            let code = child();
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(code) }
        }
        child => child,
    }
}

/// The exit code of a forked child.
#[allow(unsafe_code)]
fn end_of(child: i32) -> i32 {
    let mut status = 0;
    // SAFETY: `child` is this process's own, and `status` outlives the call.
    unsafe { libc::waitpid(child, &mut status, 0) };
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -libc::WTERMSIG(status) }
}

#[test]
fn a_fork_opens_the_store_again() {
    const FORK_COUNT: usize = 20;
    let dir = tempfile::tempdir().unwrap();
    let (home, other) = (dir.path().join("store"), tempfile::tempdir().unwrap());
    let store = new_store(dir.path());
    drop(new_store(other.path()));
    let noise: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect();
    let everywhere = PutOptions { replicas: Some(3), ack: Some(Ack::Durable), ..PutOptions::default() };
    store.put_bytes(b"before", &noise, &everywhere).unwrap();
    let in_fork = |key: &[u8]| {
        let refused = matches!(store.get(b"before"), Err(Error::Store { reason, .. }) if reason.contains("fork"))
            && store.put_bytes(b"inherited", b"", &PutOptions::default()).is_err();
        let works = || {
            let again = Store::open(&home)?;
            again.put_bytes(key, &noise, &everywhere)?;
            Ok::<bool, Error>(again.get(b"before")? == noise)
        };
        i32::from(!refused) + 2 * i32::from(!works().unwrap_or(false))
    };
    let forking = AtomicBool::new(true);
    std::thread::scope(|scope| {
        // Forks find the store in the midst of work, and another being opened and closed.
        scope.spawn(|| {
            for round in 0.. {
                if !forking.load(Ordering::Relaxed) {
                    break;
                }
                store
                    .put_bytes(format!("parent/{}", round % 50).as_bytes(), &noise[..70_000], &PutOptions::default())
                    .unwrap();
                drop(Store::open(&other.path().join("store")).unwrap());
            }
        });
        for round in 0..FORK_COUNT {
            let key = format!("fork/{round}");
            let ended = end_of(fork(|| in_fork(key.as_bytes())));
            forking.store(ended == 0 && round + 1 < FORK_COUNT, Ordering::Relaxed);
            assert_eq!(
                ended, 0,
                "1: what was inherited worked; 2: what was opened again did not; -14: it waits for ever"
            );
            assert!(store.get(key.as_bytes()).unwrap() == noise);
        }
    });
    store.sync().unwrap();
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

#[test]
fn a_fork_does_not_keep_a_store_open_that_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"k", b"bytes", &PutOptions::default()).unwrap();
    let child = fork(|| {
        while !dir.path().join("go").exists() {
            std::thread::yield_now();
        }
        0
    });
    drop(store);
    let rebuilt = Store::rebuild(&dir.path().join("store"));
    fs::write(dir.path().join("go"), "").unwrap();
    assert_eq!(end_of(child), 0);
    assert_eq!(rebuilt.unwrap().get(b"k").unwrap(), b"bytes");
}

/// A forked child that opened the store took no lock of its own, since its parent's was there. The parent counted as alone, buffered what it
/// appended, and trusted what it had cached.
#[test]
fn a_fork_that_opens_the_store_is_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let (is_open, go) = (dir.path().join("is-open"), dir.path().join("go"));
    assert!(store.is_alone());
    let child = fork(|| {
        let Ok(_again) = Store::open(&dir.path().join("store")) else { return 1 };
        fs::write(&is_open, "").unwrap();
        while !go.exists() {
            std::thread::yield_now();
        }
        0
    });
    terrace_testkit::wait_until("the child has the store open", || is_open.exists());
    let is_alone = store.is_alone();
    fs::write(&go, "").unwrap();
    assert_eq!(end_of(child), 0);
    assert!(!is_alone && store.is_alone());
}
