//! The format is a contract: docs/format.md has all of it, and what is written today is what was written at first.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_bytes::ByteBuf;
use smallvec::smallvec;
use terrace::Encoding;
use terrace::catalog::{Attributes, Edit, Extent, Kind, Live, NewExtent, Object, Owed, Replica, Source, Task};
use terrace::log::Tail;
use terrace::tier::Place;

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

fn hex(value: &impl serde::Serialize) -> String {
    postcard::to_stdvec(value).unwrap().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name(edit: &Edit) -> String {
    format!("{edit:?}").split([' ', '{']).next().unwrap().to_owned()
}

/// A page that lacks an edit, or a change that gives one another number or other bytes, would make stores that nobody can read.
#[test]
fn edits_and_records_are_written_as_the_page_says_and_as_ever() {
    let mut lines = String::new();
    for (number, edit) in edits().iter().enumerate() {
        let (name, bytes) = (name(edit), hex(edit));
        assert!(
            FORMAT_PAGE.contains(&format!("\n| {number} | `{name}` | ")),
            "docs/format.md lacks edit {number}, {name}"
        );
        assert_eq!(bytes[..2], format!("{number:02x}"), "{name}");
        let again: Edit = postcard::from_bytes(&postcard::to_stdvec(edit).unwrap()).unwrap();
        assert_eq!(&again, edit);
        writeln!(lines, "{name} {bytes}").unwrap();
    }
    let extents_in_record = Some(smallvec![extent()]);
    let object =
        Object { id: 300, generation: 9, length: 1 << 33, want: 2, attributes: attributes(), extents_in_record };
    let owed = Owed { key: b"a/\xff".to_vec(), raw_len: 1 << 20, then_drop: Some(1), since: 8 };
    let live = Live { frames: 3, bytes: 1 << 21, sequence: 9, end: 1 << 22 };
    let tail = Tail { sequence: 9, checksum: u64::MAX, file: 1, position: 48 };
    let records = [("object", hex(&object)), ("owed", hex(&owed)), ("live", hex(&live)), ("tail", hex(&tail))];
    records.iter().for_each(|(name, bytes)| writeln!(lines, "{name} {bytes}").unwrap());
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
