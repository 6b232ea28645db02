//! What every target must do, whatever it is made of.

#[cfg(all(feature = "services-fs", feature = "services-memory", feature = "services-redis"))]
mod object;

use std::any::Any;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use terrace_format::frame::{self, Header, Identity, Scratch, decode_range};

use super::EmptiedNote;
use super::decorate::{Deadline, Faults, Limits, Throttle};
use super::{Directory, Ids, Memory, PLAIN, Place, Target, Used, Whole};

const STORE: u64 = 77;
const CAPACITY: u64 = 8 << 20;
const LENGTHS: [usize; 9] = [1, 100, 4096, 5000, 65_536, 65_537, 262_145, 300_000, 1 << 20];

struct Counter(AtomicU64);

impl Ids for Counter {
    fn next(&self) -> io::Result<u64> {
        Ok(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn ids() -> Arc<dyn Ids> {
    Arc::new(Counter(AtomicU64::new(1)))
}

/// Bytes that differ from write to write, and that a codec can shrink.
fn bytes(write: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| ((i >> 6).wrapping_mul(write * 2 + 1) ^ write) as u8).collect()
}

fn append_as(target: &dyn Target, write: u64, raw: &[u8], encoding: &str) -> io::Result<Place> {
    let mut scratch = Scratch::default();
    let identity = Identity { object: 5, write, offset: 0, replica: 0 };
    let encoding = encoding.parse().expect("an encoding");
    target.append(&frame::encode(identity, encoding, raw, &mut scratch).expect("encodes"))
}

fn append(target: &dyn Target, write: u64, length: usize) -> io::Result<Place> {
    append_as(target, write, &bytes(write, length), "none")
}

fn header(target: &dyn Target, place: Place) -> io::Result<Header> {
    let mut start = vec![0; frame::MAX_HEADER.min(place.length as usize)];
    target.read(place, 0, &mut start)?;
    Header::read(&start, STORE, place).map_err(io::Error::other)
}

/// The raw bytes from `start` on, of a frame that must be the one of this write.
fn read(target: &dyn Target, place: Place, write: u64, start: usize, length: usize) -> io::Result<Vec<u8>> {
    let header = header(target, place)?;
    assert_eq!(header.identity.write, write, "another frame stands in this place");
    let mut out = vec![0; length];
    let fetch = |range: std::ops::Range<u32>, into: &mut [u8]| {
        target.read(place, header.written_len() as u32 + range.start, into)
    };
    decode_range(&header, start as u32, &mut out, &mut Scratch::default(), fetch)?;
    Ok(out)
}

fn scan(target: &dyn Target) -> BTreeSet<(u64, Place)> {
    let mut found = BTreeSet::new();
    let mut add = |place, header: Header| assert!(found.insert((header.identity.write, place)), "found twice");
    target.scan(&mut add).expect("scans");
    found
}

/// Runs each part of the suite on a target of its own.
fn check(make: impl Fn() -> (Arc<dyn Target>, Box<dyn Any>)) {
    for part in [
        frames_read_back_whole_and_in_part,
        threads_append_at_once,
        freed_frames_are_gone_and_their_places_are_not_used_again,
        freeing_spares_the_neighbours,
        space_comes_and_goes,
        discarding_takes_a_whole_segment_or_nothing,
        what_never_was_is_not_found,
    ] {
        let (target, _guard) = make();
        part(&*target);
    }
}

fn frames_read_back_whole_and_in_part(target: &dyn Target) {
    let mut alive = BTreeSet::new();
    for (write, (length, encoding)) in (1..).zip(LENGTHS.iter().flat_map(|&l| [(l, "none"), (l, "lz4")])) {
        let raw = bytes(write, length);
        let place = append_as(target, write, &raw, encoding).expect("appends");
        let header = header(target, place).expect("a header");
        assert_eq!(header.frame_len(), u64::from(place.length));
        assert_eq!(header.raw_len as usize, length);
        for (start, end) in [(0, length), (length / 3, length), (0, length.div_ceil(2)), (length / 3, length / 2)] {
            let part = read(target, place, write, start, end - start).expect("reads");
            assert!(part == raw[start..end], "{start}..{end} of {length} bytes, {encoding}");
        }
        alive.insert((write, place));
    }
    assert_eq!(scan(target), alive);
    let segments: BTreeSet<u64> = alive.iter().map(|(_, place)| place.segment).collect();
    target.sync(&segments.into_iter().collect::<Vec<_>>()).expect("syncs");
    target.sync(&[]).expect("syncs nothing");
    assert_eq!(scan(target), alive);
}

fn threads_append_at_once(target: &dyn Target) {
    let written: Vec<(u64, usize, Place)> = std::thread::scope(|scope| {
        let spawn = |thread: u64| {
            let one = move |n: u64| {
                let (write, length) = (thread * 1000 + n, 1000 + 700 * n as usize);
                (write, length, append(target, write, length).expect("appends"))
            };
            scope.spawn(move || (0..20).map(one).collect::<Vec<_>>())
        };
        let handles: Vec<_> = (1..5).map(spawn).collect();
        handles.into_iter().flat_map(|h| h.join().expect("a thread")).collect()
    });
    for &(write, length, place) in &written {
        assert!(read(target, place, write, 0, length).expect("reads") == bytes(write, length));
    }
    let mut places: Vec<Place> = written.iter().map(|(.., place)| *place).collect();
    places.sort_unstable();
    for pair in places.windows(2) {
        let apart = pair[0].segment != pair[1].segment || pair[0].end() <= pair[1].offset;
        assert!(apart, "{pair:?} overlap");
    }
    assert_eq!(scan(target), written.iter().map(|&(write, _, place)| (write, place)).collect());
}

fn freed_frames_are_gone_and_their_places_are_not_used_again(target: &dyn Target) {
    let old: Vec<Place> = (1..).zip(LENGTHS).map(|(write, l)| append(target, write, l).expect("appends")).collect();
    target.free(&old).expect("frees");
    target.free(&old).expect("freeing twice does no harm");
    assert_eq!(scan(target), BTreeSet::new());
    let again: Vec<Place> = (100..).zip(LENGTHS).map(|(write, l)| append(target, write, l).expect("appends")).collect();
    target.free(&old).expect("freeing later does no harm to newer frames");
    for (place, length) in old.iter().zip(LENGTHS) {
        assert!(header(target, *place).is_err(), "{length} bytes: a freed frame still has a header");
    }
    for (write, (place, length)) in (100..).zip(again.iter().zip(LENGTHS)) {
        assert!(!old.contains(place), "{place:?} is used again");
        assert!(read(target, *place, write, 0, length).expect("reads") == bytes(write, length));
    }
}

fn freeing_spares_the_neighbours(target: &dyn Target) {
    for length in [100, 5000, 100_000, 300_000] {
        let from = length as u64;
        let placed: Vec<Place> = (0..9).map(|n| append(target, from + n, length).expect("appends")).collect();
        let dead: Vec<Place> = placed.iter().copied().step_by(2).collect();
        target.free(&dead).expect("frees");
        for (write, place) in (from..).zip(&placed).skip(1).step_by(2) {
            assert!(read(target, *place, write, 0, length).expect("reads") == bytes(write, length), "{length} bytes");
        }
        let alive: BTreeSet<_> = (from..).zip(placed.iter().copied()).skip(1).step_by(2).collect();
        assert_eq!(scan(target), alive, "{length} bytes");
        target.free(&placed).expect("frees");
    }
}

fn space_comes_and_goes(target: &dyn Target) {
    let before = target.space().expect("space");
    assert_eq!(before.capacity, CAPACITY);
    let mut placed = Vec::new();
    let full = (0..20).find_map(|write| append(target, write, 1 << 20).map(|place| placed.push(place)).err());
    assert_eq!(full.expect("a full target").kind(), io::ErrorKind::StorageFull);
    assert!(placed.len() >= 6, "most of the capacity can be used: {}", placed.len());
    let used = target.space().expect("space").used;
    assert!(used >= before.used + ((placed.len() as u64) << 20) && used <= CAPACITY, "{used} used");
    target.free(&placed[1..4]).expect("frees");
    assert!(target.space().expect("space").used + (3 << 20) <= used + 16_384, "space comes back");
    let place = append(target, 50, 1 << 20).expect("a target that was full takes frames again");
    assert!(read(target, place, 50, 0, 1 << 20).expect("reads") == bytes(50, 1 << 20));
    assert!(read(target, placed[0], 0, 0, 1 << 20).expect("reads") == bytes(0, 1 << 20));
}

fn discarding_takes_a_whole_segment_or_nothing(target: &dyn Target) {
    let place = append(target, 1, 5000).expect("appends");
    if target.discard(place.segment).expect("discards") {
        assert_eq!(header(target, place).expect_err("gone").kind(), io::ErrorKind::NotFound);
        assert_eq!(scan(target), BTreeSet::new());
    } else {
        assert!(read(target, place, 1, 0, 5000).expect("reads") == bytes(1, 5000));
    }
    assert!(target.discard(u64::MAX).expect("a segment that is not there is gone"));
}

fn what_never_was_is_not_found(target: &dyn Target) {
    assert_eq!(scan(target), BTreeSet::new());
    let absent = Place { segment: u64::MAX, offset: 0, length: 100 };
    assert_eq!(target.read(absent, 0, &mut [0; 10]).expect_err("absent").kind(), io::ErrorKind::NotFound);
    target.free(&[absent]).expect("freeing what is not there does no harm");
    target.free(&[]).expect("frees nothing");
    target.sync(&[u64::MAX]).expect("a segment that is gone needs no sync");
}

fn note(root: &Path) -> EmptiedNote {
    EmptiedNote::new(root.with_extension("emptied"))
}

fn made(root: &Path, store: u64, ids: Arc<dyn Ids>) -> io::Result<Directory> {
    let target = Directory::new(root, (store, 1), CAPACITY, Used::default(), ids, true, note(root));
    target.ready().map(|()| target)
}

fn directory(root: &Path) -> (Arc<dyn Target>, Box<dyn Any>) {
    let folder = tempfile::tempdir_in(root).expect("a folder");
    let target = made(&folder.path().join("t"), STORE, ids()).expect("a target");
    (Arc::new(target), Box::new(folder))
}

fn memory() -> Arc<dyn Target> {
    Arc::new(Memory::new(STORE, CAPACITY, ids()))
}

#[test]
fn directory_on_disk() {
    check(|| directory(&std::env::temp_dir()));
}

#[test]
fn directory_on_tmpfs() {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        check(|| directory(shared));
    }
}

#[test]
fn in_memory() {
    check(|| (memory(), Box::new(())));
}

#[test]
fn throttled() {
    check(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let rate = Some(10_000_000_000);
        let limits = Limits { read: rate, write: rate, ..Limits::default() };
        (Arc::new(Throttle::new(memory(), limits, &folder.path().join("state")).expect("a throttle")), Box::new(folder))
    });
}

