//! Streams from every source to every destination: one common suite, and tests of special cases.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, UNIX_EPOCH};

use common::{Random, settings, store};
use terrace::tier::{Blobs, Service};
use terrace::{Ack, Store};
use terrace_stream::destinations::{Bucket, Destination, End, Files, Keys, Outcome};
use terrace_stream::sources::{Redis, Watch};
use terrace_stream::{
    AnySource, Control, Error, Failure, Framed, Frames, Origin, Place, Position, Request, Run, Settings, Stream,
};
use terrace_testkit::Redis as Server;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// Reads the content of a destination by name.
type Read = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// A destination, and a function that reads it.
struct Case {
    name: &'static str,
    to: Arc<dyn Destination>,
    read: Read,
    offsets: bool,
}

fn service(root: &Path) -> Service {
    let timeout = Duration::from_secs(10);
    Service { name: "fs".into(), options: BTreeMap::new(), root: root.display().to_string(), timeout }
}

fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap()
}

fn cases(store: &Store, dir: &Path) -> Vec<Case> {
    let (archive, bucket, keys) = (dir.join("archive"), dir.join("bucket"), store.clone());
    let blobs = Blobs::new(&service(&bucket)).unwrap();
    let objects = move |name: &[u8]| {
        // A whole file, or appended bytes.
        if let Ok(whole) = blobs.read(text(name)) {
            return whole;
        }
        let names = blobs.list(&format!("{}/", text(name))).unwrap();
        names.iter().flat_map(|name| blobs.read(name).unwrap()).collect()
    };
    vec![
        Case {
            name: "files",
            to: Arc::new(Files::new(&archive).unwrap()),
            read: Box::new(move |name| fs::read(archive.join(text(name))).unwrap()),
            offsets: true,
        },
        Case {
            name: "keys",
            to: Arc::new(Keys::new(store, b"archive")),
            read: Box::new(move |name| keys.get(&[b"archive/", name].concat()).unwrap()),
            offsets: true,
        },
        Case {
            name: "bucket",
            to: Arc::new(Bucket::new(&service(&bucket)).unwrap()),
            read: Box::new(objects),
            offsets: false,
        },
    ]
}

/// Makes requests for some destinations, and their expected content if the requests are executed in order.
fn requests(seed: u64, offsets: bool) -> (Vec<Request>, Contents) {
    let mut random = Random::new(seed);
    let mut expected = Contents::new();
    let mut requests = Vec::new();
    for _ in 0..3000 {
        let name = format!("deep/d{}", random.below(5));
        let file = expected.entry(name.clone().into_bytes()).or_default();
        let most = if random.below(100) == 0 { 50_000 } else { 300 };
        let bytes: Vec<u8> = (0..1 + random.below(most)).map(|_| random.below(256) as u8).collect();
        let at = match offsets && random.below(3) == 0 {
            true => random.below(file.len() as u64 + 1000),
            false => file.len() as u64,
        };
        let place = if at == file.len() as u64 { Place::Append } else { Place::At(at) };
        let end = at as usize + bytes.len();
        file.resize(file.len().max(end), 0);
        file[at as usize..end].copy_from_slice(&bytes);
        let ends = offsets && random.below(50) == 0;
        if ends {
            file.truncate(end);
        }
        requests.push(Request { destination: name.into_bytes().into(), place, bytes: bytes.into(), ends });
    }
    (requests, expected)
}

fn compare(case: &Case, expected: &Contents) {
    for (name, bytes) in expected {
        let found = (case.read)(name);
        assert!(found == *bytes, "{}, {}: {} bytes, not {}", case.name, text(name), found.len(), bytes.len());
    }
}

fn drained() -> Arc<Control> {
    let control = Arc::new(Control::default());
    control.drain();
    control
}

/// A destination that sometimes fails, before or after it has executed a request.
struct Flaky(Arc<dyn Destination>, rustix_futex_sync::Mutex<Random>);

impl Flaky {
    fn fails(&self) -> Outcome<()> {
        if self.1.lock().below(60) == 0 { Err(Failure::Later("it is flaky".into())) } else { Ok(()) }
    }
}

