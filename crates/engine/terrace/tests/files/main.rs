//! Objects as files: what programs see of them, and what is left of them.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../common/mod.rs"]
mod common;
mod random;

use std::fs;
use std::path::Path;

use common::hold_mover;
use terrace::files::{FileError, Owner};
use terrace::{Config, Files, Kind, Store};
use terrace_testkit::{Random, SmallDisk};

const ROOT_OWNER: Owner = Owner { uid: 0, gid: 0 };
/// Longer writes go to the store at once.
const BLOCK_BYTES: usize = 64 << 10;

fn store(dir: &Path) -> Store {
    let text = format!(
        "[store]\nblock = '64KiB'\nreplicas = {{ min = 1, max = 2, default = 2 }}\n\
         [[tier]]\nname = 'ram'\nkind = 'directory'\ntargets = ['{0}/ram']\npersistent = false\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{0}/disk']\n",
        dir.display()
    );
    Store::init(&dir.join("store"), &Config::parse(&text, "test").unwrap()).unwrap()
}

#[test]
fn what_put_made_is_a_tree_and_what_is_removed_leaves_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::new(&store(dir.path())).unwrap();
    for key in ["x/y/z", "x/y-", "x/y.", "x/yy/1", "x/yy/2"] {
        files.store().put_bytes(key.as_bytes(), b"1", &Default::default()).unwrap();
    }
    let names = |path: &[u8]| {
        let (entries, next) = files.list(path, b"", 100).unwrap();
        assert_eq!(next, None);
        let mut names: Vec<_> = entries.into_iter().map(|e| (String::from_utf8(e.name).unwrap(), e.kind)).collect();
        names.sort_by(|a, b| a.0.cmp(&b.0));
        names
    };
    let (file, directory) = (Kind::File, Kind::Directory);
    assert_eq!(names(b""), [("x".into(), directory)]);
    let below = [("y", directory), ("y-", file), ("y.", file), ("yy", directory)];
    assert_eq!(names(b"x"), below.map(|(name, kind)| (name.to_owned(), kind)));
    files.remove(b"x/y/z").unwrap();
    assert_eq!(names(b"x/y"), []);
    files.remove_directory(b"x/y").unwrap();
    assert!(matches!(files.stat(b"x/y"), Err(FileError::NotFound(_))));
    files.rename(b"x/yy", b"z", true).unwrap();
    assert_eq!(names(b"z").len(), 2);
    assert!(files.create(b".terrace/x", 0o600, ROOT_OWNER, true).is_err());
}

#[test]
fn a_removed_file_lives_until_it_is_closed_and_a_dead_keepers_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let files = Files::new(&store).unwrap();
    let file = files.create(b"a", 0o600, ROOT_OWNER, true).unwrap();
    file.write_at(0, b"one").unwrap();
    files.remove(b"a").unwrap();
    assert_eq!(file.stat().unwrap().links, 0);
    file.write_at(3, b"two").unwrap();
    let mut bytes = [0; 6];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 6);
    assert_eq!(&bytes, b"onetwo");
    // Another keeper leaves it alone as long as the first one lives.
    let others = Files::new(&store).unwrap();
    assert_eq!(store.list(b"", None, 10).unwrap().len(), 1);
    drop(others);
    drop(file);
    assert_eq!(store.list(b"", None, 10).unwrap().len(), 0);
    // As a killed process leaves it.
    store.internal().put_bytes(b".terrace/unlinked/999/1", b"x", &Default::default()).unwrap();
    let files = Files::new(&store).unwrap();
    assert_eq!(store.list(b"", None, 10).unwrap().len(), 0);
    drop(files);
}

#[test]
fn what_other_processes_see_and_when() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (files, others) = (Files::new(&store).unwrap(), Files::new(&store).unwrap());
    let file = files.create(b"a", 0o600, ROOT_OWNER, true).unwrap();
    file.write_at(0, b"kept back").unwrap();
    assert_eq!(files.stat(b"a").unwrap().length, 9);
    assert_eq!(others.stat(b"a").unwrap().length, 0);
    file.flush().unwrap();
    assert_eq!(others.stat(b"a").unwrap().length, 9);
    // Bytes of a block or more are not kept back.
    file.write_at(9, &vec![1; BLOCK_BYTES]).unwrap();
    assert_eq!(others.stat(b"a").unwrap().length, 9 + BLOCK_BYTES as u64);
    others.remove(b"a").unwrap();
    file.write_at(0, b"for nobody").unwrap();
    assert!(matches!(file.flush(), Err(FileError::Stale(_))));
    assert!(matches!(file.stat(), Err(FileError::Stale(_))));
}

