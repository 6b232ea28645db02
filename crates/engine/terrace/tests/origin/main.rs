//! Origins: directories and web servers whose files a store shows and reads. Each test compares what the store shows with what is there.

#![cfg(feature = "services-http")]
#![allow(clippy::unwrap_used, clippy::panic)]

mod ahead;
mod changes;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod directory;
mod eviction;
mod lru;
mod processes;
mod refusals;
mod web;
mod web_server;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{store_of, tier};
use terrace::Store;

/// A store, and a directory beside it that is its origin below `data/o`.
struct Place {
    folder: tempfile::TempDir,
    store: Store,
}

impl Place {
    /// Makes both, and asks for names again after `max_age`.
    fn new(max_age: Duration) -> Place {
        let place = Place::without_origin();
        place.add(max_age);
        place
    }

    /// Makes both. The origin has these files before it is added, and its names are asked for once.
    fn with_files(files: &[(&str, &[u8])]) -> Place {
        let place = Place::without_origin();
        files.iter().for_each(|(name, bytes)| place.write(name, bytes));
        place.add(ASK_ONCE);
        place
    }

    /// Makes both, and does not add the origin.
    fn without_origin() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        fs::create_dir(dir.join("origin")).unwrap();
        let store =
            store_of(dir, &[tier(dir, "ram", &["ram"], "persistent = false"), tier(dir, "disk", &["disk"], "")]);
        Place { store, folder }
    }

    fn add(&self, max_age: Duration) {
        let origin = self.origin();
        self.store.add_origin("data/o", origin.to_str().unwrap(), BTreeMap::new(), Some(max_age)).unwrap();
    }

    fn dir(&self) -> &Path {
        self.folder.path()
    }

    fn origin(&self) -> PathBuf {
        self.dir().join("origin")
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.origin().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn get(&self, name: &str) -> terrace::Result<Vec<u8>> {
        self.store.get(format!("data/o/{name}").as_bytes())
    }

    /// The keys of all files and links, without the prefix.
    fn names(&self) -> Vec<String> {
        names_below(&self.store, "data/o")
    }

    /// The bytes that the store has of the origin.
    fn cached(&self) -> u64 {
        self.store.origins().unwrap().iter().map(|origin| origin.cached).sum()
    }
}

/// The keys of all files and links at or below a prefix, without it.
fn names_below(store: &Store, prefix: &str) -> Vec<String> {
    let listed = store.list(prefix.as_bytes(), None, usize::MAX).unwrap();
    let files = listed.into_iter().filter(|(_, object)| object.attributes.kind != terrace::Kind::Directory);
    let name =
        |key: Vec<u8>| String::from_utf8_lossy(&key).strip_prefix(prefix).unwrap().trim_start_matches('/').to_owned();
    files.map(|(key, _)| name(key)).collect()
}

/// Names are asked for again each time.
const AT_ONCE: Duration = Duration::ZERO;
/// Names are asked for once.
const ASK_ONCE: Duration = Duration::from_secs(3600);