#[test]
fn with_a_deadline() {
    check(|| (Arc::new(Deadline::new(memory(), Duration::from_secs(60))), Box::new(())));
}

#[test]
fn with_faults_that_are_not_set() {
    check(|| (Arc::new(Faults::new(memory())), Box::new(())));
}

type Decorate<'a> = &'a dyn Fn(Arc<dyn Target>, &Path) -> Arc<dyn Target>;

/// What a directory holds as ordinary files reads back frame by frame, however it was decorated.
#[test]
fn plain_files_are_frames_and_files_at_once() {
    let limits = Limits { read: Some(10_000_000_000), write: Some(10_000_000_000), ..Limits::default() };
    let decorations: [Decorate<'_>; 4] = [
        &|target, _| target,
        &|target, folder| Arc::new(Throttle::new(target, limits.clone(), &folder.join("state")).expect("a throttle")),
        &|target, _| Arc::new(Deadline::new(target, Duration::from_secs(60))),
        &|target, _| Arc::new(Faults::new(target)),
    ];
    for decorate in decorations {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().join("t");
        let target = decorate(Arc::new(made(&root, STORE, ids()).expect("a target")), folder.path());
        let file = PLAIN | 7;
        let mut whole = Vec::new();
        let places: Vec<Place> = (1..)
            .zip([70_000, 1, 1 << 20, 5000])
            .map(|(write, length)| {
                let raw = bytes(write, length);
                let identity = Identity { object: 5, write, offset: whole.len() as u64, replica: 0 };
                whole.extend_from_slice(&raw);
                let mut scratch = Scratch::default();
                let frame =
                    frame::encode(identity, terrace_codec::Encoding::NONE, &raw, &mut scratch).expect("encodes");
                target.write_plain(file, &frame).expect("writes")
            })
            .collect();
        for (write, (place, length)) in (1..).zip(places.iter().zip([70_000, 1, 1 << 20, 5000])) {
            for (start, end) in [(0, length), (length / 3, length), (length / 3, length / 2)] {
                let part = read(&*target, *place, write, start, end - start).expect("reads");
                assert!(part == bytes(write, length)[start..end]);
            }
        }
        assert_eq!(scan(&*target), (1..).zip(places.iter().copied()).collect());
        target.sync(&[file]).expect("syncs");
        let named = Whole { file, length: whole.len() as u64 + 10, mode: 0o640, mtime: 7 };
        assert!(target.follow(b"a/b", Some(&named), &[]).expect("names"));
        let shorter = Whole { length: named.length - 1, ..named };
        assert!(!target.follow(b"a/b", Some(&shorter), &[]).expect("leaves what is longer"));
        let stands = |key: &[u8], whole| target.is_named(key, whole).expect("looks");
        assert!(stands(b"a/b", &named) && !stands(b"a", &named) && !stands(b"a/b", &shorter));
        whole.extend([0; 10]);
        assert!(std::fs::read(root.join("files/a/b")).expect("a file") == whole);
        std::fs::write(root.join("files/other"), b"put there by someone").expect("writes");
        assert_eq!(target.plain_names().expect("lists"), [(b"a/b".to_vec(), file)]);
        target.follow(b"a/b", None, &[PLAIN | 8]).expect("leaves what is not one of these");
        assert!(root.join("files/a/b").exists());
        target.follow(b"a/b", None, &[file]).expect("unnames");
        assert!(!root.join("files/a").exists() && read(&*target, places[0], 1, 0, 9).is_ok());
        assert_eq!(target.plain_files().expect("lists"), [file]);
        assert!(target.allocated(file) > 0 && target.discard(file).expect("discards"));
        assert_eq!(header(&*target, places[0]).expect_err("gone").kind(), io::ErrorKind::NotFound);
        assert_eq!((target.plain_files().expect("lists"), scan(&*target)), (Vec::new(), BTreeSet::new()));
    }
    assert_eq!(memory().follow(b"a", None, &[]).expect_err("no files").kind(), io::ErrorKind::Unsupported);
}

