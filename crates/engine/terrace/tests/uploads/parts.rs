//! Uploads in one process: their parts become an object or nothing.

use std::fs;

use crate::common::{
    check_and_rebuild, hold_mover, in_memory, live, new_store, replicated, shared_frames, store_of, tier, used,
};
use crate::{all_parts, complete, left, named, put_part};
use terrace::{Attributes, Config, ETAG_DIGEST, Error, Kind, PutOptions, Store, UploadId};
use terrace_testkit::noise;

#[test]
fn parts_become_an_object_without_moving_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let mut attributes = Attributes::now();
    attributes.user.insert("unit".to_owned(), "K".to_owned());
    attributes.set_expiry(Some(u64::MAX));
    let options = PutOptions { attributes: Some(attributes), ..replicated() };
    store.put_bytes(b"folder/a", b"what was there before", &replicated()).unwrap();
    let replaced = live(&store);
    let upload = store.begin_upload(b"folder/a", &options, None).unwrap();
    // Parts end in the middle of extents, and one is empty. They come in any order, and numbers are left out.
    let parts = [(10_000, 700_001), (2, 1_300_007), (90, 0), (3, 5), (91, 2_500_000)];
    for (number, length) in parts {
        put_part(&store, upload, number, &noise(length, number.into()), &replicated()).unwrap();
    }
    store.sync().unwrap();
    let mut sorted = parts;
    sorted.sort_unstable();
    let wanted: Vec<u8> = sorted.iter().flat_map(|(number, length)| noise(*length, (*number).into())).collect();
    let listed = store.list_parts(upload, None, 100).unwrap();
    let lengths: Vec<_> = listed.iter().map(|part| (part.number, part.object.length as usize)).collect();
    assert_eq!(lengths, sorted);
    let page = store.list_parts(upload, Some(3), 2).unwrap();
    assert_eq!(page, listed[2..4]);
    assert_eq!(store.upload(upload).unwrap().key, b"folder/a");
    assert_eq!(store.get(b"folder/a").unwrap(), b"what was there before");
    assert_eq!(store.status().unwrap().objects, 1, "parts are not the user's objects");

    let (bytes, frames) = (used(&store), live(&store));
    let digest = |attributes: &mut Attributes| attributes.set_digest(ETAG_DIGEST, "of the whole-5");
    let object = store.complete_upload(upload, &all_parts(&store, upload), &replicated(), digest).unwrap();
    assert_eq!((used(&store), live(&store)), (bytes, frames - replaced), "no bytes were written");
    assert_eq!((object.etag(), object.length), ("of the whole-5".to_owned(), wanted.len() as u64));
    let found = store.stat(b"folder/a").unwrap();
    assert_eq!((found.id, found.generation, &found.attributes), (object.id, object.generation, &object.attributes));
    assert_eq!((found.attributes.user.get("unit").unwrap().as_str(), found.attributes.kind), ("K", Kind::File));
    assert_eq!(found.attributes.expiry(), Some(u64::MAX));
    assert_eq!(left(&store), 0);
    let read = |store: &Store| {
        assert!(store.get(b"folder/a").unwrap() == wanted);
        for start in [0, 1_300_000, 1_300_007, 1_300_010, 1_300_012, 3_800_000, 3_800_012, wanted.len() - 1] {
            let mut out = vec![0; 100.min(wanted.len() - start)];
            store.read_at(b"folder/a", start as u64, &mut out).unwrap();
            assert!(out == wanted[start..start + out.len()], "{start}");
        }
    };
    read(&store);
    let store = check_and_rebuild(store, dir.path());
    read(&store);
    assert_eq!(store.catalog().expired(u64::MAX, 10).unwrap().len(), 1, "the object's time is kept");

    // It is an object as any other.
    store.copy(b"folder/a", b"copy").unwrap();
    store.write_at(b"folder/a", 1_300_000, b"other bytes", &replicated()).unwrap();
    store.evict(b"", "ram").unwrap();
    store.compact().unwrap();
    let mut changed = wanted.clone();
    changed[1_300_000..1_300_011].copy_from_slice(b"other bytes");
    assert!(store.get(b"folder/a").unwrap() == changed && store.get(b"copy").unwrap() == wanted);
    store.set_length(b"copy", 1_300_009).unwrap();
    let store = check_and_rebuild(store, dir.path());
    assert!(store.get(b"folder/a").unwrap() == changed && store.get(b"copy").unwrap() == wanted[..1_300_009]);
    store.remove(b"folder/a").unwrap();
    store.remove(b"copy").unwrap();
    store.sync().unwrap();
    assert_eq!((shared_frames(&store), live(&store)), (0, 0));
    store.reap_now().unwrap();
    assert!(used(&store) < bytes / 10, "{}", used(&store));
}

