//! Shared frames, against a model that knows the frame of each byte.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use terrace_catalog::log::Log;
use terrace_catalog::{
    Attributes, Catalog, Change, Edit, Error, Expect, Extent, NewExtent, Replica, TargetId, Task, Voids,
};
use terrace_format::Place;

const TARGET_COUNT: TargetId = 3;
const PLACE_BYTES: u32 = 100;

/// A frame, by the object and the offset under which it was written.
struct Frame {
    object: u64,
    offset: u64,
    raw_len: u32,
    replicas: BTreeMap<TargetId, Place>,
}

/// The byte of a frame: its write, and the place in it. `None` in a hole.
type Byte = Option<(u64, u32)>;

#[derive(Default)]
struct Model {
    files: BTreeMap<Vec<u8>, Vec<Byte>>,
    /// All that were ever written, by their writes.
    frames: BTreeMap<u64, Frame>,
    places: u64,
}

/// One step: its kind, two keys, an offset and a length.
type Step = (u8, u8, u8, u64, u64);

impl Model {
    fn place(&mut self) -> Place {
        self.places += 1;
        Place { segment: 1, offset: self.places * 128, length: PLACE_BYTES }
    }

    /// A new frame for `length` bytes of an object, on the first target.
    fn write(&mut self, catalog: &Catalog, object: u64, offset: u64, length: u64) -> NewExtent {
        let (write, raw_len, place) = (catalog.next_id().unwrap(), length as u32, self.place());
        let replicas = BTreeMap::from([(0, place)]);
        self.frames.insert(write, Frame { object, offset, raw_len, replicas });
        let replicas = [replica(0, place)].into_iter().collect();
        let extent = Extent { offset, length: raw_len, skip: 0, raw_len, write, replicas, source: None };
        NewExtent { extent, owed: Vec::new() }
    }

    fn lay(&mut self, key: &[u8], new: &NewExtent) {
        let (file, at, length) =
            (self.files.entry(key.to_vec()).or_default(), new.extent.offset as usize, new.extent.length);
        file.resize(file.len().max(at + length as usize), None);
        (0..length).for_each(|byte| file[at + byte as usize] = Some((new.extent.write, byte)));
    }

    /// The frames that a byte of a file is in.
    fn live(&self) -> BTreeSet<u64> {
        self.files.values().flatten().flatten().map(|(write, _)| *write).collect()
    }
}

fn replica(target: TargetId, place: Place) -> Replica {
    Replica { target, place, stored: 50, encoding: "lz4-1".parse().unwrap() }
}

fn put(key: &[u8], object: u64, length: u64, staged: bool, extents: Vec<NewExtent>) -> Edit {
    let key = key.to_vec();
    Edit::Put { key, object, length, want: 1, attributes: Attributes::default(), staged, extents }
}

/// Shares the frames of these objects, one behind the other, with a staged object.
fn share(catalog: &Catalog, object: u64, pieces: &[Vec<u8>], lengths: &[u64]) -> Vec<Edit> {
    let (mut edits, mut start) = (Vec::new(), 0);
    for (from, length) in pieces.iter().zip(lengths) {
        let (piece, extents) = catalog.locate(from, 0, u64::MAX).unwrap().unwrap();
        let extents: Vec<NewExtent> = extents
            .into_iter()
            .map(|extent| {
                let owed = catalog.owed_to(&extent.task(piece.id, 0)).unwrap();
                let source = Some(extent.source_in(piece.id));
                NewExtent { extent: Extent { offset: start + extent.offset, source, ..extent }, owed }
            })
            .collect();
        if !extents.is_empty() {
            edits.push(Edit::Share { object, key: b"new".to_vec(), from: from.clone(), want: 2, extents });
        }
        start += length;
    }
    edits
}

