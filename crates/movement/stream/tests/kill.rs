//! kill -9: real processes append to a stream and run it, die at random moments and at every fail point, and send all
//! requests again whose acceptance they do not know of, twice and shuffled. Then every byte of every destination is
//! compared. `TERRACE_KILLS` and `TERRACE_REQUESTS` set the numbers of kills and requests (`make soak`), `TERRACE_SEED`
//! repeats a run.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Random, Routed, number, requests_of, settings, store};
use terrace::{Ack, Store};
use terrace_stream::{Control, Framed, Name, Origin, Place, Request, Stream};

const FAIL_POINTS: [&str; 13] = [
    "stream:appending",
    "stream:appended",
    "stream:pulled",
    "stream:written",
    "stream:synced",
    "stream:committed",
    "stream:trimmed",
    "commit:logged",
    "put:written",
    "put:committed",
    "batch:written",
    "batch:committed",
    "sync:log",
];
const PRODUCER_COUNT: u64 = 4;

fn framed(producer: u64, sequence: u64) -> Framed {
    let name: Name = format!("p{producer}").into_bytes().into();
    Framed { request: request(producer, sequence), origin: Some(Origin { producer: name, sequence }) }
}

/// Returns the request with a number. Appended bytes name their producer, because their order of arrival is unknown.
fn request(producer: u64, sequence: u64) -> Request {
    let mut random = Random::new(producer << 40 | sequence);
    let kind = random.below(100);
    let length = if kind == 0 { 70_000 } else { random.below(300) };
    let body: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
    match random.below(8) {
        to @ 0..=2 => {
            let mut bytes = [producer.to_le_bytes(), sequence.to_le_bytes(), length.to_le_bytes()].concat();
            bytes.extend(body);
            Request::append(["file/a", "file/deep/er/b", "key/c"][to as usize], bytes)
        }
        to @ 3..=5 => {
            let bytes: Vec<u8> = (0..64).map(|_| random.below(256) as u8).collect();
            Request::at(
                format!("{}{producer}", ["file/at", "key/at", "flaky/at"][to as usize - 3]),
                64 * sequence,
                bytes,
            )
        }
        6 => Request::append("flaky/b", [producer.to_le_bytes(), sequence.to_le_bytes(), 0u64.to_le_bytes()].concat()),
        _ => Request::append("bad/d", [producer.to_le_bytes(), sequence.to_le_bytes(), 0u64.to_le_bytes()].concat()),
    }
}

/// Sends the remaining requests of one producer, each chunk shuffled and some of it twice.
fn send(stream: &Stream, producer: u64, until: u64, seed: u64) {
    let mut random = Random::new(seed * 31 + producer);
    let mut next = stream.producer(format!("p{producer}")).unwrap().next().saturating_sub(random.below(60)).max(1);
    while next <= until {
        let end = (next + 1 + random.below(100)).min(until + 1);
        let mut chunk: Vec<u64> =
            (next..end).flat_map(|at| std::iter::repeat_n(at, 1 + random.below(6) as usize / 5)).collect();
        random.shuffle(&mut chunk);
        let mut rest = chunk.as_slice();
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(1 + random.below(20) as usize));
            stream.append_framed(now.iter().map(|at| framed(producer, *at)).collect()).unwrap();
            rest = later;
        }
        next = end;
    }
}

/// Not a test: the program of the killed processes.
#[test]
fn worker() {
    let Ok(text) = std::env::var("TERRACE_STREAM_WORKER") else { return };
    common::fail_as_a_whole();
    let (dir, words) = text.split_once(' ').unwrap();
    let numbers: Vec<u64> = words.split(' ').map(|word| word.parse().unwrap()).collect();
    let [role, seed, until] = numbers[..] else { panic!("{words}") };
    let dir = Path::new(dir);
    let store = Store::open(&dir.join("store")).unwrap();
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    let control = Arc::new(Control::default());
    std::thread::scope(|scope| {
        let sending: Vec<_> = (0..PRODUCER_COUNT)
            .filter(|producer| role == 2 || producer % 2 == role)
            .map(|producer| {
                let stream = &stream;
                scope.spawn(move || send(stream, producer, until, seed))
            })
            .collect();
        if role > 0 {
            let healthy = role == 2;
            let to = Routed::new(&store, &dir.join("archive"), healthy, seed);
            let running = stream.run(Arc::new(to), &control).unwrap().with_log();
            let control = &control;
            scope.spawn(move || {
                sending.into_iter().for_each(|one| one.join().unwrap());
                if healthy {
                    resend_all(
                        until,
                        &Stream::open(&Store::open(&dir.join("store")).unwrap(), "s", Ack::Placed).unwrap(),
                    );
                    control.drain();
                }
            });
            running.go(&settings()).unwrap();
        }
    });
}

