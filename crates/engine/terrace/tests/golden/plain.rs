//! Plain files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use terrace::{Config, Store};
use terrace_testkit::golden::pack;
use terrace_testkit::noise;

use crate::common::{self, replicated};
use crate::{Golden, golden, objects, unlike};

pub fn config(dir: &Path) -> String {
    let pfs = common::tier(dir, "pfs", &["a", "b"], "layout = 'plain'");
    format!("[store]\nreplicas = {{ default = 2 }}\n{}{pfs}", common::tier(dir, "ram", &["ram"], "persistent = false"))
}

pub fn contents() -> BTreeMap<String, Vec<u8>> {
    let mut holes = vec![0; 300_000];
    holes[..1000].copy_from_slice(&noise(1000, 3));
    holes[299_000..].copy_from_slice(&noise(1000, 4));
    let all = [("runs/1/a", noise(5000, 1)), ("runs/1/moved", noise(2000, 2)), ("holes", holes), ("empty", Vec::new())];
    all.into_iter().map(|(key, bytes)| (key.to_owned(), bytes)).collect()
}

fn write_plain(dir: &Path, config: Config, archive: &Path) {
    let store = Store::init(&dir.join("store"), &config).unwrap();
    let all = contents();
    store.put_bytes(b"runs/1/a", b"an older version", &replicated()).unwrap();
    store.put_bytes(b"runs/1/a", &all["runs/1/a"], &replicated()).unwrap();
    store.put_bytes(b"before", &all["runs/1/moved"], &replicated()).unwrap();
    store.rename(b"before", b"runs/1/moved").unwrap();
    store.put_bytes(b"gone", &noise(700, 5), &replicated()).unwrap();
    store.remove(b"gone").unwrap();
    store.put_bytes(b"empty", b"", &replicated()).unwrap();
    store.put_bytes(b"holes", &all["holes"][..1000], &replicated()).unwrap();
    store.write_at(b"holes", 299_000, &all["holes"][299_000..], &replicated()).unwrap();
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn plain_files_of_a_golden_store_are_its_objects() {
    let Golden { dir, store } = golden("plain", config, write_plain);
    assert!(objects(&store) == contents(), "{:?}", objects(&store).keys());
    unlike(&store);
    // The first process after a restart of the machine has compared all names.
    let mut files = 0;
    for (key, bytes) in contents() {
        for target in ["a", "b"] {
            if let Ok(found) = fs::read(dir.path().join(target).join("files").join(&key)) {
                assert!(found == bytes, "{key} on {target}");
                files += 1;
            }
        }
    }
    assert!(files >= 3, "{files} plain files");
    assert!(!dir.path().join("a/files/gone").exists() && !dir.path().join("b/files/before").exists());
}
