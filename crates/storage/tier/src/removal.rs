//! Removes the files of a store from a directory target. Files of others stay.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use terrace_format::REACH_FILE;

use super::TargetFound;
use super::directory::{MARKER_FILE, SEGMENTS_FOLDER, read_marker};
pub use super::file_calls::remove_file;
use super::home_lock::HOME_FILE;
use super::owner_mark::TARGET_OWNER_FILE;
use super::plain::{BYTES_FOLDER, FILES_FOLDER, LINK_SUFFIX, Plain};

/// Finds the owner of the place of a target with this marker.
pub(crate) fn find_directory(root: &Path, mark: &str) -> io::Result<TargetFound> {
    match read_marker(root) {
        // A marker that was not written to its end is the target's as well: it is the first file in the place.
        Ok(found) if mark.as_bytes().starts_with(&found) => Ok(TargetFound::Own { used: measure_directory(root) }),
        Ok(found) => Ok(TargetFound::Another(String::from_utf8_lossy(&found).into_owned())),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(TargetFound::Nothing)
        }
        Err(e) => Err(e),
    }
}

/// Measures the bytes that the segments and plain files of a directory target take. Another program's file is not one of them: without
/// the link to it here, it still takes its bytes.
fn measure_directory(root: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries =
        [SEGMENTS_FOLDER, BYTES_FOLDER].into_iter().filter_map(|folder| fs::read_dir(root.join(folder)).ok()).flatten();
    let is_linked = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(|name| name.ends_with(LINK_SUFFIX));
    let found = entries.flatten().filter_map(|entry| Some((is_linked(&entry), entry.metadata().ok()?)));
    let found = found.filter(|(is_linked, file)| !is_linked || file.nlink() == 1).map(|(_, file)| file);
    // A file that is about to be named has two names here, and counts once.
    let mut inodes = HashSet::new();
    found.filter(|file| inodes.insert(file.ino())).map(|file| file.blocks() * 512).sum()
}

/// Removes a target's files, then calls `before_mark`, then removes its marker and the directory. Returns the files of others,
/// which stay. An interrupted removal can be repeated, because the directory is the target as long as the marker is there.
pub(crate) fn remove_directory(
    root: &Path,
    store: u64,
    before_mark: impl FnOnce() -> io::Result<()>,
) -> io::Result<Vec<PathBuf>> {
    let plain = Plain::new(root, store);
    for (key, file) in plain.names()? {
        plain.set_name(&key, None, &[file])?;
    }
    remove_folder(&root.join(FILES_FOLDER), |_| false)?;
    remove_folder(&root.join(BYTES_FOLDER), |name| {
        is_number([".headers", ".name", LINK_SUFFIX].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name))
    })?;
    remove_folder(&root.join(SEGMENTS_FOLDER), is_number)?;
    remove_logs(root)?;
    remove_file(&root.join(REACH_FILE))?;
    before_mark()?;
    remove_file(&root.join(HOME_FILE))?;
    remove_file(&root.join(TARGET_OWNER_FILE))?;
    remove_file(&root.join(MARKER_FILE))?;
    remove_emptied(root)
}

/// Removes the folder `log`, and the folders `log.*` of damaged logs that were set aside.
pub fn remove_logs(root: &Path) -> io::Result<()> {
    for entry in read_names(root)? {
        if entry == "log" || entry.starts_with("log.") {
            remove_folder(&root.join(entry), |name| {
                name == "new" || name.strip_suffix(".log").or(name.strip_suffix(".snapshot")).is_some_and(is_number)
            })?;
        }
    }
    Ok(())
}

/// Removes a folder if it is empty. Returns the files in it otherwise, or if it cannot be removed.
pub fn remove_emptied(root: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::remove_dir(root) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(_) => Ok(files_below(root)),
        Ok(()) => Ok(Vec::new()),
    }
}

/// Removes the files in a folder whose names `is_own` accepts, and then the folder if it is empty.
fn remove_folder(folder: &Path, is_own: impl Fn(&str) -> bool) -> io::Result<()> {
    for name in read_names(folder)?.into_iter().filter(|name| is_own(name)) {
        remove_file(&folder.join(name))?;
    }
    match fs::remove_dir(folder) {
        Err(e) if !matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => Err(e),
        _ => Ok(()),
    }
}

/// The names in a folder that are UTF-8, as all of Terrace's are. Empty if there is no folder.
fn read_names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

fn is_number(name: &str) -> bool {
    name.len() == 16 && u64::from_str_radix(name, 16).is_ok()
}

/// All files and empty folders below a folder. The folder itself if it is empty.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let mut is_empty = true;
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            is_empty = false;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder { &mut folders } else { &mut found }.push(entry.path());
        }
        if is_empty {
            found.push(folder);
        }
    }
    found.sort();
    found
}
