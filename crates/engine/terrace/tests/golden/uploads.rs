//! Uploads of several parts.

use std::fs;
use std::path::Path;

use terrace::{Config, PutOptions, Store};
use terrace_testkit::golden::pack;

use crate::common::replicated;
use crate::{Golden, golden, repeated, tiers_config, unlike};

/// The object of the completed upload, and the parts of the one that is in progress.
fn upload_contents() -> (Vec<u8>, [(u32, Vec<u8>); 2]) {
    let whole = [repeated(1_300_007, 1), repeated(5, 2), repeated(700_000, 3)].concat();
    (whole, [(1, repeated(1_100_000, 4)), (10_000, repeated(9, 5))])
}

fn write_uploads(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    let put = |upload, number, bytes: &[u8]| {
        let describe = |attributes: &mut terrace::Attributes| attributes.set_digest("crc32c", "of the part");
        let part = store.put_part(upload, number, bytes, &replicated(), describe).unwrap();
        (part.number, part.object.etag())
    };
    let completed = store.begin_upload(b"whole", &PutOptions::default(), None).unwrap();
    let parts = [(1, 1_300_007, 1), (2, 5, 2), (7, 700_000, 3)];
    let parts = parts.map(|(number, length, seed)| put(completed, number, &repeated(length, seed)));
    store.complete_upload(completed, &parts, &replicated(), |all| all.set_digest("etag", "of the whole-3")).unwrap();
    let options = PutOptions { replicas: Some(1), ..PutOptions::default() };
    let begun = store.begin_upload(b"a\xff/b", &options, Some(u64::MAX)).unwrap();
    for (number, bytes) in upload_contents().1 {
        put(begun, number, &bytes);
    }
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn uploads_of_a_golden_store_are_completed() {
    let Golden { dir, store } = golden("uploads", tiers_config, write_uploads);
    let (whole, parts) = upload_contents();
    let read = |store: &Store| {
        assert!(store.get(b"whole").unwrap() == whole);
        assert_eq!(store.stat(b"whole").unwrap().etag(), "of the whole-3");
        let uploads = store.list_uploads(b"").unwrap();
        assert_eq!(uploads.iter().map(|upload| upload.key.as_slice()).collect::<Vec<_>>(), [b"a\xff/b"]);
        assert_eq!(uploads[0].expiry, Some(u64::MAX));
        let found = store.list_parts(uploads[0].id, None, 10).unwrap();
        assert_eq!(
            found.iter().map(|part| part.number).collect::<Vec<_>>(),
            parts.each_ref().map(|(number, _)| *number)
        );
        assert!(found.iter().all(|part| part.object.attributes.digest("crc32c") == Some("of the part")));
        (uploads[0].id, found.iter().map(|part| (part.number, part.object.etag())).collect::<Vec<_>>())
    };
    let (upload, named) = read(&store);
    assert_eq!(store.catalog().miscounted_frames().unwrap(), []);
    unlike(&store);
    store.close().unwrap();
    let home = dir.path().join("store");
    fs::remove_dir_all(home.join("catalog")).unwrap();
    let store = Store::rebuild(&home).unwrap();
    assert_eq!(read(&store), (upload, named.clone()));
    let object = store.complete_upload(upload, &named, &replicated(), |_| ()).unwrap();
    assert_eq!(object.want, 1);
    assert!(store.get(b"a\xff/b").unwrap() == parts.map(|(_, bytes)| bytes).concat());
}