/// The flush of all files ended at the first one that failed, and a process that ended then lost the bytes of the others.
#[test]
fn a_file_that_fails_does_not_keep_others_from_being_flushed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (files, others) = (Files::new(&store).unwrap(), Files::new(&store).unwrap());
    let names = ["a", "b", "c", "d"];
    let open = names.map(|name| files.create(name.as_bytes(), 0o600, ROOT_OWNER, true).unwrap());
    for file in &open {
        file.write_at(0, b"kept").unwrap();
    }
    assert_eq!(files.unwritten(), names.map(|name| name.as_bytes().to_vec()));
    others.remove(b"b").unwrap();
    assert!(matches!(files.flush(), Err(FileError::Stale(_))));
    for name in ["a", "c", "d"] {
        assert_eq!(store.get(name.as_bytes()).unwrap(), b"kept");
    }
    assert!(files.unwritten().is_empty());
}

/// Accepted bytes without room are kept until they can be written, and no others are accepted meanwhile.
#[test]
fn what_was_accepted_is_written_when_there_is_room() {
    const TEST_NAME: &str = "what_was_accepted_is_written_when_there_is_room";
    // Writes wait for room, 30 seconds each. A process of its own waits for less, and leaves the other tests alone.
    const WAIT_VARIABLE: &str = "TERRACE_NO_SPACE_MILLISECONDS";
    if std::env::var_os(WAIT_VARIABLE).is_none() {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", TEST_NAME]).env(WAIT_VARIABLE, "200").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = SmallDisk::mount(TEST_NAME, &dir.path().join("small"), "size=32m") else { return };
    let text = format!(
        "[store]\nblock = '64KiB'\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/small/t']\n",
        dir.path().display()
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let noise = |length: u64| -> Vec<u8> {
        (0..length).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8 ^ (at >> 9) as u8).collect()
    };
    store.put_bytes(b"first", b"made", &Default::default()).unwrap();
    // Another program fills the disk, which this process does not know yet: the background thread does not look.
    let _mover = hold_mover(dir.path());
    small.fill_but(0);
    let files = Files::new(&store).unwrap();
    let file = files.create(b"a", 0o600, ROOT_OWNER, true).unwrap();
    let bytes = noise(8 << 20);
    let accepted = |at: usize| {
        let mut result = Ok(());
        file.write_behind(at as u64, &bytes[at..at + BLOCK_BYTES], |accepted| result = accepted);
        result
    };
    let refused = (0..bytes.len()).step_by(BLOCK_BYTES).find(|at| accepted(*at).is_err()).unwrap();
    let holds = |length: usize| {
        let mut out = vec![0; length + 1];
        file.read_to(0, &mut out, |read| assert!(read.unwrap() == &bytes[..length]));
    };
    holds(refused);
    assert!(file.flush().is_err());
    small.make_room();
    accepted(refused).unwrap();
    file.flush().unwrap();
    holds(refused + BLOCK_BYTES);
    assert!(store.get(b"a").unwrap() == bytes[..refused + BLOCK_BYTES]);
}

/// A write that found its object under another key once gave back all of the object's extents, not only its own.
#[test]
fn a_write_that_comes_too_late_takes_nothing_along() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let files = Files::new(&store).unwrap();
    let bytes: Vec<u8> = (0..8 * BLOCK_BYTES).map(|at| (at / 7) as u8).collect();
    store.put_bytes(b"a", &bytes, &Default::default()).unwrap();
    let file = files.open(b"a").unwrap();
    store.rename(b"a", b"b").unwrap();
    assert!(matches!(file.write_at(0, &vec![1; BLOCK_BYTES]), Err(FileError::Stale(_))));
    assert!(store.get(b"b").unwrap() == bytes);
}

