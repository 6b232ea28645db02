//! The numbers of objects and of pending replicas, against counting them.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use terrace_catalog::log::Log;
use terrace_catalog::{Attributes, Catalog, Edit, Extent, NewExtent, Owed, Replica, TargetId, Task, Voids};
use terrace_format::Place;

const TARGET_COUNT: TargetId = 4;
const FRAME_BYTES: u32 = 100;

/// One step: the edit's kind, two keys, and the targets that are to make a replica, as bits.
type Step = (u8, u8, u8, u8);

fn open(dir: &Path, name: &str) -> Catalog {
    Catalog::open(&dir.join(name), Log::open(&dir.join("log"), 7).unwrap()).unwrap()
}

fn replica(catalog: &Catalog, target: TargetId) -> Replica {
    let place = Place { segment: catalog.next_id().unwrap(), offset: 0, length: FRAME_BYTES };
    Replica { target, place, stored: 50, encoding: "lz4-1".parse().unwrap() }
}

/// A frame on target 0, which is pending on others.
fn frame(catalog: &Catalog, offset: u64, targets: u8) -> NewExtent {
    let write = catalog.next_id().unwrap();
    let replicas = [replica(catalog, 0)].into_iter().collect();
    let extent = Extent { offset, length: FRAME_BYTES, skip: 0, raw_len: FRAME_BYTES, write, replicas, source: None };
    NewExtent { extent, owed: (1..TARGET_COUNT).filter(|target| targets & (1 << target) != 0).collect() }
}

/// The key of this number. One of them is not a user's.
fn name(number: u8) -> Vec<u8> {
    if number == 3 { b".terrace/d".to_vec() } else { vec![b'a' + number] }
}

/// The edit of a step, if it has one.
fn edit(catalog: &Catalog, &(kind, key, other, targets): &Step) -> Option<Edit> {
    let (key, other) = (name(key), name(other));
    let target = TargetId::from(targets) % TARGET_COUNT;
    let found = catalog.locate(&key, 0, u64::MAX).unwrap();
    let pending = || -> Vec<(Task, Owed)> { catalog.owed(None, 1000).unwrap() };
    Some(match kind {
        0 | 1 => {
            let object = catalog.next_id().unwrap();
            let extents: Vec<NewExtent> =
                (0..4).map(|at| frame(catalog, at * u64::from(FRAME_BYTES), targets)).collect();
            let attributes = Attributes::default();
            Edit::Put { key, object, length: 400, want: 2, attributes, staged: false, extents }
        }
        2 | 3 => {
            let object = found.map_or_else(|| catalog.next_id().unwrap(), |(object, _)| object.id);
            Edit::Write { key, object, want: 2, mtime: 0, extents: vec![frame(catalog, u64::from(other[0]), targets)] }
        }
        4 => Edit::Remove { key },
        5 => Edit::Rename { from: key, to: other },
        6 => Edit::SetLength { key, length: u64::from(targets), mtime: 0 },
        7 => Edit::Clear { key, start: 50, end: 250, mtime: 0 },
        // A replica becomes pending, perhaps a second time, or in the place of one that is gone.
        8 | 9 => {
            let (object, extents) = found?;
            let extent = extents.first()?;
            let (task, key) = (extent.task(object.id, target), key.into());
            match extent.replicas.first() {
                Some(lost) if kind == 9 => Edit::Lost {
                    task: Task { target: lost.target, ..task },
                    key,
                    place: lost.place,
                    owed: Some(target),
                },
                _ => Edit::Owe { task, key, raw_len: extent.raw_len, then_drop: Some(0) },
            }
        }
        10 | 11 => {
            let pending = pending();
            let (task, _) = pending.get(usize::from(targets) % pending.len().max(1))?;
            match kind {
                10 => Edit::Made { task: *task, replica: replica(catalog, task.target) },
                _ => Edit::Forgive { task: *task },
            }
        }
        _ => return None,
    })
}

#[test]
fn as_many_objects_and_pending_replicas_are_kept_as_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    let strategy = (0u8..12, 0u8..4, 0u8..4, 0u8..=255);
    let mut runner = TestRunner::default();
    let mut highest = 0;
    for step in 0..2000 {
        // Once a target is taken out of the store, nothing becomes pending there.
        if step == 1500 {
            catalog.commit(Edit::Retire { target: 3 }.into()).unwrap();
        }
        let one = strategy.new_tree(&mut runner).unwrap().current();
        let Some(edit) = edit(&catalog, &one) else { continue };
        catalog.commit(edit.into()).unwrap();
        let mut counted: BTreeMap<TargetId, u64> = BTreeMap::new();
        for (task, _) in catalog.owed(None, 1000).unwrap() {
            *counted.entry(task.target).or_default() += 1;
        }
        assert_eq!(catalog.owed_by_target().unwrap(), counted, "after {one:?}");
        let objects = (0..3).filter(|n| catalog.object(&name(*n)).unwrap().is_some()).count();
        assert_eq!(catalog.count().unwrap(), objects as u64, "after {one:?}");
        highest = highest.max(counted.into_values().sum());
    }
    assert!(highest > 20, "at most {highest} replicas were pending at once");
    let again = open(dir.path(), "again");
    again.replay(&Voids::new(), |_, _, _| {}).unwrap();
    assert!(again.dump().unwrap() == catalog.dump().unwrap());
    assert_eq!(again.owed_by_target().unwrap(), catalog.owed_by_target().unwrap());
    assert_eq!(again.count().unwrap(), catalog.count().unwrap());
}