impl Destination for Flaky {
    fn length(&self, name: &[u8]) -> Outcome<Option<u64>> {
        self.fails()?;
        self.0.length(name)
    }
    fn appends_only(&self) -> bool {
        self.0.appends_only()
    }
    fn resume(&self, name: &[u8], done: Position) -> Outcome<()> {
        self.0.resume(name, done)
    }
    fn write(&self, name: &[u8], first: Position, runs: &[Run]) -> Outcome<()> {
        self.fails()?;
        self.0.write(name, first, runs)?;
        self.fails()
    }
    fn write_part(&self, name: &[u8], runs: &[Run], end: Option<&End>) -> Outcome<()> {
        self.fails()?;
        self.0.write_part(name, runs, end)?;
        self.fails()
    }
    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()> {
        self.0.set_length(name, length)
    }
    fn sync(&self, name: &[u8]) -> Outcome<()> {
        self.fails()?;
        self.0.sync(name)?;
        self.fails()
    }
}

#[test]
fn the_log_flows_to_every_destination() {
    for flaky in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = store(dir.path());
        for (seed, case) in (1..).zip(cases(&store, dir.path())) {
            let stream = Stream::open(&store, case.name, Ack::Placed).unwrap();
            let (requests, expected) = requests(seed, case.offsets);
            requests.chunks(7).for_each(|chunk| stream.append(chunk.to_vec()).unwrap());
            let to = match flaky {
                true => Arc::new(Flaky(case.to.clone(), rustix_futex_sync::Mutex::new(Random::new(seed)))),
                false => case.to.clone(),
            };
            let control = drained();
            stream.run(to, &control).unwrap().with_log().go(&settings()).unwrap();
            let parked = stream.ledger().all().unwrap().into_iter().find(|(_, mark)| mark.parked.is_some());
            assert!(parked.is_none(), "{} {flaky} {parked:?} {:?}", case.name, control.figures);
            compare(&case, &expected);
            assert_eq!(stream.backlog().unwrap().requests, 0, "{}", case.name);
            assert_eq!(control.figures.failed.load(Ordering::Relaxed) > 0, flaky);
        }
    }
}

#[test]
fn redis_streams_flow_to_every_destination_and_are_emptied() {
    let Some(mut server) = Server::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for (seed, case) in (1..).zip(cases(&store, dir.path())) {
        let (mut requests, _) = requests(seed, case.offsets);
        requests.iter_mut().for_each(|request| request.ends = false);
        let address = server.address();
        let mut connection = redis::Client::open(address.as_str()).unwrap().get_connection().unwrap();
        let mut expected = Contents::new();
        for request in &requests {
            let mut add = redis::cmd("XADD");
            add.arg(case.name).arg("*").arg("destination").arg(&*request.destination).arg("bytes").arg(&*request.bytes);
            let file = expected.entry(request.destination.to_vec()).or_default();
            let at = match request.place {
                Place::At(at) => {
                    add.arg("offset").arg(at);
                    at as usize
                }
                Place::Append => file.len(),
            };
            file.resize(file.len().max(at + request.bytes.len()), 0);
            file[at..at + request.bytes.len()].copy_from_slice(&request.bytes);
            add.query::<String>(&mut connection).unwrap();
        }
        let stream = Stream::open(&store, case.name, Ack::Placed).unwrap();
        let control = drained();
        let flaky = Flaky(case.to.clone(), rustix_futex_sync::Mutex::new(Random::new(seed)));
        let running = stream.run(Arc::new(flaky), &control).unwrap();
        let running = running.with("redis", |number, ledger| {
            Ok(Box::new(Redis::new(&address, case.name, "redis", number, ledger, Duration::from_secs(60), &control)?)
                as AnySource)
        });
        // The stream waits for a server that is away for a while.
        server.kill();
        std::thread::scope(|scope| {
            let running = scope.spawn(|| running.unwrap().go(&settings()));
            std::thread::sleep(Duration::from_millis(100));
            server.start_again();
            running.join().unwrap().unwrap();
        });
        compare(&case, &expected);
        let mut connection = redis::Client::open(address.as_str()).unwrap().get_connection().unwrap();
        assert_eq!(redis::cmd("XLEN").arg(case.name).query::<u64>(&mut connection).unwrap(), 0);
    }
}

