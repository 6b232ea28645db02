//! How far the log must reach: a small file in the store's directory and on each persistent target.
//!
//! It names a commit up to which the log was durable once. A log that ends before this commit is damaged, or a part of it is
//! lost. Later commits may be missing after a power cut. It also names a record of the log: a log without it goes on differently, as that of
//! an older copy of the store's directory. See `docs/format.md`.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub use terrace_format::Reach;

use terrace_format::REACH_FILE;
use terrace_system::read_regular;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Notes in `folder`, durably, how far the log of `store` must reach.
pub fn write_reach(folder: &Path, store: u64, reach: Reach) -> io::Result<()> {
    // Synced, although an older note stays true: it would not tell that an older copy of the log lacks what was durable.
    write(&folder.join(REACH_FILE), store, reach)?.sync_data()
}

/// Notes in the store's directory what was noted last on a target: an older note there is that of an older copy of the target.
pub fn write_target_reach(dir: &Path, target: u16, store: u64, reach: Reach) -> io::Result<()> {
    // Not synced: an older note lets fewer targets be compared.
    write(&target_file(dir, target), store, reach).map(drop)
}

/// Removes the note in `folder`, if there is one.
pub fn remove_reach(folder: &Path) -> io::Result<()> {
    remove(&folder.join(REACH_FILE))
}

/// Removes the note in the store's directory about a target, if there is one.
pub fn remove_target_reach(dir: &Path, target: u16) -> io::Result<()> {
    remove(&target_file(dir, target))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

fn write(path: &Path, store: u64, reach: Reach) -> io::Result<File> {
    let is_new = !path.exists();
    // A pipe by this name is not waited for.
    let flags = libc::O_NONBLOCK;
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).custom_flags(flags).open(path)?;
    // One write of less than a sector, in place: a power cut leaves the old text or the new one.
    file.write_all_at(text(store, reach).as_bytes(), 0)?;
    if is_new {
        // An empty or missing file would ask for nothing at all.
        file.sync_data()?;
        File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(file)
}

/// Reads the file in `folder`. `None` if there is none, or it is damaged or another store's.
pub fn read_reach(folder: &Path, store: u64) -> Option<Reach> {
    read(&folder.join(REACH_FILE), store)
}

/// Reads from the store's directory what was noted last on a target.
pub fn read_target_reach(dir: &Path, target: u16, store: u64) -> Option<Reach> {
    read(&target_file(dir, target), store)
}

fn target_file(dir: &Path, target: u16) -> PathBuf {
    dir.join(format!("reach-{target}"))
}

fn read(path: &Path, store: u64) -> Option<Reach> {
    let found = String::from_utf8(read_regular(path).ok()?).ok()?;
    let field = |name: &str| found.lines().find_map(|line| line.strip_prefix(name));
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let sequence = number(field("reach ")?)?;
    let record = field("record ").and_then(|record| record.split_once(' '));
    let record = record.and_then(|(commit, checksum)| Some((number(commit)?, number(checksum)?)));
    let reach = Reach { sequence, record: record.unwrap_or_default() };
    // Older versions named no record.
    let is_whole =
        found == text(store, reach) || record.is_none() && found == with_checksum(store, short(store, reach));
    is_whole.then_some(reach)
}

fn short(store: u64, reach: Reach) -> String {
    format!("store {store:016x}\nreach {:016x}\n", reach.sequence)
}

fn text(store: u64, reach: Reach) -> String {
    let (commit, checksum) = reach.record;
    with_checksum(store, format!("{}record {commit:016x} {checksum:016x}\n", short(store, reach)))
}

fn with_checksum(store: u64, body: String) -> String {
    let checksum = xxh3_64_with_seed(body.as_bytes(), store);
    format!("{body}checksum {checksum:016x}\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_damaged_or_foreign_reach_is_none() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(read_reach(dir.path(), 7), None);
        let reach = |sequence| Reach { sequence, record: (sequence + 1, 99) };
        write_reach(dir.path(), 7, reach(300)).expect("writes");
        write_reach(dir.path(), 7, reach(41)).expect("writes");
        assert_eq!((read_reach(dir.path(), 7), read_reach(dir.path(), 8)), (Some(reach(41)), None));
        let whole = fs::read(dir.path().join(REACH_FILE)).expect("reads");
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(dir.path().join(REACH_FILE), &flipped).expect("writes");
            assert_eq!(read_reach(dir.path(), 7), None, "byte {at}");
            fs::write(dir.path().join(REACH_FILE), &whole[..at]).expect("writes");
            assert_eq!(read_reach(dir.path(), 7), None, "cut at {at}");
        }
    }

    #[test]
    fn a_reach_without_a_record_is_read() {
        let dir = tempfile::tempdir().expect("a folder");
        let reach = Reach { sequence: 5, record: (0, 0) };
        fs::write(dir.path().join(REACH_FILE), with_checksum(7, short(7, reach))).expect("writes");
        assert_eq!(read_reach(dir.path(), 7), Some(reach));
    }
}
