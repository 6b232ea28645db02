//! A store with a directory tier and an object tier, as a user sees it.
#![cfg(all(feature = "services-fs", feature = "services-redis"))]
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use terrace::report::{RemainState, TierState};
use terrace::{Ack, Config, PutOptions, Store};
use terrace_testkit::{Redis, noise, wait_until};

/// A directory tier, and an object tier below it with these lines of configuration.
fn config(dir: &Path, object: &str) -> Config {
    let text = format!(
        "[store]\nreplicas = {{ min = 1, max = 5, default = 2 }}\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']\n\
         [[tier]]\nname = 'bucket'\nkind = 'object'\ntimeout = '1s'\n{object}\n",
        dir.display()
    );
    Config::parse(&text, "test").unwrap()
}

fn on_fs(dir: &Path) -> Config {
    config(dir, &format!("service = 'fs'\ntargets = ['{}/bucket']", dir.display()))
}

fn on_redis(dir: &Path, redis: &Redis) -> Config {
    let endpoint = redis.endpoint();
    config(dir, &format!("service = 'redis'\ntargets = ['/runs']\noptions = {{ endpoint = '{endpoint}', db = 1 }}"))
}

fn replicated() -> PutOptions {
    PutOptions { ack: Some(Ack::Replicated), ..PutOptions::default() }
}

/// A bucket that was emptied while the store was open was told of when a blob was not found there: `status` called it ok, and
/// `sync` called all durable, as only who opens a store looked at its marker. All tests opened the store again.
#[test]
fn a_bucket_that_is_emptied_while_the_store_is_open_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(&dir.path().join("store"), &on_fs(dir.path())).unwrap();
    store.put_bytes(b"k", &noise(70_000, 1), &replicated()).unwrap();
    store.sync().unwrap();
    let (bucket, elsewhere) = (dir.path().join("bucket"), dir.path().join("elsewhere"));
    fs::rename(&bucket, &elsewhere).unwrap();
    fs::create_dir(&bucket).unwrap();
    assert_eq!(store.status().unwrap().tiers[1].state, TierState::Away);
    let error = store.sync().unwrap_err().to_string();
    assert!(error.contains("not the target that it was") && error.contains("terrace tiers renew"), "{error}");
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.away, found.bad, found.lost), (1, 1, 0, 0));
    fs::remove_dir(&bucket).and_then(|()| fs::rename(&elsewhere, &bucket)).unwrap();
    store.sync().unwrap();
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

/// Destroys a store with two objects on two tiers. Its blobs are named by its ledger where a service cannot list them.
fn is_destroyed(dir: &Path, config: &Config) {
    let home = dir.join("store");
    let store = Store::init(&home, config).unwrap();
    for n in 0..2 {
        store.put_bytes(&[b'k', b'0' + n], &noise(70_000, n.into()), &replicated()).unwrap();
    }
    store.close().unwrap();
    let refused = Store::destroy(&home, false).map(drop).unwrap_err().to_string();
    assert!(refused.contains("2 objects") && refused.contains("--force"), "{refused}");
    let remains = Store::destroy(&home, true).unwrap();
    assert_eq!((remains.objects, remains.kept.len()), (Some(2), 0));
    assert!(remains.targets.iter().all(|target| target.state == RemainState::Present && target.used > 140_000));
    assert!(!home.exists() && !dir.join("disk").exists());
    // Nothing tells of a target there any more.
    drop(Store::init(&home, config).unwrap());
    assert!(Store::destroy(&home, false).is_ok());
}

#[test]
fn a_store_is_destroyed_with_its_blobs_and_without_those_of_others() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("bucket")).unwrap();
    fs::write(dir.path().join("bucket/foreign"), "foreign").unwrap();
    is_destroyed(dir.path(), &on_fs(dir.path()));
    assert_eq!(walk(&dir.path().join("bucket")).len(), 1, "{:?}", walk(&dir.path().join("bucket")));
    let (dir, redis) = (tempfile::tempdir().unwrap(), Redis::start());
    if let Some(redis) = redis {
        is_destroyed(dir.path(), &on_redis(dir.path(), &redis));
    }
}

/// The first replicas are on the directory tier: empties it, as somebody might who needs the space.
fn lose_the_directory(dir: &Path) {
    for entry in fs::read_dir(dir.join("disk/segments")).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
}

