//! How far the log must reach: a small file in the store's directory and on each persistent target.
//!
//! It names a commit up to which the log was durable once. A log that ends before this commit is damaged, or a part of it is
//! lost. Later commits may be missing after a power cut. See `docs/format.md`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use terrace_format::REACH_FILE;
use terrace_system::read_regular;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Notes in `folder` that the log of `store` is durable up to commit `sequence`.
pub fn write_reach(folder: &Path, store: u64, sequence: u64) -> io::Result<()> {
    let path = folder.join(REACH_FILE);
    let is_new = !path.exists();
    // A pipe by this name is not waited for.
    let flags = libc::O_NONBLOCK;
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).custom_flags(flags).open(&path)?;
    // One write of less than a sector, in place: a power cut leaves the old text or the new one. It need not be synced: an
    // old text asks for less, and stays true.
    file.write_all_at(text(store, sequence).as_bytes(), 0)?;
    if is_new {
        // An empty or missing file would ask for nothing at all.
        file.sync_data()?;
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}

/// Reads the commit that the file in `folder` names. `None` if there is no file, or it is damaged or another store's.
pub fn read_reach(folder: &Path, store: u64) -> Option<u64> {
    let found = String::from_utf8(read_regular(&folder.join(REACH_FILE)).ok()?).ok()?;
    let number = found.lines().find_map(|line| line.strip_prefix("reach "))?;
    let sequence = u64::from_str_radix(number, 16).ok()?;
    (found == text(store, sequence)).then_some(sequence)
}

fn text(store: u64, sequence: u64) -> String {
    let body = format!("store {store:016x}\nreach {sequence:016x}\n");
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
        write_reach(dir.path(), 7, 300).expect("writes");
        write_reach(dir.path(), 7, 41).expect("writes");
        assert_eq!((read_reach(dir.path(), 7), read_reach(dir.path(), 8)), (Some(41), None));
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
}
