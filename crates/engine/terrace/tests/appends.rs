//! Many threads and processes append to one object: each line of each is there, whole and once.
//!
//! Each door asked for the length, and then wrote there: of two who asked at the same time, one overwrote the other's bytes. Two
//! mounts kept 200 of 400 lines. No test could see it, as each appended by one thread only.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use terrace::files::Owner;
use terrace::{Config, Error, Files, PutOptions, Store};

const LOG_KEY: &[u8] = b"logs/all";
/// Lines of each who appends.
const LINE_COUNT: u64 = 150;

/// Blocks are small, so that lines of several blocks are quick.
fn new_store(dir: &Path) -> Store {
    let text = format!(
        "[store]\nblock = '64KiB'\n{}{}",
        common::tier(dir, "ram", &["ram"], "persistent = false"),
        common::tier(dir, "disk", &["a", "b"], "")
    );
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

/// A line says who wrote it, which one it is, and how long it is. Some are longer than a block.
fn line(who: u64, number: u64) -> Vec<u8> {
    let length = match number % 50 {
        7 => 150_000,
        21 => 64 << 10,
        other => other * 13,
    };
    let mut line = format!("{who} {number} {length} ").into_bytes();
    line.resize(line.len() + length as usize, b'a' + (who % 26) as u8);
    line.push(b'\n');
    line
}

/// How many lines there are of each who appended. All must be whole, and in the order in which they were appended.
fn lines_of_each(bytes: &[u8]) -> BTreeMap<u64, u64> {
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    for found in bytes.split_inclusive(|&byte| byte == b'\n') {
        let start = String::from_utf8_lossy(&found[..found.len().min(40)]).into_owned();
        let who: u64 = start.split(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("torn: {start:?}"));
        let number = next.entry(who).or_default();
        assert!(found == line(who, *number), "after line {number} of {who} comes {start:?}, {} bytes", found.len());
        *number += 1;
    }
    next
}

fn all_lines(who: std::ops::Range<u64>) -> BTreeMap<u64, u64> {
    who.map(|who| (who, LINE_COUNT)).collect()
}

fn append_lines(store: &Store, who: u64) {
    for number in 0..LINE_COUNT {
        store.append(LOG_KEY, &line(who, number), &PutOptions::default()).unwrap();
    }
}

/// Half of the lines are flushed each, the others as the file sees fit.
fn append_to_file(files: &Files, who: u64) {
    let owner = Owner { uid: 0, gid: 0 };
    for part in 0..2 {
        let file = files.create(b"all", 0o644, owner, false).unwrap();
        for number in part * LINE_COUNT / 2..(part + 1) * LINE_COUNT / 2 {
            file.append(&line(who, number)).unwrap();
            if part == 0 {
                file.flush().unwrap();
            }
        }
        file.flush().unwrap();
    }
}

/// Runs `child` of this file in a process of its own.
fn spawn(dir: &Path, role: &str, who: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).stdout(Stdio::null());
    command.env("TEST_ROLE", role).env("TEST_DIR", dir).env("TEST_WHO", who.to_string()).spawn().unwrap()
}

fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn child() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let dir = std::env::var("TEST_DIR").unwrap();
    let who: u64 = std::env::var("TEST_WHO").unwrap().parse().unwrap();
    let dir = Path::new(&dir);
    let store = Store::open(&dir.join("store")).unwrap();
    fs::write(dir.join(format!("ready{who}")), "").unwrap();
    wait_for(&dir.join("go"));
    match role.as_str() {
        "store" => append_lines(&store, who),
        "files" => append_to_file(&Files::new(&store).unwrap(), who),
        _ => append_until_killed(&store, dir, who),
    }
}

fn run_all(dir: &Path, children: Vec<Child>) {
    (0..children.len()).for_each(|who| wait_for(&dir.join(format!("ready{who}"))));
    fs::write(dir.join("go"), "").unwrap();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn four_threads_append_and_all_lines_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    std::thread::scope(|scope| {
        (0..4).for_each(|who| {
            drop(scope.spawn({
                let store = &store;
                move || append_lines(store, who)
            }))
        })
    });
    assert_eq!(lines_of_each(&store.get(LOG_KEY).unwrap()), all_lines(0..4));
}

#[test]
fn four_processes_append_and_all_lines_are_there_also_after_a_rebuild() {
    let dir = tempfile::tempdir().unwrap();
    drop(new_store(dir.path()));
    run_all(dir.path(), (0..4).map(|who| spawn(dir.path(), "store", who)).collect());
    let store = Store::open(&dir.path().join("store")).unwrap();
    assert_eq!(lines_of_each(&store.get(LOG_KEY).unwrap()), all_lines(0..4));
    let before = store.get(LOG_KEY).unwrap();
    drop(store);
    // The log has each place as it was decided.
    let store = Store::rebuild(&dir.path().join("store")).unwrap();
    assert!(store.get(LOG_KEY).unwrap() == before);
}

#[test]
fn processes_append_to_one_file_and_all_lines_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let children = (0..3).map(|who| spawn(dir.path(), "files", who)).collect();
    run_all(dir.path(), children);
    assert_eq!(lines_of_each(&store.get(b"all").unwrap()), all_lines(0..3));
}