fn watched(store: &Store, root: &Path, to: Arc<dyn Destination>, control: &Arc<Control>) -> Result<(), Error> {
    let stream = Stream::open(store, "watched", Ack::Placed).unwrap();
    let running = stream.run(to, control).unwrap().with_directory(root, &Watch::default())?;
    running.go(&settings())
}

#[test]
fn files_dropped_into_a_directory_flow_on_and_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for case in cases(&store, dir.path()) {
        let root = dir.path().join(format!("drop-{}", case.name));
        fs::create_dir_all(root.join("a/b")).unwrap();
        let mut expected = Contents::new();
        let mut random = Random::new(9);
        let mut drop_one = |n: u64, expected: &mut Contents| {
            let name = format!("a/b/f{n}");
            let length = [0, 1, 1 << 20, (1 << 20) + 1, 3_000_000, 700][n as usize % 6];
            let bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
            fs::write(root.join(".being-written"), &bytes).unwrap();
            let file = fs::File::options().write(true).open(root.join(".being-written")).unwrap();
            file.set_permissions(fs::Permissions::from_mode(0o640)).unwrap();
            file.set_modified(UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789 + n)).unwrap();
            fs::rename(root.join(".being-written"), root.join(&name)).unwrap();
            expected.insert(name.into_bytes(), bytes);
        };
        (0..8).for_each(|n| drop_one(n, &mut expected));
        fs::write(root.join(".hidden"), "stays").unwrap();
        let control = Arc::new(Control::default());
        let flaky = Arc::new(Flaky(case.to.clone(), rustix_futex_sync::Mutex::new(Random::new(5))));
        std::thread::scope(|scope| {
            let running = scope.spawn(|| watched(&store, &root, flaky, &control));
            (8..20).for_each(|n| drop_one(n, &mut expected));
            // Longer files replace the earlier ones, then a shorter one.
            while fs::read_dir(root.join("a/b")).unwrap().count() > 0 {
                assert!(!running.is_finished());
                std::thread::sleep(Duration::from_millis(5));
            }
            drop_one(10, &mut expected);
            fs::write(root.join("a/b/f4"), "short").unwrap();
            expected.insert(b"a/b/f4".to_vec(), b"short".to_vec());
            while fs::read_dir(root.join("a/b")).unwrap().count() > 0 {
                assert!(!running.is_finished());
                std::thread::sleep(Duration::from_millis(5));
            }
            control.drain();
            running.join().unwrap().unwrap();
        });
        compare(&case, &expected);
        assert!(root.join(".hidden").exists());
        let (mode, time) = match case.name {
            "files" => {
                let metadata = fs::metadata(dir.path().join("archive/a/b/f3")).unwrap();
                (metadata.mode() & 0o777, metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec())
            }
            "keys" => {
                let attributes = store.stat(b"archive/a/b/f3").unwrap().attributes;
                (attributes.mode, attributes.mtime)
            }
            _ => continue,
        };
        assert_eq!((mode, time), (0o640, 1_234_567_890_123_456_792), "{}", case.name);
    }
}

#[test]
fn a_failing_destination_is_parked_alone_and_continues_when_it_works_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let archive = dir.path().join("archive");
    // A folder at the place of a file, and a name that leads out of the destination.
    fs::create_dir_all(archive.join("folder")).unwrap();
    fs::create_dir_all(dir.path().join("outside")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("outside"), archive.join("link")).unwrap();
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    for n in 0..200 {
        let names = ["folder", "link/x", "good"];
        stream.append(names.map(|name| Request::append(name, format!("{n} "))).to_vec()).unwrap();
    }
    let run = || {
        let to = Arc::new(Files::new(&archive).unwrap());
        stream.run(to, &drained()).unwrap().with_log().go(&settings()).unwrap();
    };
    run();
    let all: String = (0..200).map(|n| format!("{n} ")).collect();
    assert_eq!(fs::read_to_string(archive.join("good")).unwrap(), all);
    assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 0);
    let parked = |stream: &Stream| {
        let marks = stream.ledger().all().unwrap().into_iter();
        marks.filter_map(|(name, mark)| Some((text(&name).to_owned(), mark.parked?))).collect::<Vec<_>>()
    };
    let reasons = parked(&stream);
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    assert!(reasons[0].1.contains("not a regular file"), "{reasons:?}");
    assert!(stream.backlog().unwrap().requests >= 400);
    fs::remove_dir(archive.join("folder")).unwrap();
    fs::remove_file(archive.join("link")).unwrap();
    run();
    assert_eq!(fs::read_to_string(archive.join("folder")).unwrap(), all);
    assert_eq!(fs::read_to_string(archive.join("link/x")).unwrap(), all);
    assert_eq!(fs::read_to_string(archive.join("good")).unwrap(), all);
    assert!(parked(&stream).is_empty());
    assert_eq!(stream.backlog().unwrap().requests, 0);
}