/// Bytes that are fetched ahead of a reader are never older than those that were written before the read.
#[test]
fn a_file_that_is_read_in_order_shows_what_is_written_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::new(&store(dir.path())).unwrap();
    let mut bytes: Vec<u8> = (0..6 << 20).map(|at: u32| (at.wrapping_mul(2654435761) >> 24) as u8).collect();
    let writer = files.create(b"a", 0o600, ROOT_OWNER, true).unwrap();
    writer.write_at(0, &bytes).unwrap();
    let mut generator = Random::new(1);
    let mut random = |below: usize| generator.below(below as u64) as usize;
    for round in 0..20 {
        let reader = files.open(b"a").unwrap();
        let (mut at, mut out) = (0, vec![0; 300_000]);
        while at < bytes.len() {
            let length = if round % 2 == 0 { BLOCK_BYTES } else { 1 + random(out.len()) };
            let end = bytes.len().min(at + length);
            reader.read_to(at as u64, &mut out[..length], |read| {
                assert!(read.unwrap() == &bytes[at..end], "round {round}: {length} bytes at {at} differ");
            });
            at = end;
            if random(4) == 0 {
                let start = (at + random(1 << 20)).min(bytes.len() - 1);
                let end = (start + 1 + random(2 * BLOCK_BYTES)).min(bytes.len());
                bytes[start..end].iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                writer.write_at(start as u64, &bytes[start..end]).unwrap();
                if random(2) == 0 {
                    writer.flush().unwrap();
                }
            }
        }
    }
    drop((writer, files));
    // Nothing of it holds the store open.
    Store::rebuild(&dir.path().join("store")).unwrap();
}

/// Files that a transaction wrote lay beside their places until its end, and a kill left them there for ever.
/// A handle holds the chunk around its last small read, and reads on from it while the catalog stays as it is.
#[test]
fn a_handle_that_reads_again_sees_what_others_have_changed() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let (ours, others) = (Files::new(&store).unwrap(), Files::new(&store).unwrap());
    let mut noise: Vec<u8> = (0..150_000u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
    let writer = others.create(b"f", 0o644, ROOT_OWNER, true).unwrap();
    writer.write_at(0, &noise).unwrap();
    writer.flush().unwrap();
    let reader = ours.open(b"f").unwrap();
    let mut part = [0; 4096];
    let mut read = |offset: u64, expected: &[u8]| {
        for _ in 0..3 {
            let expected = expected.get(offset as usize..).unwrap_or_default();
            let length = reader.read_at(offset, &mut part).unwrap();
            assert_eq!(length, expected.len().min(4096), "at {offset}");
            assert!(part[..length] == expected[..length], "at {offset}");
        }
    };
    // Written over, cut within what is held, made longer, and given a hole.
    read(70_000, &noise);
    noise[71_000..71_100].fill(7);
    writer.write_at(71_000, &[7; 100]).unwrap();
    writer.flush().unwrap();
    read(70_000, &noise);
    noise.truncate(72_000);
    writer.set_len(72_000).unwrap();
    read(70_000, &noise);
    noise.resize(140_000, 0);
    writer.set_len(140_000).unwrap();
    read(70_000, &noise);
    read(139_000, &noise);
    noise[65_000..66_000].fill(0);
    writer.clear(65_000, 1000).unwrap();
    read(64_000, &noise);
    // By another handle of the same process, before the bytes are written to the store.
    let beside = ours.open(b"f").unwrap();
    noise[64_500] = 9;
    beside.write_at(64_500, &[9]).unwrap();
    read(64_000, &noise);
    beside.flush().unwrap();
    // Moved to another tier, and out of this one; then the last replica is damaged, too.
    store.sync().unwrap();
    read(1000, &noise);
    assert!(store.evict(b"", "ram").unwrap().dropped > 0);
    read(1000, &noise);
    for segment in fs::read_dir(dir.path().join("disk/segments")).unwrap().map(|entry| entry.unwrap().path()) {
        let length = fs::metadata(&segment).unwrap().len();
        fs::write(segment, vec![0xee; length as usize]).unwrap();
    }
    read(1000, &noise);
    assert!(store.scrub(b"", false, None, |_| {}).unwrap().bad > 0, "the replica is not damaged");
    read(1000, &noise);
    // Renamed by others: the handle follows no name, and the object of its name is gone.
    others.rename(b"f", b"g", true).unwrap();
    assert!(matches!(reader.read_at(1000, &mut [0; 4096]), Err(FileError::Stale(_))));
}