/// Sends everything again, twice and shuffled.
fn resend_all(until: u64, stream: &Stream) {
    let mut all: Vec<(u64, u64)> =
        (0..PRODUCER_COUNT).flat_map(|p| (1..=until).flat_map(move |at| [(p, at), (p, at)])).collect();
    Random::new(7).shuffle(&mut all);
    for chunk in all.chunks(500) {
        let accepted = stream.append_framed(chunk.iter().map(|(p, at)| framed(*p, *at)).collect()).unwrap();
        assert!(accepted.iter().all(|one| *one == terrace_stream::Accepted::Known), "a request was accepted twice");
    }
}

fn spawn(dir: &Path, role: u64, seed: u64, until: u64, point: Option<&str>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "worker", "--nocapture"]).stdout(Stdio::null());
    command.stderr(File::create(dir.join(format!("stderr-{role}"))).unwrap());
    command.env("TERRACE_STREAM_WORKER", format!("{} {role} {seed} {until}", dir.display()));
    if let Some(point) = point {
        command.env("TERRACE_FAIL_POINT", point);
    }
    command.spawn().unwrap()
}

#[test]
fn every_byte_arrives_exactly_once_despite_kills() {
    let kills = number("TERRACE_KILLS", 60);
    let requests = number("TERRACE_REQUESTS", 100_000);
    let seed = number("TERRACE_SEED", 1);
    let until = requests / PRODUCER_COUNT;
    let mut random = Random::new(seed);
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    drop(store(dir));
    let mut died_at: BTreeMap<String, u64> = BTreeMap::new();
    let (mut killed, mut round) = (0, 0);
    while killed < kills {
        // Each process gets a share of the requests, so that some are left for the last one.
        let share = (until * (killed + 2) / (kills + 1)).min(until);
        let point = (round % 2 == 1).then(|| {
            let name = FAIL_POINTS[(round / 2) % FAIL_POINTS.len()];
            format!("{name}@{}", 1 + random.below(if name == "stream:trimmed" { 2 } else { 30 }))
        });
        let dying = if round % 4 == 1 && !point.as_ref().is_some_and(|point| runner_only(point)) { 0 } else { 1 };
        let mut workers = [0, 1]
            .map(|role| spawn(dir, role, seed << 20 | round as u64, share, point.as_deref().filter(|_| role == dying)));
        std::thread::sleep(Duration::from_millis(40 + random.below(300)));
        let begin = Instant::now();
        while point.is_some()
            && begin.elapsed() < Duration::from_secs(3)
            && workers[dying as usize].try_wait().unwrap().is_none()
        {
            std::thread::sleep(Duration::from_millis(2));
        }
        for (role, worker) in workers.iter_mut().enumerate() {
            let status = worker.try_wait().unwrap();
            let says = fs::read_to_string(dir.join(format!("stderr-{role}"))).unwrap();
            assert!(
                status.is_none_or(|s| s.code().is_none_or(|code| code == 0)),
                "round {round}, worker {role}: {says}"
            );
            worker.kill().unwrap();
            let signal = worker.wait().unwrap().signal();
            killed += u64::from(signal.is_some());
            if signal == Some(libc::SIGABRT) {
                *died_at.entry(point.as_deref().unwrap().split('@').next().unwrap().into()).or_default() += 1;
            }
        }
        round += 1;
    }
    let parked = |store: &Store| {
        let ledger = Stream::open(store, "s", Ack::Placed).unwrap().ledger().all().unwrap();
        let parked =
            ledger.into_iter().filter_map(|(name, mark)| Some((String::from_utf8(name).unwrap(), mark.parked?)));
        parked.collect::<Vec<_>>()
    };
    assert_eq!(
        parked(&Store::open(&dir.join("store")).unwrap()),
        [("bad/d".into(), "it is bad (from log to the destination)".into())]
    );
    // The last process repairs everything, sends all requests again, twice and shuffled, and survives.
    let last = spawn(dir, 2, seed << 20 | 0xFFFFF, until, None).wait().unwrap();
    assert!(last.success(), "{}", fs::read_to_string(dir.join("stderr-2")).unwrap());
    let store = Store::open(&dir.join("store")).unwrap();
    assert_eq!(parked(&store), []);
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    assert_eq!(stream.backlog().unwrap().requests, 0, "the log was not trimmed");
    let bytes = compare(&store, &dir.join("archive"), until);
    assert_counts(&stream, until);
    println!("{killed} kills, {} requests, {bytes} bytes in all destinations: each once", until * PRODUCER_COUNT);
    println!("of them at fail points: {died_at:?}");
    assert!(
        kills < 6 * FAIL_POINTS.len() as u64 || died_at.len() == FAIL_POINTS.len(),
        "a fail point was never reached"
    );
}