#[test]
fn existing_files_are_appended_to_and_shortened_files_are_parked() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let archive = dir.path().join("archive");
    fs::create_dir_all(&archive).unwrap();
    fs::write(archive.join("old"), "before ").unwrap();
    let stream = Stream::open(&store, "s", Ack::Durable).unwrap();
    let run = |text: &'static str| {
        stream.append(vec![Request::append("old", text)]).unwrap();
        let to = Arc::new(Files::new(&archive).unwrap());
        stream.run(to, &drained()).unwrap().with_log().go(&settings()).unwrap();
        fs::read_to_string(archive.join("old")).unwrap()
    };
    assert_eq!(run("one "), "before one ");
    assert_eq!(run("two "), "before one two ");
    fs::write(archive.join("old"), "gone").unwrap();
    assert_eq!(run("three "), "gone");
    let (_, mark) = stream.ledger().all().unwrap().remove(0);
    assert!(mark.parked.unwrap().contains("it holds 4 bytes, though 15 were delivered"));
    fs::write(archive.join("old"), "before one two ").unwrap();
    assert_eq!(run("four "), "before one two three four ");
}

#[test]
fn a_producer_may_send_again_and_not_too_far_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    let mut producer = stream.producer("p").unwrap();
    for n in 0..5 {
        assert_eq!(producer.send(Request::append("d", format!("{n}"))).unwrap(), n + 1);
    }
    let framed = |sequence, bytes: &'static str| Framed {
        request: Request::append("d", bytes),
        origin: Some(Origin { producer: b"p".as_slice().into(), sequence }),
    };
    let far = 6 + terrace_stream::MAX_SEQUENCE_LEAD;
    let error = stream.append_framed(vec![framed(7, "6"), framed(far, "no")]).unwrap_err();
    assert!(matches!(error, Error::TooFar { missing: 6, .. }), "{error}");
    // The batch is refused as a whole: 7 was not accepted either.
    stream.append_framed(vec![framed(7, "6"), framed(7, "again")]).unwrap();
    stream.append_framed(vec![framed(3, "again"), framed(6, "5")]).unwrap();
    let run = || {
        let to = Arc::new(Files::new(&dir.path().join("archive")).unwrap());
        stream.run(to, &drained()).unwrap().with_log().go(&settings()).unwrap();
    };
    run();
    // The pages are gone, but the progress of their producers is not.
    assert_eq!(stream.backlog().unwrap().requests, 0);
    stream.append_framed((1..8).map(|n| framed(n, "again")).collect()).unwrap();
    assert_eq!(stream.producer("p").unwrap().next(), 8);
    run();
    assert_eq!(fs::read_to_string(dir.path().join("archive/d")).unwrap(), "0123465");
}