#[test]
fn an_upload_ends_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let is_gone = |result: terrace::Result<()>| matches!(result, Err(Error::NoUpload { .. }));
    let ended = |upload: UploadId| {
        assert!(is_gone(put_part(&store, upload, 1, b"late", &replicated()).map(drop)));
        assert!(is_gone(store.complete_upload(upload, &[], &replicated(), |_| ()).map(drop)));
        assert!(is_gone(store.abort_upload(upload)));
        assert!(is_gone(store.list_parts(upload, None, 10).map(drop)));
        assert!(is_gone(store.upload(upload).map(drop)));
        assert_eq!((left(&store), store.list_uploads(b"").unwrap()), (0, Vec::new()));
    };
    let completed = store.begin_upload(b"a", &replicated(), None).unwrap();
    put_part(&store, completed, 1, b"one", &replicated()).unwrap();
    complete(&store, completed).unwrap();
    ended(completed);
    let aborted = store.begin_upload(b"a", &replicated(), None).unwrap();
    put_part(&store, aborted, 1, &noise(100_000, 1), &replicated()).unwrap();
    store.abort_upload(aborted).unwrap();
    ended(aborted);
    assert_eq!(store.get(b"a").unwrap(), b"one");
    // The source of this part ends the upload while it is read.
    let ending = store.begin_upload(b"a", &replicated(), None).unwrap();
    struct Ending<'a>(&'a Store, UploadId, bool);
    impl std::io::Read for Ending<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if std::mem::replace(&mut self.2, true) {
                return Ok(0);
            }
            self.0.abort_upload(self.1).unwrap();
            out[..3].copy_from_slice(b"abc");
            Ok(3)
        }
    }
    assert!(is_gone(store.put_part(ending, 1, Ending(&store, ending, false), &replicated(), |_| ()).map(drop)));
    ended(ending);
    assert_eq!(live(&store), 2);
    assert!(completed.to_string().parse::<UploadId>().unwrap() == completed);
    for text in ["", "1", "000000000000000G", "+000000000000001", "00000000000000001"] {
        assert!(matches!(text.parse::<UploadId>(), Err(Error::NoUpload { .. })), "{text:?}");
    }
    check_and_rebuild(store, dir.path());
}

#[test]
fn what_cannot_be_completed_leaves_the_upload_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    assert!(matches!(store.begin_upload(b"a//b", &replicated(), None), Err(Error::BadKey { .. })));
    assert!(matches!(store.begin_upload(b".terrace/a", &replicated(), None), Err(Error::Reserved { .. })));
    let none = PutOptions { replicas: Some(0), ..replicated() };
    assert!(matches!(store.begin_upload(b"a", &none, None), Err(Error::Config(_))));
    store.put_bytes(b"file", b"in the way", &replicated()).unwrap();
    let upload = store.begin_upload(b"file/a", &replicated(), None).unwrap();
    let first = named(&put_part(&store, upload, 1, b"first", &replicated()).unwrap());
    let old = named(&put_part(&store, upload, 2, b"old", &replicated()).unwrap());
    let new = named(&put_part(&store, upload, 2, b"new", &replicated()).unwrap());
    let bad = |parts: &[(u32, String)], number: u32, says: &str| {
        let error = store.complete_upload(upload, parts, &replicated(), |_| ()).unwrap_err();
        assert!(matches!(&error, Error::BadPart { number: of, .. } if *of == number), "{error}");
        assert!(error.to_string().contains(says), "{error}");
    };
    bad(&[first.clone(), old], 2, "put again");
    bad(&[new.clone(), first.clone()], 1, "in order");
    bad(&[first.clone(), first.clone()], 1, "in order");
    bad(&[first.clone(), new.clone(), (3, "x".to_owned())], 3, "not there");
    let parts = [first, new];
    let complete = |options: &PutOptions| store.complete_upload(upload, &parts, options, |_| ()).map(drop);
    assert!(matches!(complete(&replicated()), Err(Error::Conflict { .. })), "a file is above its key");
    assert_eq!((left(&store), all_parts(&store, upload)), (3, parts.to_vec()));
    store.rename(b"file", b"elsewhere").unwrap();
    store.put_bytes(b"file/a", b"first to come", &replicated()).unwrap();
    let create = PutOptions { create_new: true, ..replicated() };
    assert!(matches!(complete(&create), Err(Error::Conflict { .. })), "something is at its key");
    assert_eq!((left(&store), store.get(b"file/a").unwrap()), (3, b"first to come".to_vec()));
    store.remove(b"file/a").unwrap();
    complete(&create).unwrap();
    assert_eq!((left(&store), store.get(b"file/a").unwrap()), (0, b"firstnew".to_vec()));
    let empty = store.begin_upload(b"empty", &replicated(), None).unwrap();
    put_part(&store, empty, 1, b"left out", &replicated()).unwrap();
    store.complete_upload(empty, &[], &replicated(), |_| ()).unwrap();
    assert_eq!((left(&store), store.get(b"empty").unwrap()), (0, Vec::new()));
    check_and_rebuild(store, dir.path());
}