#[test]
fn threads_and_another_process_append_to_one_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let other = spawn(dir.path(), "files", 0);
    let files = Files::new(&store).unwrap();
    std::thread::scope(|scope| {
        for who in 1..4 {
            let files = &files;
            scope.spawn(move || append_to_file(files, who));
        }
        run_all(dir.path(), vec![other]);
    });
    assert_eq!(lines_of_each(&store.get(b"all").unwrap()), all_lines(0..4));
}

#[test]
fn what_was_appended_and_kept_back_is_laid_behind_what_others_appended_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let files = Files::new(&store).unwrap();
    let file = files.create(b"all", 0o644, Owner { uid: 0, gid: 0 }, true).unwrap();
    assert_eq!(file.append(b"one\n").unwrap(), 0);
    assert_eq!(file.append(b"two\n").unwrap(), 4);
    // As another process does it.
    store.append(b"all", b"other\n", &PutOptions::default()).unwrap();
    file.flush().unwrap();
    assert_eq!(store.get(b"all").unwrap(), b"other\none\ntwo\n");
    // Writes with a place of their own come in the order of the program.
    file.append(b"three\n").unwrap();
    file.write_at(0, b"OTHER").unwrap();
    file.append(b"four\n").unwrap();
    let mut bytes = [0; 100];
    let length = file.read_at(0, &mut bytes).unwrap();
    assert_eq!(&bytes[..length], b"OTHER\none\ntwo\nthree\nfour\n");
    file.set_len(6).unwrap();
    file.append(b"five\n").unwrap();
    file.extend(13).unwrap();
    file.append(b"six\n").unwrap();
    file.sync().unwrap();
    assert_eq!(store.get(b"all").unwrap(), b"OTHER\nfive\n\0\0six\n");
    // A file that was cut by somebody else has another end.
    file.append(b"seven\n").unwrap();
    store.set_length(b"all", 0).unwrap();
    file.flush().unwrap();
    assert_eq!(store.get(b"all").unwrap(), b"seven\n");
}

#[test]
fn appending_makes_the_object_and_says_where() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path());
    let options = PutOptions::default();
    assert_eq!(store.append(LOG_KEY, b"abc", &options).unwrap().offset, 0);
    let appended = store.append(LOG_KEY, &vec![7; 200_000], &options).unwrap();
    assert_eq!((appended.offset, appended.receipt.bytes), (3, 200_000));
    assert_eq!(store.append(LOG_KEY, b"", &options).unwrap().offset, 200_003);
    assert_eq!(store.stat(LOG_KEY).unwrap().length, 200_003);
    assert!(matches!(store.append(b"logs", b"x", &options), Err(Error::Conflict { .. })), "it is a folder");
    assert!(matches!(store.append(b"logs/all/x", b"x", &options), Err(Error::Conflict { .. })), "it is in a file");
    assert!(matches!(store.append(b"../x", b"x", &options), Err(Error::BadKey { .. })));
    store.set_length(LOG_KEY, i64::MAX as u64 - 2).unwrap();
    store.append(LOG_KEY, b"xy", &options).unwrap();
    assert!(matches!(store.append(LOG_KEY, b"z", &options), Err(Error::TooLarge { .. })));
}

/// Appends lines, and notes each outside once it is acknowledged.
fn append_until_killed(store: &Store, dir: &Path, who: u64) {
    let mut journal = OpenOptions::new().create(true).append(true).open(dir.join(format!("journal{who}"))).unwrap();
    for number in 0.. {
        store.append(LOG_KEY, &line(who, number), &PutOptions::default()).unwrap();
        journal.write_all(b".").unwrap();
    }
}

#[test]
fn who_is_killed_while_appending_loses_no_acknowledged_line_and_tears_none() {
    let rounds: u64 = std::env::var("TERRACE_KILLS").map_or(3, |kills| kills.parse::<u64>().unwrap().div_ceil(10));
    let dir = tempfile::tempdir().unwrap();
    drop(new_store(dir.path()));
    fs::write(dir.path().join("go"), "").unwrap();
    for round in 0..rounds {
        let who = 3 * round..3 * round + 3;
        let journal = |who: u64| fs::metadata(dir.path().join(format!("journal{who}"))).map_or(0, |found| found.len());
        let mut children: Vec<Child> = who.clone().map(|who| spawn(dir.path(), "killed", who)).collect();
        // They die at different moments, two while another still appends.
        for (child, who) in children.iter_mut().zip(who.clone()) {
            while journal(who) < 10 + round % 7 {
                std::thread::sleep(Duration::from_millis(1));
            }
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().signal(), Some(9));
        }
        let store = Store::open(&dir.path().join("store")).unwrap();
        let found = lines_of_each(&store.get(LOG_KEY).unwrap());
        for who in who {
            let (found, told) = (found.get(&who).copied().unwrap_or(0), journal(who));
            assert!(found == told || found == told + 1, "{who} was told of {told} lines, and has {found}");
        }
        if round % 4 == 3 {
            store.remove(LOG_KEY).unwrap();
        }
    }
}