#[test]
fn submitted_requests_arrive_in_order_and_share_pages() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    let submit = |n: u64| match n % 10 {
        // Each caller waits for its own request, while the others wait for theirs.
        0 => stream.append(vec![Request::append("d", format!("{n} "))]).map(|()| None).unwrap(),
        _ => Some(stream.submit(vec![Request::append("d", format!("{n} ")).into()])),
    };
    let submitted: Vec<_> = (0..2000).filter_map(submit).collect();
    let refused = stream.submit(vec![Request::append("../d", "leads out").into()]);
    let last = stream.submit(vec![Request::append("d", "last").into()]);
    submitted.into_iter().for_each(|one| drop(one.wait().unwrap()));
    assert!(matches!(refused.wait(), Err(Error::BadDestination { .. })));
    last.wait().unwrap();
    let pages = store.list(b".terrace/streams/s/log", None, 5000).unwrap().len();
    assert!((1..1000).contains(&pages), "{pages} pages");
    let to = Arc::new(Files::new(&dir.path().join("archive")).unwrap());
    stream.run(to, &drained()).unwrap().with_log().go(&settings()).unwrap();
    let expected: String = (0..2000).map(|n| format!("{n} ")).collect();
    assert_eq!(fs::read_to_string(dir.path().join("archive/d")).unwrap(), expected + "last");
}

#[test]
fn one_process_runs_a_stream() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    let to: Arc<dyn Destination> = Arc::new(Files::new(&dir.path().join("archive")).unwrap());
    let control = drained();
    let running = stream.run(to.clone(), &control).unwrap();
    assert!(stream.is_running().unwrap());
    assert!(matches!(stream.run(to, &control), Err(Error::Running(_))));
    drop(running);
    assert!(!stream.is_running().unwrap());
    stream.append(vec![Request::append("d", "x")]).unwrap();
    Stream::open(&store, "t", Ack::Placed).unwrap().append(vec![Request::append("d", "x")]).unwrap();
    assert_eq!(Stream::list(&store).unwrap(), ["s", "t"]);
    for bad in ["", ".x", "a/b", "a b"] {
        assert!(matches!(Stream::open(&store, bad, Ack::Placed), Err(Error::BadName(_))), "{bad:?}");
    }
}

#[test]
fn frames_round_trip_and_other_bytes_are_refused() {
    let mut random = Random::new(3);
    let mut bytes = Vec::new();
    let (all, _) = requests(4, true);
    let framed: Vec<Framed> = (1..)
        .zip(all)
        .map(|(sequence, request)| {
            let producer = if sequence % 3 == 0 { None } else { Some(b"p".as_slice().into()) };
            Framed { request, origin: producer.map(|producer| Origin { producer, sequence }) }
        })
        .collect();
    framed.iter().for_each(|one| one.encode(&mut bytes).unwrap());
    let read: Vec<Framed> = Frames::new(bytes.as_slice()).collect::<Result<_, _>>().unwrap();
    assert!(read == framed);
    for _ in 0..common::number("CASES", 2000) {
        let mut hostile = bytes[..random.below(2000) as usize].to_vec();
        for _ in 0..random.below(4) {
            if let Some(byte) = hostile.get_mut(random.below(2000) as usize) {
                *byte = random.below(256) as u8;
            }
        }
        // The reader does not panic, and ends.
        let count = Frames::new(hostile.as_slice()).take_while(Result::is_ok).count();
        assert!(count <= framed.len());
    }
    for bad in ["..", "/etc/passwd", "a/../b", "a//b", "a\0b", "", "a/.b.terrace-part"] {
        let request = Request::append(bad, "x");
        assert!(matches!(request.check(), Err(Error::BadDestination { .. })), "{bad:?}");
    }
}

#[test]
fn memory_is_bounded_with_any_backlog() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let stream = Stream::open(&store, "s", Ack::Placed).unwrap();
    for n in 0..200 {
        stream.append(vec![Request::append(format!("d{}", n % 7), vec![n as u8; 100_000])]).unwrap();
    }
    let control = drained();
    let to = Arc::new(Files::new(&dir.path().join("archive")).unwrap());
    let settings = Settings { memory: 1 << 20, ..settings() };
    stream.run(to, &control).unwrap().with_log().go(&settings).unwrap();
    let peak = control.figures.peak.load(Ordering::Relaxed);
    // The stream may exceed the limit by one page.
    assert!(peak < 3 << 20, "{peak} bytes");
    let total: u64 = (0..7).map(|n| fs::metadata(dir.path().join(format!("archive/d{n}"))).unwrap().len()).sum();
    assert_eq!(total, 20_000_000);
}
