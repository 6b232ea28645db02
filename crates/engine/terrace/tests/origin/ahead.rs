//! Bytes of files that are read in order are fetched ahead of their readers.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

use terrace::Store;
use terrace::files::Files;
use terrace_testkit::{Random, noise, wait_until};

use super::ASK_ONCE;
use super::common::{check_and_rebuild, store_of, tier};
use super::web_server::WebServer;

const FILE_BYTES: usize = 48 << 20;
const READ_BYTES: usize = 128 << 10;
/// The bytes that are fetched ahead of a reader end at most this far from it, as the guide says.
const MAX_AHEAD_BYTES: u64 = 16 << 20;

fn store_over(server: &WebServer, dir: &Path) -> Store {
    let store = store_of(dir, &[tier(dir, "disk", &["disk"], "")]);
    store.add_origin("web", &server.url("pub"), Default::default(), Some(ASK_ONCE)).unwrap();
    store
}

fn server_with(path: &str, bytes: &[u8]) -> WebServer {
    let server = WebServer::start();
    server.put(path, bytes.to_vec());
    server
}

/// Reads the bytes up to `end` in order, and compares them.
fn read_in_order(store: &Store, key: &str, bytes: &[u8], end: usize) {
    for at in (0..end).step_by(READ_BYTES) {
        let mut part = vec![0; READ_BYTES.min(bytes.len() - at)];
        store.read_at(key.as_bytes(), at as u64, &mut part).unwrap();
        assert!(part == bytes[at..at + part.len()], "{key} at {at}");
    }
}

/// The end of what was served of a file from its beginning on.
fn end_served(server: &WebServer, path: &str) -> u64 {
    server.served(path).last().map_or(0, |(_, end)| *end)
}

#[test]
fn the_next_bytes_are_there_before_they_are_read_and_none_is_fetched_twice() {
    let bytes = noise(FILE_BYTES, 1);
    let server = server_with("pub/f", &bytes);
    server.manners().delay.store(5, Ordering::SeqCst);
    let folder = tempfile::tempdir().unwrap();
    let store = store_over(&server, folder.path());
    let end = 20 << 20;
    read_in_order(&store, "web/f", &bytes, end);
    // Nobody reads, and bytes arrive.
    wait_until("the bytes ahead are fetched", || end_served(&server, "pub/f") >= end as u64 + MAX_AHEAD_BYTES / 2);
    read_in_order(&store, "web/f", &bytes, FILE_BYTES);
    assert_eq!(server.bytes_served_once("pub/f"), FILE_BYTES as u64);
    // All of it is here.
    let before = server.requests();
    read_in_order(&store, "web/f", &bytes, FILE_BYTES);
    store.close().unwrap();
    assert_eq!(server.requests(), before);
}

#[test]
fn a_reader_who_leaves_early_has_fetched_no_more_than_the_bound() {
    let bytes = noise(FILE_BYTES, 2);
    let server = server_with("pub/f", &bytes);
    let folder = tempfile::tempdir().unwrap();
    let store = store_over(&server, folder.path());
    let end = 10 << 20;
    read_in_order(&store, "web/f", &bytes, end);
    store.close().unwrap();
    let served = server.bytes_served_once("pub/f");
    assert!((end as u64..=end as u64 + MAX_AHEAD_BYTES).contains(&served), "{served}");
}

#[test]
fn open_files_are_read_ahead_too() {
    let bytes = noise(FILE_BYTES, 3);
    let server = server_with("pub/f", &bytes);
    let folder = tempfile::tempdir().unwrap();
    let store = store_over(&server, folder.path());
    let files = Files::new(&store).unwrap();
    assert_eq!(files.stat(b"web/f").unwrap().length, FILE_BYTES as u64);
    let file = files.open(b"web/f").unwrap();
    let read = |from: usize, to: usize| {
        for at in (from..to).step_by(READ_BYTES) {
            let mut part = vec![0; READ_BYTES];
            file.read_to(at as u64, &mut part, |read| assert!(read.unwrap() == &bytes[at..at + READ_BYTES]));
        }
    };
    let half = FILE_BYTES / 2;
    read(0, half);
    wait_until("the bytes ahead are fetched", || end_served(&server, "pub/f") >= half as u64 + MAX_AHEAD_BYTES / 2);
    read(half, FILE_BYTES);
    assert_eq!(server.bytes_served_once("pub/f"), FILE_BYTES as u64);
}

