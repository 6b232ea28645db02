//! Reads over overwrites and deletes: what is open stays readable, and costs nothing once it is closed.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::{new_store, replicated};
use terrace::{Handle, PutOptions, Store};
use terrace_testkit::noise;

fn all(handle: &Handle) -> Vec<u8> {
    let mut bytes = vec![0; handle.object().length as usize];
    assert_eq!(handle.read_at(0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// Gives back all that may be.
fn reap(store: &Store) {
    store.sync().unwrap();
    store.reap_now().unwrap();
}

fn used(store: &Store) -> u64 {
    store.status().unwrap().tiers.iter().map(|tier| tier.used).sum()
}

/// A change of the object `k`, by name.
type Fate = (&'static str, fn(&Store));

#[test]
fn a_handle_reads_what_was_whatever_becomes_of_the_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let old = noise(3_000_000, 1);
    let becomes: [Fate; 7] = [
        ("overwritten", |s| drop(s.put_bytes(b"k", b"new", &replicated()).unwrap())),
        ("deleted", |s| s.remove(b"k").unwrap()),
        ("renamed", |s| s.rename(b"k", b"l").unwrap()),
        ("replaced by another", |s| {
            s.put_bytes(b"m", b"other", &replicated()).unwrap();
            s.rename(b"m", b"k").unwrap();
        }),
        ("changed in the middle", |s| drop(s.write_at(b"k", 500_000, &[7; 2_000_000], &replicated()).unwrap())),
        ("cut", |s| s.set_length(b"k", 10).unwrap()),
        ("moved", |s| {
            s.evict(b"k", "ram").unwrap();
            s.evict(b"k", "disk").unwrap();
        }),
    ];
    for (what, becomes) in becomes {
        store.put_bytes(b"k", &old, &replicated()).unwrap();
        reap(&store);
        let handle = store.handle(b"k").unwrap();
        becomes(&store);
        reap(&store);
        store.compact().unwrap();
        reap(&store);
        assert!(all(&handle) == old, "{what}");
        // Others meet what is there now.
        assert!(what == "deleted" || what == "renamed" || store.get(b"k").is_ok(), "{what}");
        drop(handle);
        for (key, _) in store.list(b"", None, 10).unwrap() {
            store.remove(&key).unwrap();
        }
        reap(&store);
        // Parts of pages stay, on either disk.
        assert!(used(&store) < 300_000, "{what}: {} bytes are not given back", used(&store));
    }
}

#[test]
fn a_long_read_ends_with_the_old_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let old = noise(12_000_000, 2);
    store.put_bytes(b"k", &old, &replicated()).unwrap();
    struct Slow(Store, Vec<u8>);
    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            match self.1.len() {
                // Overwritten before the read is a long one, and before anything may be given back.
                0 => {
                    self.0.put_bytes(b"k", b"short", &replicated()).unwrap();
                    self.0.sync().unwrap();
                    std::thread::sleep(Duration::from_millis(1100));
                }
                // By now it is pinned.
                _ => reap(&self.0),
            }
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut sink = Slow(store.clone(), Vec::new());
    assert_eq!(store.get_to(b"k", 0, None, &mut sink).unwrap(), old.len() as u64);
    assert!(sink.1 == old);
    reap(&store);
    assert!(used(&store) < 100_000, "{} bytes are not given back", used(&store));
    assert_eq!(store.get(b"k").unwrap(), b"short");
}

/// Writes a lot, and dies before the commit, when it is told to by its fail point.
#[test]
fn writer_that_dies() {
    let Ok(dir) = std::env::var("TEST_WRITER") else { return };
    let store = Store::open(&Path::new(&dir).join("store")).unwrap();
    store.put_bytes(b"kept", &noise(100_000, 8), &replicated()).unwrap();
    store.sync().unwrap();
    let _ = store.put_bytes(b"never", &noise(20_000_000, 7), &PutOptions::default());
}

#[test]
fn what_a_killed_writer_left_in_a_segment_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    drop(new_store(dir.path()));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "writer_that_dies", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TEST_WRITER", dir.path()).env("TERRACE_FAIL_POINT", "put:written@2");
    assert!(!command.status().unwrap().success());
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert!(store.get(b"kept").unwrap() == noise(100_000, 8));
    assert!(used(&store) < 1_000_000, "{} bytes are not given back", used(&store));
    assert_eq!(store.scrub(b"", false, None, |_| {}).unwrap().bad, 0);
}

/// Runs [`child`] in a process of its own.
fn spawn(dir: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).stdout(Stdio::null());
    command.env("TEST_DIR", dir).spawn().unwrap()
}

fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Opens an object, and reads it when it is told to; then it waits to be killed.
#[test]
fn child() {
    let Ok(dir) = std::env::var("TEST_DIR") else { return };
    let dir = Path::new(&dir);
    let store = Store::open(&dir.join("store")).unwrap();
    let handle = store.handle(b"k").unwrap();
    fs::write(dir.join("opened"), "").unwrap();
    wait_for(&dir.join("read"));
    fs::write(dir.join("part"), all(&handle)).unwrap();
    fs::rename(dir.join("part"), dir.join("found")).unwrap();
    wait_for(&dir.join("never"));
}

#[test]
fn a_handle_of_another_process_pins_until_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let old = noise(3_000_000, 3);
    store.put_bytes(b"k", &old, &replicated()).unwrap();
    let mut holder = spawn(dir.path());
    wait_for(&dir.path().join("opened"));
    store.remove(b"k").unwrap();
    store.put_bytes(b"other", &noise(100, 4), &PutOptions::default()).unwrap();
    reap(&store);
    assert!(used(&store) > old.len() as u64);
    fs::write(dir.path().join("read"), "").unwrap();
    wait_for(&dir.path().join("found"));
    assert!(fs::read(dir.path().join("found")).unwrap() == old);
    holder.kill().unwrap();
    holder.wait().unwrap();
    reap(&store);
    assert!(used(&store) < 100_000, "{} bytes are not given back", used(&store));
    assert_eq!(fs::read_dir(store.dir().join("leases")).unwrap().count(), 0);
    // A lease is in no log and no snapshot.
    let handle = store.handle(b"other").unwrap();
    let before = store.catalog().dump().unwrap();
    let home = store.dir().to_owned();
    drop((handle, store));
    let store = Store::rebuild(&home).unwrap();
    assert!(store.catalog().dump().unwrap() == before);
}

#[test]
fn what_died_with_its_process_pins_nothing_after_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    store.put_bytes(b"k", &noise(3_000_000, 5), &replicated()).unwrap();
    let mut holder = spawn(dir.path());
    wait_for(&dir.path().join("opened"));
    store.remove(b"k").unwrap();
    store.sync().unwrap();
    holder.kill().unwrap();
    holder.wait().unwrap();
    let home = store.dir().to_owned();
    drop(store);
    let store = Store::rebuild(&home).unwrap();
    reap(&store);
    assert!(used(&store) < 100_000, "{} bytes are not given back", used(&store));
}