#[test]
fn uploads_are_listed_by_their_keys() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let begin = |key: &[u8]| store.begin_upload(key, &replicated(), None).unwrap();
    let (c, a, odd, again) = (begin(b"c"), begin(b"a/b"), begin(b"a\xff\n\"="), begin(b"a/b"));
    put_part(&store, a, 1, b"one", &replicated()).unwrap();
    let listed =
        |prefix: &[u8]| store.list_uploads(prefix).unwrap().into_iter().map(|upload| upload.id).collect::<Vec<_>>();
    assert_eq!(listed(b""), [a, again, odd, c]);
    assert_eq!(listed(b"a/"), [a, again]);
    assert_eq!(listed(b"a"), [a, again, odd]);
    assert_eq!(store.upload(odd).unwrap().key, b"a\xff\n\"=");
    let many: Vec<UploadId> = (0..2500).map(|_| begin(b"many")).collect();
    assert_eq!(listed(b"many"), many);
}

/// Many extents are staged by several commits before the last one. Each part is an extent.
#[test]
fn an_upload_of_many_parts_becomes_visible_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[tier(dir.path(), "disk", &["a", "b"], "")]);
    let upload = store.begin_upload(b"a", &replicated(), None).unwrap();
    let part = |number: u32| noise(10 + number as usize % 90, number.into());
    for number in 1..=2500 {
        put_part(&store, upload, number, &part(number), &in_memory()).unwrap();
    }
    let wanted: Vec<u8> = (1..=2500).flat_map(part).collect();
    let frames = live(&store);
    complete(&store, upload).unwrap();
    assert_eq!((live(&store), left(&store), store.catalog().staged().unwrap()), (frames, 0, Vec::new()));
    assert!(store.get(b"a").unwrap() == wanted);
    let store = check_and_rebuild(store, dir.path());
    assert!(store.get(b"a").unwrap() == wanted);
    store.remove(b"a").unwrap();
    assert_eq!((shared_frames(&store), live(&store)), (0, 0));
}

