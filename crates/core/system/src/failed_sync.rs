//! Syncs that failed, noted at the file itself.
//!
//! When a device refuses bytes (a full thin volume, a passing error), `fsync` fails once. The kernel then marks the pages as
//! clean, and the next `fsync` succeeds although the bytes are not on the disk. So every process that syncs a file asks
//! first whether an earlier sync of it failed, and writes the file's bytes again before it takes a success for durability.
//! The note is the sticky bit of the file's mode, which has no meaning on files: all processes see it, it outlives them, and
//! it needs no space on the device. In a power cut it may be lost, together with the pages that it tells of; a recovery then
//! verifies what the last sync mark does not cover.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;

/// The bit of a file's mode that notes a sync that failed.
pub const FAILED_SYNC_BIT: u32 = 0o1000;

/// Syncs the file's bytes, and notes it if that fails.
pub fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data().inspect_err(|_| note(file))
}

/// Syncs the file's bytes and metadata, and notes it if that fails.
pub fn sync_all(file: &File) -> io::Result<()> {
    file.sync_all().inspect_err(|_| note(file))
}

/// Notes that a sync of the file failed.
pub fn note(file: &File) {
    // Ignored, because the caller gets the error of the sync, which matters more. A file system that has become read-only takes
    // no note, but refuses later writes and syncs, too, so nothing more is acknowledged. A file system that has no such bit loses
    // the note: there the next sync of the file succeeds, although bytes are missing.
    let _ = file.metadata().and_then(|found| set_mode(file, found.permissions().mode() | FAILED_SYNC_BIT));
}

/// Returns whether a sync of the file failed, and its bytes were not written again since.
pub fn has_failed(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.permissions().mode() & FAILED_SYNC_BIT != 0)
}

/// Removes the note, after the file's bytes were written again, and before they are synced through the same open file. In this
/// order no note is lost. If the bytes are refused again, this sync fails, even if another process has seen the error already. If this
/// process dies before it syncs, the next process's sync fails.
pub fn forget(file: &File) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode();
    set_mode(file, mode & !FAILED_SYNC_BIT)
}

fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(mode & 0o7777))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_kept_at_the_file_until_it_is_forgotten() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("file");
        let file = File::create(&path).expect("a file");
        let mode = |file: &File| file.metadata().expect("metadata").permissions().mode();
        let before = mode(&file);
        sync_data(&file).expect("synced");
        assert!(!has_failed(&file).expect("asked"));
        note(&file);
        let other = File::open(&path).expect("the same file");
        assert!(has_failed(&other).expect("asked"));
        forget(&other).expect("forgotten");
        assert_eq!(mode(&file), before);
    }
}