#[test]
fn a_directory_outlives_its_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let numbers = ids();
    let open = || made(folder.path(), STORE, numbers.clone()).expect("a target");
    let first = open();
    let old = append(&first, 1, 5000).expect("appends");
    assert!(!first.discard(old.segment).expect("discards"), "its writer still holds it");
    drop(first);
    let second = open();
    let new = append(&second, 2, 5000).expect("appends");
    assert_eq!(scan(&second), BTreeSet::from([(1, old), (2, new)]));
    assert!(read(&second, old, 1, 0, 5000).expect("reads") == bytes(1, 5000));
    drop(second);
    let third = open();
    assert!(third.discard(old.segment).expect("discards"), "no writer holds it");
    assert_eq!(header(&third, old).expect_err("gone").kind(), io::ErrorKind::NotFound);
}

#[test]
fn another_stores_directory_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    made(folder.path(), 1, ids()).expect("the first");
    made(folder.path(), 1, ids()).expect("the same again");
    assert!(made(folder.path(), 2, ids()).is_err());
}

#[test]
fn a_directory_that_vanished_is_away_and_comes_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let (here, elsewhere) = (folder.path().join("t"), folder.path().join("u"));
    let first = made(&here, STORE, ids()).expect("a target");
    let place = append(&first, 1, 5000).expect("appends");
    assert!(first.is_new());
    // Who made it may have died before it was said what was on it.
    let open = |make| Directory::new(&here, (STORE, 1), CAPACITY, Used::default(), ids(), make, note(&here));
    assert!(open(true).ready().is_ok() && open(true).is_new() && open(false).is_new());
    first.forget_new().expect("forgets");
    first.forget_new().expect("once is enough");
    drop(first);
    let target = Directory::new(&here, (STORE, 1), CAPACITY, Used::default(), ids(), false, note(&here));
    assert!(read(&target, place, 1, 0, 5000).expect("reads") == bytes(1, 5000));
    assert!(!target.is_new());
    std::fs::rename(&here, &elsewhere).expect("vanishes");
    let gone = |result: io::Result<Place>| assert_eq!(result.expect_err("away").kind(), io::ErrorKind::NotConnected);
    let absent = Place { segment: 77, ..place };
    gone(read(&target, absent, 1, 0, 10).map(|_| place));
    gone(append(&target, 2, 5000));
    std::fs::create_dir_all(here.join("segments")).expect("an empty disk is mounted");
    gone(append(&target, 2, 5000));
    std::fs::remove_dir_all(&here).and_then(|()| std::fs::rename(&elsewhere, &here)).expect("comes back");
    append(&target, 2, 5000).expect("appends");
    assert!(read(&target, place, 1, 0, 5000).expect("reads") == bytes(1, 5000));
}