#[test]
fn short_reads_here_and_there_stay_short() {
    let bytes = noise(FILE_BYTES, 4);
    let server = server_with("pub/f", &bytes);
    let folder = tempfile::tempdir().unwrap();
    let store = store_over(&server, folder.path());
    let mut random = Random::new(5);
    let mut units = std::collections::BTreeSet::new();
    for _ in 0..300 {
        let at = random.below(FILE_BYTES as u64 - 10_000);
        let mut part = vec![0; 1 + random.below(10_000) as usize];
        store.read_at(b"web/f", at, &mut part).unwrap();
        assert!(part == bytes[at as usize..at as usize + part.len()]);
        units.extend(at >> 16..=(at + part.len() as u64 - 1) >> 16);
    }
    store.close().unwrap();
    assert_eq!(server.bytes_served_once("pub/f"), (units.len() as u64) << 16);
}

#[test]
fn an_origin_that_changes_or_fails_ahead_fails_only_who_reads_that() {
    let bytes = noise(FILE_BYTES, 6);
    let server = server_with("pub/f", &bytes);
    let folder = tempfile::tempdir().unwrap();
    let store = store_over(&server, folder.path());
    read_in_order(&store, "web/f", &bytes, 12 << 20);
    server.manners().is_broken.store(true, Ordering::SeqCst);
    read_in_order(&store, "web/f", &bytes, 12 << 20);
    let mut part = vec![0; 1000];
    assert!(matches!(store.read_at(b"web/f", 40 << 20, &mut part), Err(terrace::Error::Origin { .. })));
    server.manners().is_broken.store(false, Ordering::SeqCst);
    wait_until("the origin is asked again", || store.read_at(b"web/f", 40 << 20, &mut part).is_ok());
    read_in_order(&store, "web/f", &bytes, FILE_BYTES);
}

#[test]
fn readers_of_several_processes_share_what_is_fetched_ahead() {
    let bytes = noise(FILE_BYTES, 7);
    let server = server_with("pub/f", &bytes);
    let folder = tempfile::tempdir().unwrap();
    let store = store_over(&server, folder.path());
    let children: Vec<_> =
        (0..2).map(|_| child_of(folder.path(), "ahead::child_in_order", "").spawn().unwrap()).collect();
    read_in_order(&store, "web/f", &bytes, FILE_BYTES);
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(server.bytes_served_once("pub/f"), FILE_BYTES as u64);
}

#[test]
fn a_process_that_is_killed_while_it_fetches_ahead_leaves_a_good_store() {
    let bytes = noise(FILE_BYTES, 7);
    let server = server_with("pub/f", &bytes);
    let folder = tempfile::tempdir().unwrap();
    store_over(&server, folder.path()).close().unwrap();
    let mut child = child_of(folder.path(), "ahead::child_in_order", "origin:ahead");
    assert!(!child.stderr(Stdio::null()).status().unwrap().success(), "the point was not reached");
    let store = Store::open(&folder.path().join("store")).unwrap();
    read_in_order(&store, "web/f", &bytes, FILE_BYTES);
    let store = check_and_rebuild(store, folder.path());
    read_in_order(&store, "web/f", &bytes, FILE_BYTES);
}

fn child_of(dir: &Path, test: &str, fail_point: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).stdout(Stdio::null());
    command.env("TEST_AHEAD_STORE", dir.join("store")).env("TERRACE_FAIL_POINT", fail_point);
    command
}

#[test]
fn child_in_order() {
    let Ok(home) = std::env::var("TEST_AHEAD_STORE") else { return };
    let store = Store::open(home.as_ref()).unwrap();
    read_in_order(&store, "web/f", &noise(FILE_BYTES, 7), FILE_BYTES);
    store.close().unwrap();
}
