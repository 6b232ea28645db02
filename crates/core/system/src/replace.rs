//! Replaces small files as a whole: a reader finds either the old content or the complete new one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process;

/// The text between a file's name and the id of the process that replaces it.
const LEFTOVER_INFIX: &str = ".new-";

/// Replaces a file that is not essential. A loss of power may destroy the old and the new content.
pub fn replace(file: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    replace_by(file, |new| fs::write(new, bytes))
}

/// Replaces a file. When this returns, the new content is durable. An earlier loss of power leaves the old or the new
/// content.
pub fn replace_durably(file: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    // The bytes are made durable before the name, and the name before this returns.
    replace_by(file, |new| fs::write(new, bytes).and_then(|()| File::open(new)?.sync_all()))?;
    file.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

fn replace_by(file: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let mut new = file.as_os_str().to_owned();
    new.push(format!("{LEFTOVER_INFIX}{}", process::id()));
    let new = PathBuf::from(new);
    let replaced = write(&new).and_then(|()| {
        crate::fail::point("replace:written");
        fs::rename(&new, file)
    });
    if replaced.is_err() {
        // A full disk needs the space. If this fails, the next opener that is alone removes the file.
        let _ = fs::remove_file(&new);
    }
    replaced
}

/// Splits the name of such a temporary file into the name of the file that it was to replace, and the process that wrote it.
pub fn split_leftover(name: &str) -> Option<(&str, u32)> {
    let (file, process) = name.rsplit_once(LEFTOVER_INFIX)?;
    let is_number = process.bytes().all(|byte| byte.is_ascii_digit());
    Some((file, process.parse().ok().filter(|_| is_number && !file.is_empty())?))
}

/// Removes the temporary files that killed processes left in a folder, for files whose names `is_own` accepts. No other
/// process may have the store open, because a process in another namespace is not seen here.
pub fn remove_leftovers(folder: &Path, is_own: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((file, process)) = name.to_str().and_then(split_leftover) else { continue };
        let is_running = process != process::id() && Path::new(&format!("/proc/{process}")).exists();
        if is_own(file) && !is_running {
            // If this fails, the next opener tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Removes a folder with all that is in it, if it is there.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each file that could not be written, for example on a full disk, left an empty file behind: 200 failed openings left
    /// 200 files.
    #[test]
    fn a_file_that_cannot_be_replaced_leaves_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(dir.path().join("taken/below")).expect("makes");
        replace(&dir.path().join("taken"), "x").expect_err("a folder is there");
        replace_durably(&dir.path().join("taken"), "x").expect_err("a folder is there");
        replace_durably(&dir.path().join("file"), "x").expect("writes");
        let mut names: Vec<_> = fs::read_dir(dir.path()).expect("lists").flatten().map(|e| e.file_name()).collect();
        names.sort();
        assert_eq!(names, ["file", "taken"]);
    }

    #[test]
    fn only_what_is_left_of_own_files_by_processes_that_are_gone_is_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        // Larger than any process id.
        let (gone, own) = (1 << 30, process::id());
        let parent = std::os::unix::process::parent_id();
        let removed = [format!("a.new-{gone}"), format!("a.new-{own}")];
        let kept = ["a".into(), "a.new-".into(), "a.new-+7".into(), format!("b.new-{gone}"), format!("a.new-{parent}")];
        for name in removed.iter().chain(&kept) {
            fs::write(dir.path().join(name), "x").expect("writes");
        }
        remove_leftovers(dir.path(), |file| file == "a");
        assert!(removed.iter().all(|name| !dir.path().join(name).exists()));
        assert!(kept.iter().all(|name| dir.path().join(name).exists()));
        assert_eq!(split_leftover("s.new-5.figures.new-7"), Some(("s.new-5.figures", 7)));
    }
}
