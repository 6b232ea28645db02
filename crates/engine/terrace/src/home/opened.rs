//! Tells a store's directory that was restored from a backup, and goes on from there with other numbers.
//!
//! Of two copies of a directory, each would give the numbers of frames and segments out that the other gives out. If both are used, one after the
//! other, a target that one has written to holds frames at places that the other one names, with the same numbers in their headers: nothing
//! could tell them apart. So a copy skips a random count of numbers.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use terrace_catalog::Catalog;
use terrace_system::{read_regular, replace};

use super::boot::{boot_and_incarnation, random_id};
use crate::{Error, Result};

/// Holds the inode of this file and the time at which it was made, so that a copy of it can be told; and the boot and the mount, since a volume
/// that is set back to a snapshot keeps both.
pub const OPENED_FILE: &str = "opened";
/// One more than the largest count of numbers that are skipped.
const MAX_SKIPPED_NUMBERS: u64 = 1 << 24;

/// Skips numbers if the directory may be a copy of the one that was used last.
pub fn part_from_copies(dir: &Path, catalog: &Catalog) -> Result<()> {
    let path = dir.join(OPENED_FILE);
    let is_same = || Some(read_regular(&path).ok()? == text_of(&path)?.into_bytes());
    if is_same() == Some(true) || catalog.is_new()? { Ok(()) } else { skip_numbers(catalog) }
}

/// Skips numbers, so that this catalog gives out others than that of another copy of the directory.
pub fn skip_numbers(catalog: &Catalog) -> Result<()> {
    let count = random_id().map_err(Error::io("reading random bytes".to_owned()))? % MAX_SKIPPED_NUMBERS;
    Ok(catalog.skip_ids(count)?)
}

/// Notes that the directory is used: a copy that was made before differs from now on.
pub fn note_opened(dir: &Path) {
    let path = dir.join(OPENED_FILE);
    // A new file, so that its inode or its time differ from those of a copy in its place.
    let noted = replace(&path, "").and_then(|()| fs::write(&path, text_of(&path).unwrap_or_default()));
    if let Err(error) = noted {
        // The next opening skips numbers.
        tracing::debug!(store = %dir.display(), %error, "could not note that this directory is used");
    }
}

fn text_of(path: &Path) -> Option<String> {
    let found = fs::symlink_metadata(path).ok()?;
    // Not all file systems know when a file was made.
    let made = found.created().ok().and_then(|made| made.duration_since(SystemTime::UNIX_EPOCH).ok());
    let incarnation = boot_and_incarnation(path.parent()?).ok()?;
    Some(format!("{} {}\n{incarnation}\n", found.ino(), made.unwrap_or_default().as_nanos()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_copy_is_told_from_the_directory_that_was_used_last() {
        let dir = tempfile::tempdir().expect("a folder");
        let (used, backup) = (dir.path().join("used"), dir.path().join("backup"));
        fs::create_dir(&used).expect("a folder");
        let file = used.join(OPENED_FILE);
        let is_same = || fs::read_to_string(&file).ok() == text_of(&file);
        let run = |program: &str, arguments: [&str; 2]| {
            let ran = Command::new(program).args(["-a"]).args(arguments).current_dir(dir.path()).status();
            assert!(ran.expect("runs").success());
        };
        note_opened(&used);
        assert!(is_same());
        run("cp", ["used", "backup"]);
        for restore in ["cp", "rsync"] {
            note_opened(&used);
            // rsync compares the times in seconds.
            let later = SystemTime::now() + Duration::from_secs(5);
            fs::File::options().write(true).open(&file).and_then(|file| file.set_modified(later)).expect("sets");
            assert!(is_same(), "{restore}");
            // In place, which is the hardest to notice.
            run(restore, ["backup/.", "used/"]);
            assert!(!is_same(), "{restore}");
        }
        fs::remove_dir_all(&used).and_then(|()| fs::rename(&backup, &used)).expect("moves");
        note_opened(&used);
        assert!(is_same());
    }
}