/// Checks how many requests the ledger says were delivered to each destination.
fn assert_counts(stream: &Stream, until: u64) {
    let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (producer, sequence) in (0..PRODUCER_COUNT).flat_map(|p| (1..=until).map(move |at| (p, at))) {
        *expected.entry(request(producer, sequence).destination.to_vec()).or_default() += 1;
    }
    let marks = stream.ledger().all().unwrap();
    let counted: BTreeMap<Vec<u8>, u64> = marks.iter().map(|(name, mark)| (name.clone(), mark.requests)).collect();
    assert_eq!(counted, expected, "{marks:?}");
    assert_eq!(stream.done().unwrap().requests, until * PRODUCER_COUNT);
}

fn runner_only(point: &str) -> bool {
    ["stream:pulled", "stream:written", "stream:synced", "stream:committed", "stream:trimmed", "batch", "sync"]
        .iter()
        .any(|only| point.starts_with(only))
}

/// Compares every byte of every destination with the requests. Returns the number of bytes.
fn compare(store: &Store, archive: &Path, until: u64) -> u64 {
    let mut appended: HashMap<Name, HashMap<(u64, u64), Vec<u8>>> = HashMap::new();
    let mut fixed: HashMap<Name, Vec<u8>> = HashMap::new();
    for (producer, sequence) in (0..PRODUCER_COUNT).flat_map(|p| (1..=until).map(move |at| (p, at))) {
        let request = request(producer, sequence);
        match request.place {
            Place::Append => {
                appended.entry(request.destination).or_default().insert((producer, sequence), request.bytes.to_vec());
            }
            Place::At(offset) => {
                let file = fixed.entry(request.destination).or_default();
                let end = offset as usize + request.bytes.len();
                file.resize(file.len().max(end), 0);
                file[offset as usize..end].copy_from_slice(&request.bytes);
            }
        }
    }
    let mut bytes = 0;
    for (name, expected) in fixed {
        let found = requests_of(store, archive, &name);
        assert!(
            found == expected,
            "{:?}: {} bytes, not {}",
            String::from_utf8_lossy(&name),
            found.len(),
            expected.len()
        );
        bytes += found.len() as u64;
    }
    for (name, mut expected) in appended {
        let found = requests_of(store, archive, &name);
        let shown = String::from_utf8_lossy(&name);
        bytes += found.len() as u64;
        let mut rest = found.as_slice();
        while !rest.is_empty() {
            let at = found.len() - rest.len();
            let field = |n: usize| u64::from_le_bytes(rest[8 * n..8 * n + 8].try_into().unwrap());
            let id = (field(0), field(1));
            let request =
                expected.remove(&id).unwrap_or_else(|| panic!("{shown} at {at}: {id:?} again, or never sent"));
            assert!(rest.starts_with(&request), "{shown} at {at}: {id:?} has other bytes");
            rest = &rest[request.len()..];
        }
        assert!(expected.is_empty(), "{shown}: {} requests are missing", expected.len());
    }
    bytes
}

/// Not a test: pulls a directory, and dies.
#[test]
fn watcher() {
    let Ok(text) = std::env::var("TERRACE_STREAM_WATCHER") else { return };
    common::fail_as_a_whole();
    let (kind, dir) = text.split_once(' ').unwrap();
    let dir = Path::new(dir);
    let store = Store::open(&dir.join("store")).unwrap();
    let stream = Stream::open(&store, "w", Ack::Placed).unwrap();
    let control = Arc::new(Control::default());
    if kind.starts_with("drained") {
        control.drain();
    }
    let to = Arc::new(terrace_stream::destinations::Files::new(&dir.join("archive")).unwrap());
    let watch = terrace_stream::sources::Watch { tail: kind.ends_with("tail"), ..Default::default() };
    stream.run(to, &control).unwrap().with_directory(&dir.join("drop"), &watch).unwrap().go(&settings()).unwrap();
}