#[test]
fn a_file_without_a_name_is_seen_once_it_has_one_and_a_dead_process_leaves_none() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    let files = Files::new(&store).unwrap();
    files.create(b"old", 0o644, ROOT_OWNER, true).unwrap().write_at(0, b"before").unwrap();
    files.make_directory(b"d", 0o755, ROOT_OWNER).unwrap();
    let reader = files.open(b"old").unwrap();
    let unnamed = files.create_unnamed(0o640, ROOT_OWNER).unwrap();
    unnamed.write_at(0, &[7; 3 * BLOCK_BYTES + 5]).unwrap();
    assert_eq!(files.list(b"", b"", 10).unwrap().0.len(), 2);
    assert!(matches!(files.name(&unnamed, b"old", false), Err(FileError::Exists(_))));
    assert!(matches!(files.name(&unnamed, b"d", true), Err(FileError::IsDirectory(_))));
    assert!(matches!(files.name(&unnamed, b"none/a", true), Err(FileError::NotFound(_))));
    assert!(files.name(&unnamed, b".terrace/a", true).is_err());
    files.name(&unnamed, b"old", true).unwrap();
    assert!(files.name(&unnamed, b"again", true).is_err(), "it has a name");
    // Who has the replaced file open keeps it.
    let mut bytes = [0; 6];
    assert_eq!((reader.read_at(0, &mut bytes).unwrap(), &bytes), (6, b"before"));
    unnamed.write_at(0, b"still open").unwrap();
    drop((unnamed, reader));
    let stat = files.stat(b"old").unwrap();
    assert_eq!((stat.length, stat.mode), (3 * BLOCK_BYTES as u64 + 5, 0o640));
    assert_eq!(&store.get(b"old").unwrap()[..11], b"still open\x07");
    // Without a name it goes with its handle, and with its process.
    drop(files.create_unnamed(0o644, ROOT_OWNER).unwrap());
    assert_eq!(store.list(b".terrace/unlinked", None, 10).unwrap().len(), 0);
    let left = files.create_unnamed(0o644, ROOT_OWNER).unwrap();
    left.write_at(0, &[1; 2 * BLOCK_BYTES]).unwrap();
    assert_eq!(store.list(b".terrace/unlinked", None, 10).unwrap().len(), 1);
    std::mem::forget(left);
    let keepers = dir.path().join("store/keepers");
    fs::read_dir(&keepers).unwrap().for_each(|keeper| fs::remove_file(keeper.unwrap().path()).unwrap());
    let _next = Files::new(&store).unwrap();
    assert_eq!(store.list(b".terrace/unlinked", None, 10).unwrap().len(), 0);
}

/// One process had bytes buffered while another wrote to the same place and synced. The older bytes came later, and replaced the durable
/// ones. Tests had one process write a file at a time.
#[test]
fn older_buffered_bytes_do_not_come_over_newer_ones_of_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    // Each has its own buffers, as the files of two processes do.
    let (first, second) = (Files::new(&store).unwrap(), Files::new(&store).unwrap());
    let older = first.create(b"k", 0o644, ROOT_OWNER, true).unwrap();
    older.write_at(0, b"AAAA").unwrap();
    assert_eq!(store.get(b"k").unwrap(), b"", "it is buffered");
    let newer = second.open(b"k").unwrap();
    let mut seen = [0; 4];
    assert_eq!((newer.read_at(0, &mut seen).unwrap(), &seen), (4, b"AAAA"), "an opener sees what was written before");
    newer.write_at(0, b"BBBB").unwrap();
    assert_eq!(store.get(b"k").unwrap(), b"BBBB", "nothing is buffered while both have it open");
    newer.sync().unwrap();
    older.write_at(4, b"CC").unwrap();
    assert_eq!(store.get(b"k").unwrap(), b"BBBBCC");
    drop(newer);
    older.write_at(6, b"DD").unwrap();
    assert_eq!(store.get(b"k").unwrap(), b"BBBBCC", "it is buffered again");
    drop(older);
    assert_eq!(store.get(b"k").unwrap(), b"BBBBCCDD");
}

/// On a nearly full tier, bytes were buffered that had no room: the write was good, and the close, whose error many programs overlook, failed.
#[test]
fn what_has_no_room_is_refused_by_the_write() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']\ncapacity = '4MiB'\n",
        dir.path().display()
    );
    let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").unwrap()).unwrap();
    let files = Files::new(&store).unwrap();
    let noise = terrace_testkit::noise(100_000, 1);
    let file = files.create(b"k", 0o644, ROOT_OWNER, true).unwrap();
    let refused = (0..100).find_map(|at| file.write_at(at * 100_000, &noise).err());
    assert!(matches!(refused, Some(FileError::Engine(terrace::Error::NoSpace { .. }))), "{refused:?}");
}