#[test]
fn an_upload_expires_with_its_parts() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    // From here on nothing is removed in the background.
    let mover = hold_mover(dir.path());
    let stays = store.begin_upload(b"a", &replicated(), Some(u64::MAX)).unwrap();
    let upload = store.begin_upload(b"a", &in_memory(), Some(u64::MAX - 1)).unwrap();
    let mut parts = Vec::new();
    for number in [1, 2] {
        put_part(&store, stays, number, b"stays", &in_memory()).unwrap();
        parts.push(named(&put_part(&store, upload, number, &noise(5000, 1), &in_memory()).unwrap()));
    }
    let folder = format!(".terrace/uploads/{upload}");
    for (key, object) in store.list(folder.as_bytes(), None, 10).unwrap() {
        let mut attributes = object.attributes;
        assert_eq!(attributes.expiry(), Some(u64::MAX - 1));
        attributes.set_expiry(Some(1));
        store.internal().set_attributes(&key, attributes).unwrap();
    }
    assert!(matches!(store.complete_upload(upload, &parts, &in_memory(), |_| ()), Err(Error::NoUpload { .. })));
    assert!(matches!(put_part(&store, upload, 3, b"late", &in_memory()), Err(Error::NoUpload { .. })));
    assert_eq!(store.list_uploads(b"").unwrap().len(), 1);
    // One at a time: none holds up the others, and none is left.
    let expired = 1 + parts.len();
    for _ in 0..expired {
        assert_eq!(store.remove_expired(1).unwrap(), 1);
    }
    assert_eq!((store.remove_expired(1).unwrap(), left(&store)), (0, 3));
    drop(mover);
    complete(&store, stays).unwrap();
    assert_eq!(store.stat(b"a").unwrap().attributes.expiry(), None, "the time was that of the upload");
    assert_eq!(store.get(b"a").unwrap(), b"staysstays");
    check_and_rebuild(store, dir.path());
}

/// A plain file is one object's, so the bytes of parts are copied. The parts themselves are no files.
#[test]
fn an_upload_becomes_a_plain_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = dir.path().join("disk/files");
    let text =
        format!("[store]\nreplicas = {{ default = 1 }}\n{}", tier(dir.path(), "disk", &["disk"], "layout = 'plain'"));
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let upload = store.begin_upload(b"a", &replicated(), None).unwrap();
    let parts = [noise(1_500_000, 1), Vec::new(), noise(7, 2), noise(900_000, 3)];
    for (number, part) in (1..).zip(&parts) {
        put_part(&store, upload, number, part, &replicated()).unwrap();
    }
    store.sync().unwrap();
    assert!(!files.join(".terrace").exists());
    complete(&store, upload).unwrap();
    store.sync().unwrap();
    assert!(fs::read(files.join("a")).unwrap() == parts.concat());
    assert_eq!((left(&store), shared_frames(&store)), (0, 0));
    let store = check_and_rebuild(store, dir.path());
    assert!(store.get(b"a").unwrap() == parts.concat());
}

/// The rules for the key decide about its parts, not those for the folder of uploads.
#[test]
fn parts_are_stored_as_the_rules_for_the_key_say() {
    let dir = tempfile::tempdir().unwrap();
    let tiers = [tier(dir.path(), "fast", &["a"], ""), tier(dir.path(), "slow", &["b"], "")].concat();
    let rule = "[[rule]]\nprefix = 'bucket'\ntiers = ['slow']\nreplicas = 1\n";
    let config = Config::parse(&format!("[store]\nreplicas = {{ default = 2 }}\n{rule}{tiers}"), "test").unwrap();
    let store = Store::init(&dir.path().join("store"), &config).unwrap();
    let upload = store.begin_upload(b"bucket/a", &replicated(), None).unwrap();
    put_part(&store, upload, 1, &noise(100_000, 1), &replicated()).unwrap();
    let tiers_of = |key: &[u8]| {
        let extents = store.locate(key).unwrap().extents;
        extents.into_iter().flat_map(|extent| extent.replicas).map(|replica| replica.tier).collect::<Vec<_>>()
    };
    assert_eq!(tiers_of(format!(".terrace/uploads/{upload}/{:010}", 1).as_bytes()), ["slow"]);
    complete(&store, upload).unwrap();
    store.sync().unwrap();
    assert_eq!((tiers_of(b"bucket/a"), store.stat(b"bucket/a").unwrap().want), (vec!["slow".to_owned()], 1));
    // What is asked for with one upload holds for its parts and for the object.
    let options = PutOptions { replicas: Some(2), tiers: Some(vec!["fast".into(), "slow".into()]), ..replicated() };
    let upload = store.begin_upload(b"bucket/b", &options, None).unwrap();
    put_part(&store, upload, 1, &noise(100_000, 1), &replicated()).unwrap();
    complete(&store, upload).unwrap();
    store.sync().unwrap();
    assert_eq!((tiers_of(b"bucket/b"), store.stat(b"bucket/b").unwrap().want), (vec!["fast".into(), "slow".into()], 2));
    check_and_rebuild(store, dir.path());
}
