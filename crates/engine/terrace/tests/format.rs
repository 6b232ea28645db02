//! The format is a contract: docs/format.md has all of it, and what is written today is what was written at first.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_bytes::ByteBuf;
use smallvec::smallvec;
use terrace::Encoding;
use terrace::catalog::{
    Attributes, Change, Dead, Edit, Expect, Extent, Followed, Kind, Live, Member, NewExtent, Object, Owed, Replica,
    Served, SharedFrame, Source, Task, Unfollowed, Verdict,
};
use terrace::log::Tail;
use terrace::tier::Place;
use terrace_format::{Proposal, Step};

const FORMAT_PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/format.md"));

fn task() -> Task {
    Task { object: 300, frame_offset: 1 << 20, write: 77, target: 2 }
}

fn replica() -> Replica {
    let encoding: Encoding = "shuffle4+zstd-3".parse().unwrap();
    Replica { target: 1, place: Place { segment: 9, offset: 4096, length: 70_000 }, stored: 69_000, encoding }
}

fn extent() -> Extent {
    let fast: Encoding = "lz4-1".parse().unwrap();
    let other = Replica { target: 3, encoding: fast, ..replica() };
    let replicas = smallvec![replica(), other];
    Extent { offset: 1_048_600, length: 500, skip: 24, raw_len: 1 << 20, write: 77, replicas, source: None }
}

fn attributes() -> Attributes {
    let user = BTreeMap::from([("posix.uid".to_owned(), "7".to_owned()), ("unit".to_owned(), "K".to_owned())]);
    Attributes { kind: Kind::Symlink, mtime: -1_234_567_890_123, mode: 0o640, user }
}

/// One edit of each kind, in order of their numbers.
fn edits() -> Vec<Edit> {
    let key = || b"a/\xff".to_vec();
    let extents = || vec![NewExtent { extent: extent(), owed: vec![2, 300] }];
    let source = Some(Source { object: 200, offset: 1 << 19 });
    let shared = || vec![NewExtent { extent: Extent { source, ..extent() }, owed: vec![2] }];
    let (object, length, want, mtime, sequence, target, segment) = (300, 1 << 33, 2, -5, 1 << 40, 2, 9);
    let place = replica().place;
    let all = vec![
        Edit::Stage { object, key: key(), extents: extents() },
        Edit::Unstage { object },
        Edit::Put { key: key(), object, length, want, attributes: attributes(), staged: true, extents: extents() },
        Edit::Write { key: key(), object, want, mtime, extents: extents() },
        Edit::SetLength { key: key(), length, mtime },
        Edit::SetAttributes { key: key(), attributes: attributes() },
        Edit::Remove { key: key() },
        Edit::Rename { from: key(), to: b"b".to_vec() },
        Edit::Made { task: task(), replica: replica() },
        Edit::Owe { task: task(), key: ByteBuf::from(key()), raw_len: 1 << 20, then_drop: Some(1) },
        Edit::Forgive { task: task() },
        Edit::Lost { task: task(), key: ByteBuf::from(key()), place, owed: None },
        Edit::Freed { target, places: vec![(7, place)] },
        Edit::Discarded { target, segment },
        Edit::Synced { sequence },
        Edit::Merge { key: key(), object, extents: extents() },
        Edit::Want { key: key(), object, want },
        Edit::Followed { target, key: key(), sequence },
        Edit::Void { sequence, edits: vec![0, 200] },
        Edit::Clear { key: key(), start: 4, end: 1 << 20, mtime },
        Edit::Share { object, key: key(), from: b"b".to_vec(), want, extents: shared() },
        Edit::Retire { target },
        Edit::Uncache { key: key(), object, start: 4, end: 1 << 20 },
    ];
    // A new edit must be added above, too.
    for edit in &all {
        match edit {
            Edit::Stage { .. } | Edit::Unstage { .. } | Edit::Put { .. } | Edit::Write { .. } => {}
            Edit::SetLength { .. } | Edit::SetAttributes { .. } | Edit::Remove { .. } | Edit::Rename { .. } => {}
            Edit::Made { .. } | Edit::Owe { .. } | Edit::Forgive { .. } | Edit::Lost { .. } => {}
            Edit::Freed { .. } | Edit::Discarded { .. } | Edit::Synced { .. } | Edit::Merge { .. } => {}
            Edit::Want { .. } | Edit::Followed { .. } | Edit::Void { .. } | Edit::Clear { .. } => {}
            Edit::Share { .. } | Edit::Retire { .. } | Edit::Uncache { .. } => {}
        }
    }
    all
}