fn what_a_store_promises_holds(dir: &Path, config: &Config) {
    let store = Store::init(&dir.join("store"), config).unwrap();
    let objects: Vec<(String, Vec<u8>)> =
        [1, 70_000, 3_000_001].iter().map(|&n| (format!("o/{n}"), noise(n, n as u64))).collect();
    for (key, bytes) in &objects {
        store.put_bytes(key.as_bytes(), bytes, &replicated()).unwrap();
        for extent in store.locate(key.as_bytes()).unwrap().extents {
            assert_eq!(extent.replicas.iter().map(|r| r.tier.as_str()).collect::<Vec<_>>(), ["disk", "bucket"]);
        }
    }
    let used = store.status().unwrap().tiers[1].used;
    assert!(used > 3_000_000, "{used} used");
    store.sync().unwrap();
    drop(store);

    lose_the_directory(dir);
    let store = Store::open(&dir.join("store")).unwrap();
    for (key, bytes) in &objects {
        assert!(store.get(key.as_bytes()).unwrap() == *bytes, "{key} from the service");
        let mut part = vec![0; 10];
        let read = store.read_at(key.as_bytes(), bytes.len() as u64 / 2, &mut part).unwrap();
        assert_eq!(part[..read], bytes[bytes.len() / 2..][..read]);
    }
    store.repair_suspects().unwrap();
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.bad, found.lost), (10, 0, 0), "repaired");

    store.remove(b"o/3000001").unwrap();
    store.sync().unwrap();
    store.reap_now().unwrap();
    let left = store.status().unwrap().tiers[1].used;
    assert!(left < used - 2_900_000, "{left} of {used} bytes are left");
    store.close().unwrap();

    let store = Store::rebuild(&dir.join("store")).unwrap();
    for (key, bytes) in &objects[..2] {
        assert!(store.get(key.as_bytes()).unwrap() == *bytes, "{key} after the rebuild");
    }
    let found = store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((found.checked, found.bad, found.lost), (4, 0, 0));
    store.put_bytes(b"new", b"bytes", &replicated()).unwrap();
    assert_eq!(store.get(b"new").unwrap(), b"bytes");
    store.close().unwrap();
}

#[test]
fn over_files() {
    let dir = tempfile::tempdir().unwrap();
    what_a_store_promises_holds(dir.path(), &on_fs(dir.path()));
    // One for each frame that is left, besides the marker.
    let blobs = walk(&dir.path().join("bucket"));
    assert_eq!(blobs.iter().filter(|name| name.contains("segments/")).count(), 3, "{blobs:?}");
    assert!(blobs.iter().any(|name| name.ends_with("terrace-target")), "{blobs:?}");
}

fn walk(folder: &Path) -> Vec<String> {
    let below = |path: &Path| if path.is_dir() { walk(path) } else { vec![path.display().to_string()] };
    fs::read_dir(folder).unwrap().flat_map(|entry| below(&entry.unwrap().path())).collect()
}

#[test]
fn over_redis() {
    let Some(redis) = Redis::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    what_a_store_promises_holds(dir.path(), &on_redis(dir.path(), &redis));
}

#[test]
fn a_service_that_goes_away_is_set_aside_and_gets_what_it_is_owed_when_it_is_back() {
    let Some(mut redis) = Redis::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(&dir.path().join("store"), &on_redis(dir.path(), &redis)).unwrap();
    let (before, during) = (noise(2_000_000, 1), noise(2_000_000, 2));
    store.put_bytes(b"before", &before, &replicated()).unwrap();
    redis.kill();
    let receipt = store.put_bytes(b"during", &during, &PutOptions::default()).unwrap();
    assert!(receipt.owed > 0);
    wait_until("the target is set aside", || store.status().unwrap().tiers[1].state == TierState::Away);
    assert!(store.get(b"before").unwrap() == before && store.get(b"during").unwrap() == during);
    assert!(store.status().unwrap().owed > 0);
    drop(store);
    // The store opens without it, and goes on to use it when it is there again.
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!(store.get(b"during").unwrap() == during);
    redis.start_again();
    store.sync().unwrap();
    assert_eq!(store.status().unwrap().owed, 0);
    lose_the_directory(dir.path());
    assert!(store.get(b"before").unwrap() == before && store.get(b"during").unwrap() == during);
    store.close().unwrap();
}

#[test]
fn a_store_is_not_made_where_its_service_cannot_be_reached_or_is_another_stores() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere =
        format!("service = 'redis'\noptions = {{ endpoint = 'unix://localhost{}/none' }}", dir.path().display());
    let error = Store::init(&dir.path().join("store"), &config(dir.path(), &nowhere)).err().unwrap().to_string();
    assert!(error.contains("\"bucket\"") && error.contains("redis:/"), "{error}");
    Store::init(&dir.path().join("store"), &on_fs(dir.path())).unwrap();
    let error = Store::init(&dir.path().join("second"), &on_fs(dir.path())).err().unwrap().to_string();
    assert!(error.contains("belongs to another store"), "{error}");
    assert!(!dir.path().join("second/store").exists(), "nothing is left of it");
}
