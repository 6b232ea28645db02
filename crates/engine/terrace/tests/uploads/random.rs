//! Random sequences of uploads beside maps of bytes.

use std::collections::BTreeMap;

use crate::common::{check_and_rebuild, in_memory, live, new_store, shared_frames};
use crate::{all_parts, bytes_of, left, put_part};
use terrace::{Store, UploadId};
use terrace_testkit::noise;

/// The bytes of parts, by number.
type Parts = BTreeMap<u32, Vec<u8>>;

/// The slow, obvious store.
#[derive(Default)]
struct Model {
    objects: BTreeMap<Vec<u8>, Vec<u8>>,
    uploads: BTreeMap<UploadId, (Vec<u8>, Parts)>,
}

impl Model {
    fn check(&self, store: &Store, step: u64) {
        let objects = store.list(b"k", None, 100).unwrap().into_iter();
        let objects: BTreeMap<_, _> = objects.map(|(key, _)| (key.clone(), store.get(&key).unwrap())).collect();
        assert!(objects == self.objects, "step {step}");
        let uploads = store.list_uploads(b"").unwrap().into_iter().map(|upload| {
            let parts = store.list_parts(upload.id, None, 100).unwrap().into_iter();
            let parts: Parts = parts.map(|part| (part.number, bytes_of(store, upload.id, part.number))).collect();
            (upload.id, (upload.key, parts))
        });
        assert!(uploads.collect::<BTreeMap<_, _>>() == self.uploads, "step {step}");
        assert_eq!(left(store), self.uploads.values().map(|(_, parts)| 1 + parts.len()).sum::<usize>(), "step {step}");
        assert_eq!(store.catalog().miscounted_frames().unwrap(), [], "step {step}");
        assert_eq!(store.catalog().staged().unwrap(), [], "step {step}");
    }
}

/// Random sequences, beside maps of bytes.
#[test]
fn random_uploads_are_as_those_of_a_map() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = new_store(dir.path());
    let mut model = Model::default();
    let mut random = terrace_testkit::Random::new(7);
    let lengths = [0, 100, 3000, 80_000, 1_300_000];
    for step in 0..500 {
        let mut key = || format!("k/{}", random.below(3)).into_bytes();
        let (key, other) = (key(), key());
        let bytes = noise(lengths[random.below(5) as usize], step);
        let uploads: Vec<UploadId> = model.uploads.keys().copied().collect();
        let upload = uploads.get(random.below(4) as usize).copied();
        match (random.below(14), upload) {
            (0 | 1, _) if uploads.len() < 4 => {
                let id = store.begin_upload(&key, &in_memory(), None).unwrap();
                model.uploads.insert(id, (key, BTreeMap::new()));
            }
            (2..=5, Some(id)) => {
                let number = random.below(4) as u32;
                put_part(&store, id, number, &bytes, &in_memory()).unwrap();
                model.uploads.get_mut(&id).unwrap().1.insert(number, bytes);
            }
            (6 | 7, Some(id)) => {
                let mut parts = all_parts(&store, id);
                let left_out = random.below(10) as u32;
                parts.retain(|(number, _)| *number != left_out);
                store.complete_upload(id, &parts, &in_memory(), |_| ()).unwrap();
                let (key, all) = model.uploads.remove(&id).unwrap();
                let whole = all.into_iter().filter(|(number, _)| *number != left_out).flat_map(|(_, bytes)| bytes);
                model.objects.insert(key, whole.collect());
            }
            (8, Some(id)) if random.once_in(2) => {
                store.abort_upload(id).unwrap();
                model.uploads.remove(&id);
            }
            (9, _) => {
                let at = random.below(100_000) as usize;
                store.write_at(&key, at as u64, &bytes, &in_memory()).unwrap();
                let file = model.objects.entry(key).or_default();
                if !bytes.is_empty() {
                    file.resize(file.len().max(at + bytes.len()), 0);
                    file[at..at + bytes.len()].copy_from_slice(&bytes);
                }
            }
            (10, _) => {
                if let Some(bytes) = model.objects.get(&key).cloned() {
                    store.copy(&key, &other).unwrap();
                    model.objects.insert(other, bytes);
                }
            }
            (11, _) if model.objects.remove(&key).is_some() => store.remove(&key).unwrap(),
            (12, _) => drop(store.evict(b"", "ram").unwrap()),
            (13, _) => store.compact().unwrap(),
            _ => {}
        }
        if step % 60 == 59 {
            store = check_and_rebuild(store, dir.path());
        }
        model.check(&store, step);
    }
    model.objects.keys().for_each(|key| store.remove(key).unwrap());
    model.uploads.keys().for_each(|id| store.abort_upload(*id).unwrap());
    assert_eq!((shared_frames(&store), live(&store), left(&store)), (0, 0, 0));
}