/// One expectation of each kind, in order of their numbers.
fn expectations() -> Vec<Expect> {
    let key = || b"a/\xff".to_vec();
    let among = || vec![3, 300];
    let all = vec![
        Expect::Generation(key(), 300),
        Expect::Exists(key()),
        Expect::Names(key(), 300),
        Expect::Length(key(), 1 << 33),
        Expect::Absent(key()),
        Expect::Free(key()),
        Expect::Owed(task(), key()),
        Expect::NotPlain(key(), 300),
        Expect::HasOther { task: task(), key: key(), among: among() },
        Expect::KeepsOne { task: task(), key: key(), among: among() },
        Expect::NoFrame(task(), key()),
        Expect::KeepsSynced { task: task(), key: key() },
        Expect::Unused(300),
    ];
    // A new expectation must be added above, too.
    for expectation in &all {
        match expectation {
            Expect::Generation(..) | Expect::Exists(..) | Expect::Names(..) | Expect::Length(..) => {}
            Expect::Absent(..) | Expect::Free(..) | Expect::Owed(..) | Expect::NotPlain(..) => {}
            Expect::HasOther { .. } | Expect::KeepsOne { .. } | Expect::NoFrame(..) => {}
            Expect::KeepsSynced { .. } | Expect::Unused(..) => {}
        }
    }
    all
}

/// One step of each kind, in order of their numbers.
fn steps() -> Vec<Step> {
    let change = Change { expect: vec![Expect::Unused(2)], edits: vec![Edit::Retire { target: 2 }] };
    let (session, number, incarnation, sequence, target) = (300, 7, 1 << 35, 1 << 40, 2);
    let all = vec![
        Step::Begin { session },
        Step::Change { session, number, change },
        Step::End { session },
        Step::Join { node: "node-a".to_owned() },
        Step::Leave { incarnation },
        Step::Report { sequence, pins: vec![(300, 9)] },
        Step::Serve { target, persistent: true, doubtful: false },
        Step::Synced { target, sequence },
        Step::Floor { sequence },
        Step::Piece { session, number, piece: 200, bytes: b"a/\xff".to_vec() },
        Step::Whole { session, number, pieces: 201 },
    ];
    // A new step must be added above, too.
    for step in &all {
        match step {
            Step::Begin { .. } | Step::Change { .. } | Step::End { .. } | Step::Join { .. } => {}
            Step::Leave { .. } | Step::Report { .. } | Step::Serve { .. } | Step::Synced { .. } => {}
            Step::Floor { .. } | Step::Piece { .. } | Step::Whole { .. } => {}
        }
    }
    all
}

/// One verdict of each kind, in order of their numbers.
fn verdicts() -> Vec<Verdict> {
    let all = vec![
        Verdict::Done(300),
        Verdict::Conflict,
        Verdict::NotFound,
        Verdict::NoSession,
        Verdict::Forgotten,
        Verdict::Stale,
        Verdict::Refused,
    ];
    // A new verdict must be added above, too.
    for verdict in &all {
        match verdict {
            Verdict::Done(_) | Verdict::Conflict | Verdict::NotFound | Verdict::NoSession => {}
            Verdict::Forgotten | Verdict::Stale | Verdict::Refused => {}
        }
    }
    all
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex(value: &impl serde::Serialize) -> String {
    hex_of(&postcard::to_stdvec(value).unwrap())
}

/// The name of a variant.
fn name(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").split([' ', '{', '(']).next().unwrap().to_owned()
}

/// Adds a line for each of the variants, which must have the numbers 0, 1, 2 ... and be read back from their bytes.
fn write_variants<T>(lines: &mut String, kind: &str, all: &[T])
where
    T: std::fmt::Debug + PartialEq + serde::Serialize + serde::de::DeserializeOwned,
{
    for (number, variant) in all.iter().enumerate() {
        let (name, bytes) = (name(variant), hex(variant));
        assert_eq!(bytes[..2], format!("{number:02x}"), "{name}");
        assert_eq!(&postcard::from_bytes::<T>(&postcard::to_stdvec(variant).unwrap()).unwrap(), variant);
        writeln!(lines, "{kind}{name} {bytes}").unwrap();
    }
}

/// Reads a record with private fields from the values of its fields in order, and checks that each value is that of the field it is meant
/// for. Returns the bytes that are written for it.
fn record_of<T>(fields: &impl serde::Serialize, wanted: &str) -> String
where
    T: std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    let record: T = postcard::from_bytes(&postcard::to_stdvec(fields).unwrap()).unwrap();
    assert_eq!(format!("{record:?}"), wanted);
    hex(&record)
}