/// Carries a step out on the model, and returns the edits of its commits.
fn step(catalog: &Catalog, model: &mut Model, &(kind, key, other, offset, length): &Step) -> Vec<Vec<Edit>> {
    let (key, other) = (vec![b'a' + key], vec![b'a' + other]);
    let existing = catalog.object(&key).unwrap();
    match (kind, &existing) {
        (0 | 1, _) => {
            let object = catalog.next_id().unwrap();
            let extents = vec![
                model.write(catalog, object, 0, length),
                model.write(catalog, object, length, 7),
                model.write(catalog, object, length + 10, 20),
            ];
            model.files.remove(&key);
            extents.iter().for_each(|new| model.lay(&key, new));
            vec![vec![put(&key, object, length + 30, false, extents)]]
        }
        (2 | 3, _) => {
            let object = existing.map_or_else(|| catalog.next_id().unwrap(), |object| object.id);
            let new = model.write(catalog, object, offset, length);
            model.lay(&key, &new);
            vec![vec![Edit::Write { key, object, want: 1, mtime: 0, extents: vec![new] }]]
        }
        // Objects become one, with several commits or with one, which may remove them; or nothing comes of it.
        (4..=7, Some(_)) => {
            let candidates = [key.clone(), other.clone(), key.clone()];
            let pieces: Vec<Vec<u8>> = candidates
                .into_iter()
                .take(1 + length as usize % 3)
                .filter(|key| model.files.contains_key(key))
                .collect();
            let files: Vec<Vec<Byte>> = pieces.iter().map(|piece| model.files[piece].clone()).collect();
            let lengths: Vec<u64> = files.iter().map(|file| file.len() as u64).collect();
            let object = catalog.next_id().unwrap();
            let mut edits = share(catalog, object, &pieces, &lengths);
            let staged = !edits.is_empty();
            if kind == 4 {
                return if staged { vec![edits, vec![Edit::Unstage { object }]] } else { Vec::new() };
            }
            let to = vec![b'a' + offset as u8 % 4];
            let mut last = vec![put(&to, object, lengths.iter().sum(), staged, Vec::new())];
            if kind == 5 {
                let removed: BTreeSet<Vec<u8>> = pieces.into_iter().filter(|piece| *piece != to).collect();
                removed.iter().for_each(|piece| drop(model.files.remove(piece)));
                last.extend(removed.into_iter().map(|key| Edit::Remove { key }));
            }
            model.files.insert(to, files.concat());
            if kind == 6 && staged {
                return vec![edits, last];
            }
            edits.append(&mut last);
            vec![edits]
        }
        (8, Some(_)) => {
            model.files.remove(&key);
            vec![vec![Edit::Remove { key }]]
        }
        (9, Some(_)) => {
            let moved = model.files.remove(&key).unwrap();
            model.files.insert(other.clone(), moved);
            vec![vec![Edit::Rename { from: key, to: other }]]
        }
        (10, Some(_)) => {
            model.files.get_mut(&key).unwrap().resize(offset as usize, None);
            vec![vec![Edit::SetLength { key, length: offset, mtime: 0 }]]
        }
        (11, Some(_)) => {
            let file = model.files.get_mut(&key).unwrap();
            let (start, end) = (file.len().min(offset as usize), file.len().min((offset + length) as usize));
            file[start..end].fill(None);
            vec![vec![Edit::Clear { key, start: offset, end: offset + length, mtime: 0 }]]
        }
        (12.., _) => {
            let live: Vec<u64> = model.live().into_iter().collect();
            let Some(&write) = live.get(offset as usize % live.len().max(1)) else { return Vec::new() };
            let target = (length % u64::from(TARGET_COUNT)) as TargetId;
            let place = model.place();
            let frame = model.frames.get_mut(&write).unwrap();
            let task = Task { object: frame.object, frame_offset: frame.offset, write, target };
            // The key of the object that wrote it, if it is still there.
            let named = model.files.keys().find(|key| catalog.object(key).unwrap().unwrap().id == frame.object);
            let key = named.cloned().unwrap_or_else(|| b"gone".to_vec()).into();
            if kind == 12 {
                frame.replicas.insert(target, place);
                let owe = Edit::Owe { task, key, raw_len: frame.raw_len, then_drop: None };
                return vec![vec![owe], vec![Edit::Made { task, replica: replica(target, place) }]];
            }
            let Some(place) = frame.replicas.get(&target).copied() else { return Vec::new() };
            if frame.replicas.len() > 1 {
                frame.replicas.remove(&target);
            }
            vec![vec![Edit::Lost { task, key, place, owed: None }]]
        }
        _ => Vec::new(),
    }
}