#[test]
fn no_dropped_file_is_lost_despite_kills() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    drop(store(dir));
    fs::create_dir_all(dir.join("drop/d")).unwrap();
    let points = ["stream:written", "stream:synced", "stream:recorded", "stream:set-aside", "stream:unlinked"];
    let mut random = Random::new(3);
    let mut died = 0;
    for (round, point) in (0..).zip(points.iter().cycle().take(number("TERRACE_KILLS", 60) as usize / 3)) {
        let mut expected = BTreeMap::new();
        for n in 0..6 {
            let length = [0, 10, 300_000, 2_500_000][random.below(4) as usize];
            let bytes: Vec<u8> = (0..length).map(|at| (at / 1000 + n + round) as u8).collect();
            fs::write(dir.join(format!("drop/d/f{n}")), &bytes).unwrap();
            expected.insert(format!("d/f{n}"), bytes);
        }
        let run = |point: Option<String>| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command
                .args(["--exact", "watcher", "--nocapture"])
                .env("TERRACE_STREAM_WATCHER", format!("drained {}", dir.display()))
                .stdout(Stdio::null());
            command.stderr(File::create(dir.join("stderr-w")).unwrap());
            if let Some(point) = point {
                command.env("TERRACE_FAIL_POINT", point);
            }
            command.status().unwrap()
        };
        let status = run(Some(format!("{point}@{}", 1 + random.below(5))));
        died += u64::from(status.signal() == Some(libc::SIGABRT));
        // Every file that is gone has arrived.
        for (name, bytes) in &expected {
            let arrived = || fs::read(dir.join("archive").join(name)).is_ok_and(|found| found == *bytes);
            let hidden = name.replacen("d/", ".", 1) + ".";
            let mut entries = fs::read_dir(dir.join("drop/d")).unwrap().map(|entry| entry.unwrap());
            let found = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(&hidden));
            assert!(
                found.is_some() || dir.join("drop").join(name).exists() || arrived(),
                "round {round}: {name} is lost"
            );
            // As version 0.1 would have left it.
            if let Some(found) = found.filter(|_| round % 2 == 1) {
                fs::rename(found.path(), dir.join("drop/d").join(hidden + "terrace-flush")).unwrap();
            }
        }
        assert!(run(None).success(), "{}", fs::read_to_string(dir.join("stderr-w")).unwrap());
        assert_eq!(fs::read_dir(dir.join("drop/d")).unwrap().count(), 0, "round {round}");
        for (name, bytes) in &expected {
            assert!(fs::read(dir.join("archive").join(name)).unwrap() == *bytes, "round {round}: {name}");
        }
    }
    assert!(died > 0);
    println!("{died} deaths while files were flushed: none lost");
}

/// While `work` runs, runs a watcher again and again and kills it at random moments; then runs a last one until it ends
/// by itself.
fn kill_watchers<T>(dir: &Path, kind: &str, work: impl FnOnce(&std::sync::atomic::AtomicU64) -> T) -> T {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

    let watcher = |kind: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "watcher", "--nocapture"]).stdout(Stdio::null());
        command.env("TERRACE_STREAM_WATCHER", format!("{kind} {}", dir.display()));
        command.stderr(File::create(dir.join("stderr-w")).unwrap());
        command.spawn().unwrap()
    };
    let says = || fs::read_to_string(dir.join("stderr-w")).unwrap();
    let (over, killed) = (AtomicBool::new(false), AtomicU64::new(0));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new(11);
            while !over.load(Ordering::Acquire) {
                let mut child = watcher(kind);
                std::thread::sleep(Duration::from_millis(30 + random.below(200)));
                assert!(child.try_wait().unwrap().is_none(), "{}", says());
                child.kill().unwrap();
                child.wait().unwrap();
                killed.fetch_add(1, Ordering::Relaxed);
            }
        });
        let result = work(&killed);
        over.store(true, Ordering::Release);
        result
    });
    assert!(watcher(&format!("drained{kind}")).wait().unwrap().success(), "{}", says());
    println!("{} watchers were killed", killed.into_inner());
    result
}