/// A page that lacks an edit, or a change that gives one another number or other bytes, would make stores that nobody can read.
#[test]
fn edits_and_records_are_written_as_the_page_says_and_as_ever() {
    let mut lines = String::new();
    for (number, edit) in edits().iter().enumerate() {
        let name = name(edit);
        assert!(
            FORMAT_PAGE.contains(&format!("\n| {number} | `{name}` | ")),
            "docs/format.md lacks edit {number}, {name}"
        );
    }
    let names = [
        steps().iter().map(name).collect::<Vec<_>>(),
        expectations().iter().map(name).collect(),
        verdicts().iter().map(name).collect(),
    ];
    for (number, name) in names.iter().flat_map(|names| names.iter().enumerate()) {
        assert!(FORMAT_PAGE.contains(&format!(" {number} `{name}`")), "docs/format.md lacks {number}, {name}");
    }
    write_variants(&mut lines, "", &edits());
    let extents_in_record = Some(smallvec![extent()]);
    let object =
        Object { id: 300, generation: 9, length: 1 << 33, want: 2, attributes: attributes(), extents_in_record };
    let owed = Owed { key: b"a/\xff".to_vec(), raw_len: 1 << 20, then_drop: Some(1), since: 8 };
    let live = Live { frames: 3, bytes: 1 << 21, sequence: 9, end: 1 << 22 };
    let tail = Tail { sequence: 9, checksum: u64::MAX, file: 1, position: 48 };
    let unfollowed = Unfollowed { sequence: 1 << 40, files: vec![7, 300] };
    let member = Member { next: 300, short: 2, node: "node-a".to_owned(), reported: 1 << 40, pins: vec![(300, 9)] };
    let served = Served { incarnation: 300, short: 2, persistent: true, doubtful: false, synced: 1 << 40 };
    let followed = Followed { slot: 300, chain: u64::MAX, time: 1 << 31 };
    let records = [
        ("object", hex(&object)),
        ("owed", hex(&owed)),
        ("live", hex(&live)),
        ("tail", hex(&tail)),
        (
            "dead",
            record_of::<Dead>(
                &(70_000u32, 1u64 << 31, 300u64, 301u64, true),
                "Dead { length: 70000, time: 2147483648, object: 300, last: 301, by_removal: true }",
            ),
        ),
        ("unfollowed", hex(&unfollowed)),
        (
            "shared-frame",
            record_of::<SharedFrame>(
                &(1u32 << 20, 2u64, 3u8, 300u64, 301u64, 1u64 << 40, [replica()].as_slice()),
                &format!(
                    "SharedFrame {{ raw_len: 1048576, owners: 2, want: 3, first: 300, last: 301, overwritten: 1099511627776, \
                     replicas: [{:?}] }}",
                    replica()
                ),
            ),
        ),
        ("member", hex(&member)),
        ("served", hex(&served)),
        ("followed", hex(&followed)),
    ];
    records.iter().for_each(|(name, bytes)| writeln!(lines, "{name} {bytes}").unwrap());
    write_variants(&mut lines, "Expect::", &expectations());
    write_variants(&mut lines, "Step::", &steps());
    write_variants(&mut lines, "Verdict::", &verdicts());
    let proposal = Proposal { incarnation: 1 << 35, number: 7, time: 1 << 31, steps: steps() };
    let record = proposal.encode(300);
    assert_eq!(Proposal::decode(&record, 300), Ok(proposal));
    writeln!(lines, "proposal-of-store-300 {}", hex_of(&record)).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/records.txt");
    let known = fs::read_to_string(&golden).unwrap_or_default();
    for line in known.lines() {
        assert!(lines.lines().any(|now| now == line), "older stores have this, and it would be read otherwise: {line}");
    }
    if std::env::var_os("TERRACE_WRITE_GOLDEN").is_some() {
        fs::write(&golden, &lines).unwrap();
    }
    assert_eq!(fs::read_to_string(&golden).unwrap(), lines, "`make golden` adds what is new");
}