fn check(catalog: &Catalog, model: &Model, after: &Step) {
    let keys: Vec<Vec<u8>> = catalog.list(b"", None, 100).unwrap().into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, model.files.keys().cloned().collect::<Vec<_>>(), "after {after:?}");
    for (key, wanted) in &model.files {
        let (object, extents) = catalog.locate(key, 0, u64::MAX).unwrap().unwrap();
        let mut found: Vec<Byte> = vec![None; object.length as usize];
        for extent in &extents {
            let frame = &model.frames[&extent.write];
            let task = extent.task(object.id, 0);
            assert_eq!((task.object, task.frame_offset), (frame.object, frame.offset), "after {after:?}");
            let replicas: BTreeMap<TargetId, Place> =
                extent.replicas.iter().map(|replica| (replica.target, replica.place)).collect();
            assert_eq!(replicas, frame.replicas, "{extent:?} after {after:?}");
            for byte in 0..extent.length {
                found[extent.offset as usize + byte as usize] = Some((extent.write, extent.skip + byte));
            }
        }
        assert_eq!(found, *wanted, "{key:?} after {after:?}");
    }
    assert_eq!(catalog.miscounted_frames().unwrap(), [], "after {after:?}");
    let owed = catalog.owed(None, 1000).unwrap();
    assert_eq!(catalog.owed_count(None).unwrap(), owed.len() as u64, "after {after:?}");
    let live = model.live();
    for target in 0..TARGET_COUNT {
        let count: u64 = catalog.segments(target).unwrap().iter().map(|(_, live)| live.frames).sum();
        let wanted = live.iter().filter(|write| model.frames[*write].replicas.contains_key(&target)).count();
        assert_eq!(count, wanted as u64, "on target {target} after {after:?}");
    }
    let dead: BTreeSet<u64> = model.frames.keys().filter(|write| !live.contains(write)).copied().collect();
    catalog.each_shared_frame(|name, _| assert!(!dead.contains(&name.write), "after {after:?}")).unwrap();
}

/// The expectation with which the engine commits an edit, if it has one that matters here.
fn expectation(catalog: &Catalog, edit: &Edit) -> Option<Expect> {
    let Edit::Made { task, .. } = edit else { return None };
    let owed = catalog.owed(None, 100).unwrap().into_iter().find(|(owed, _)| owed == task);
    Some(Expect::Owed(*task, owed.unwrap().1.key))
}

fn open(dir: &Path, name: &str) -> Catalog {
    let log = Log::open(&dir.join("log"), 7).unwrap();
    Catalog::open(&dir.join(name), log).unwrap()
}

#[test]
fn each_byte_is_in_its_frame_and_each_frame_lives_as_long_as_its_bytes() {
    run(1);
}

/// As after a lost answer. A replica that was made is registered under the expectation that it is owed.
#[test]
fn a_commit_that_is_repeated_at_once_does_no_harm() {
    run(2);
}

/// Carries out random steps, each commit this number of times.
fn run(times: usize) {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(dir.path(), "catalog");
    let mut model = Model::default();
    let strategy = (0u8..14, 0u8..4, 0u8..4, 0u64..60, 1u64..40);
    let mut runner = TestRunner::default();
    for _ in 0..3000 {
        let one = strategy.new_tree(&mut runner).unwrap().current();
        for edits in step(&catalog, &mut model, &one) {
            let expect: Vec<Expect> = edits.iter().filter_map(|edit| expectation(&catalog, edit)).collect();
            let change = Change { expect, edits };
            catalog.commit(change.clone()).unwrap();
            for _ in 1..times {
                let is_refused = matches!(catalog.commit(change.clone()), Err(Error::Conflict { .. }));
                assert_eq!(is_refused, !change.expect.is_empty(), "after {one:?}");
            }
        }
        check(&catalog, &model, &one);
    }
    let again = open(dir.path(), "again");
    again.replay(&Voids::new(), |_, _, _| {}).unwrap();
    assert!(again.dump().unwrap() == catalog.dump().unwrap());
    for key in model.files.keys() {
        catalog.commit(Edit::Remove { key: key.clone() }.into()).unwrap();
    }
    let mut left = Vec::new();
    catalog.each_shared_frame(|name, frame| left.push((name, frame))).unwrap();
    assert_eq!(left, []);
    let live = (0..TARGET_COUNT).flat_map(|target| catalog.segments(target).unwrap());
    assert_eq!(live.map(|(_, live)| live.frames).sum::<u64>(), 0);
}