/// If a killed process had unlinked a file that a writer had opened just before, the file was lost.
#[test]
fn bytes_added_while_a_removing_process_dies_are_not_lost() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    drop(store(dir));
    fs::create_dir_all(dir.join("drop")).unwrap();
    let kills = number("TERRACE_KILLS", 60) / 3;
    let (files, appended) = kill_watchers(dir, "", |killed| {
        let mut random = Random::new(5);
        let (mut files, mut appended) = (0u64, 0u64);
        while killed.load(std::sync::atomic::Ordering::Relaxed) < kills {
            fs::write(dir.join(format!("drop/f{files}")), vec![1; 1000]).unwrap();
            files += 1;
            for _ in 0..5 {
                // This opens whatever file has the name, at any moment of the removal.
                let path = dir.join(format!("drop/f{}", files.saturating_sub(1 + random.below(40))));
                std::thread::sleep(Duration::from_micros(random.below(1500)));
                if let Ok(mut file) = File::options().append(true).open(path) {
                    std::io::Write::write_all(&mut file, &[2; 100]).unwrap();
                    appended += 1;
                }
            }
        }
        (files, appended)
    });
    assert_eq!(common::tree(&dir.join("drop")).into_keys().collect::<Vec<_>>(), [""; 0]);
    let found = common::tree(&dir.join("archive"));
    let bytes: u64 = found.values().map(|bytes| bytes.len() as u64).sum();
    assert_eq!((found.len() as u64, bytes), (files, files * 1000 + appended * 100));
    let store = Store::open(&dir.join("store")).unwrap();
    assert_eq!(Stream::open(&store, "w", Ack::Placed).unwrap().done().unwrap().files, files);
    println!("{files} files, {appended} times appended to: every byte arrived, and each file is counted once");
}

#[test]
fn additions_to_followed_files_arrive_once_despite_kills() {
    common::fail_as_a_whole();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    drop(store(dir));
    fs::create_dir_all(dir.join("drop")).unwrap();
    let kills = number("TERRACE_KILLS", 60) / 6;
    let mut expected = vec![String::new(); 3];
    kill_watchers(dir, "tail", |killed| {
        let mut line = 0;
        while killed.load(std::sync::atomic::Ordering::Relaxed) < kills {
            let log = line % 3;
            let text = format!("line {line} {}\n", "x".repeat(line % 200));
            let mut file = File::options().create(true).append(true).open(dir.join(format!("drop/log{log}"))).unwrap();
            std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
            expected[log] += &text;
            line += 1;
            std::thread::sleep(Duration::from_micros(200));
        }
    });
    for (log, expected) in expected.into_iter().enumerate() {
        let found = fs::read_to_string(dir.join(format!("archive/log{log}"))).unwrap();
        assert!(found == expected, "log{log}: {} bytes, not {}", found.len(), expected.len());
    }
    assert_eq!(common::tree(&dir.join("drop")).len(), 3);
}

/// A file that grew after its removal was recorded, before it had its hidden name, was counted as two: the next run took it for another
/// one, and the first for removed. Found by the test above, once in fifteen runs.
#[test]
fn a_file_that_grows_while_a_removing_process_dies_is_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    drop(store(dir));
    fs::create_dir_all(dir.join("drop")).unwrap();
    fs::write(dir.join("drop/f"), [1; 1000]).unwrap();
    let run = |kind: &str, point: Option<&str>| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "watcher", "--nocapture"]).stdout(Stdio::null());
        command.env("TERRACE_STREAM_WATCHER", format!("{kind} {}", dir.display()));
        command.stderr(File::create(dir.join("stderr-w")).unwrap());
        command.envs(point.map(|point| ("TERRACE_FAIL_POINT", point)));
        command.spawn().unwrap().wait().unwrap()
    };
    assert_eq!(run("", Some("stream:recorded@1")).signal(), Some(libc::SIGABRT));
    std::io::Write::write_all(&mut File::options().append(true).open(dir.join("drop/f")).unwrap(), &[2; 100]).unwrap();
    assert!(run("drained", None).success(), "{}", fs::read_to_string(dir.join("stderr-w")).unwrap());
    assert_eq!(fs::read(dir.join("archive/f")).unwrap().len(), 1100);
    let store = Store::open(&dir.join("store")).unwrap();
    assert_eq!(Stream::open(&store, "w", Ack::Placed).unwrap().done().unwrap().files, 1);
}
