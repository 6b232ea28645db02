//! Questions about frames and the space that they take.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use terrace_format::frame::{self, Header, Identity, Scratch, decode_range};

use super::{CAPACITY_BYTES, Question, STORE_ID, Trial};
use crate::decorate::Faults;
use crate::{Place, Target};

pub(super) const FRAME_QUESTIONS: [Question; 7] = [
    frames_read_back_whole_and_in_part,
    threads_append_at_once,
    freed_frames_are_missing_and_their_places_are_not_used_again,
    freeing_spares_the_neighbours,
    space_comes_and_goes,
    a_torn_frame_spoils_no_other,
    a_frame_that_never_was_is_missing,
];

const FRAME_LENGTHS: [usize; 9] = [1, 100, 4096, 5000, 65_536, 65_537, 262_145, 300_000, 1 << 20];

/// Bytes that differ from write to write, and that a codec can shrink.
pub(super) fn bytes(write: u64, length: usize) -> Vec<u8> {
    (0..length as u64).map(|i| ((i >> 6).wrapping_mul(write * 2 + 1) ^ write) as u8).collect()
}

fn append_as(target: &dyn Target, write: u64, raw: &[u8], encoding: &str) -> io::Result<Place> {
    let mut scratch = Scratch::default();
    let identity = Identity { object: 5, write, offset: 0, replica: 0 };
    let encoding = encoding.parse().expect("an encoding");
    target.append(&frame::encode(identity, encoding, raw, &mut scratch).expect("encodes"))
}

pub(super) fn append(target: &dyn Target, write: u64, length: usize) -> io::Result<Place> {
    append_as(target, write, &bytes(write, length), "none")
}

fn header(target: &dyn Target, place: Place) -> io::Result<Header> {
    let mut start = vec![0; frame::MAX_HEADER.min(place.length as usize)];
    target.read(place, 0, &mut start)?;
    Header::read(&start, STORE_ID, place).map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))
}

/// The raw bytes from `start` on, of a frame that must be the one of this write.
pub(super) fn read(target: &dyn Target, place: Place, write: u64, start: usize, length: usize) -> io::Result<Vec<u8>> {
    let header = header(target, place)?;
    assert_eq!(header.identity.write, write, "another frame stands in this place");
    let mut out = vec![0; length];
    let fetch = |range: std::ops::Range<u32>, into: &mut [u8]| {
        target.read(place, header.written_len() as u32 + range.start, into)
    };
    decode_range(&header, start as u32, &mut out, &mut Scratch::default(), fetch)?;
    Ok(out)
}

pub(super) fn scan(target: &dyn Target) -> BTreeSet<(u64, Place)> {
    let mut found = BTreeSet::new();
    let mut add = |place, header: Header| assert!(found.insert((header.identity.write, place)), "found twice");
    target.scan(&mut add).expect("scans");
    found
}

/// Checks that the segment of this place is not there.
pub(super) fn assert_missing(target: &dyn Target, place: Place) {
    let error = target.read(place, 0, &mut [0; 16]).expect_err("no segment is here");
    assert_eq!(error.kind(), io::ErrorKind::NotFound, "{place:?}: {error}");
}

/// Checks that a frame was freed. In a segment that others share it may leave a hole behind, which holds no frame.
fn assert_freed(trial: &Trial<'_>, target: &dyn Target, place: Place) {
    if trial.capabilities.open_segments {
        assert_damage(&header(target, place).expect_err("no frame is here"));
    } else {
        assert_missing(target, place);
    }
}

/// Checks that the error speaks of the frame only: a store sets no target aside for it.
fn assert_damage(error: &io::Error) {
    use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
    assert!(matches!(error.kind(), NotFound | InvalidData | UnexpectedEof), "{error:?} sets the target aside");
}

fn frames_read_back_whole_and_in_part(trial: &Trial<'_>) {
    let target = &*trial.open();
    let mut alive = BTreeSet::new();
    for (write, (length, encoding)) in (1..).zip(FRAME_LENGTHS.iter().flat_map(|&l| [(l, "none"), (l, "lz4")])) {
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

fn threads_append_at_once(trial: &Trial<'_>) {
    let target = &*trial.open();
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

fn freed_frames_are_missing_and_their_places_are_not_used_again(trial: &Trial<'_>) {
    let target = &*trial.open();
    let append_all = |first: u64| -> Vec<Place> {
        (first..).zip(FRAME_LENGTHS).map(|(write, l)| append(target, write, l).expect("appends")).collect()
    };
    let old = append_all(1);
    target.free(&old).expect("frees");
    target.free(&old).expect("freeing twice does no harm");
    assert_eq!(scan(target), BTreeSet::new());
    let again = append_all(100);
    target.free(&old).expect("freeing later does no harm to newer frames");
    old.iter().for_each(|place| assert_freed(trial, target, *place));
    for (write, (place, length)) in (100..).zip(again.iter().zip(FRAME_LENGTHS)) {
        assert!(!old.contains(place), "{place:?} is used again");
        assert!(read(target, *place, write, 0, length).expect("reads") == bytes(write, length));
    }
}

fn freeing_spares_the_neighbours(trial: &Trial<'_>) {
    let target = &*trial.open();
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

fn space_comes_and_goes(trial: &Trial<'_>) {
    let target = &*trial.open();
    let before = target.space().expect("space");
    assert_eq!(before.capacity, CAPACITY_BYTES);
    assert!(!before.read_only);
    let mut placed = Vec::new();
    let full = (0..20).find_map(|write| append(target, write, 1 << 20).map(|place| placed.push(place)).err());
    assert_eq!(full.expect("a full target").kind(), io::ErrorKind::StorageFull);
    assert!(placed.len() >= 6, "most of the capacity can be used: {}", placed.len());
    let used = target.space().expect("space").used;
    assert!(used >= before.used + ((placed.len() as u64) << 20) && used <= CAPACITY_BYTES, "{used} used");
    target.free(&placed[1..4]).expect("frees");
    assert!(target.space().expect("space").used + (3 << 20) <= used + 16_384, "space comes back");
    let place = append(target, 50, 1 << 20).expect("a target that was full takes frames again");
    assert!(read(target, place, 50, 0, 1 << 20).expect("reads") == bytes(50, 1 << 20));
    assert!(read(target, placed[0], 0, 0, 1 << 20).expect("reads") == bytes(0, 1 << 20));
}

/// A device may fail in the middle of a frame, which then has its header and a part of its payload.
fn a_torn_frame_spoils_no_other(trial: &Trial<'_>) {
    let faults = Faults::new(trial.open());
    let before = append(&faults, 1, 100_000).expect("appends");
    faults.plan().tear_appends(1);
    append(&faults, 2, 100_000).expect_err("the frame is torn");
    let after = append(&faults, 3, 100_000).expect("a target takes frames after one was torn");
    let whole = BTreeSet::from([(1, before), (3, after)]);
    let torn: BTreeMap<u64, Place> = scan(&faults).difference(&whole).copied().collect();
    assert_eq!(torn.len(), 1, "a scan finds every header");
    let place = *torn.get(&2).expect("the torn frame has its header");
    assert_damage(&read(&faults, place, 2, 0, 100_000).expect_err("half of the payload is missing"));
    faults.free(&[place]).expect("frees");
    assert_freed(trial, &faults, place);
    assert_eq!(scan(&faults), whole);
    for (write, place) in whole {
        assert!(read(&faults, place, write, 0, 100_000).expect("reads") == bytes(write, 100_000));
    }
}

fn a_frame_that_never_was_is_missing(trial: &Trial<'_>) {
    let target = &*trial.open();
    assert_eq!(scan(target), BTreeSet::new());
    let absent = Place { segment: u64::MAX, offset: 0, length: 100 };
    assert_eq!(target.read(absent, 0, &mut [0; 10]).expect_err("absent").kind(), io::ErrorKind::NotFound);
    target.free(&[absent]).expect("freeing a frame that is not there does no harm");
    target.free(&[]).expect("frees nothing");
    target.sync(&[u64::MAX]).expect("a segment that is gone needs no sync");
    assert!(target.discard(u64::MAX).expect("a segment that is not there is gone"));
}
