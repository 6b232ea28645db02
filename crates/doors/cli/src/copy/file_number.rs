//! Files that several names lead to. A file system that ignores case, or writes names in another way, treats two keys as one name.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The end of a message about two objects with one file.
pub const SAME_NAME: &str = "because the destination treats their names as the same, for instance since it ignores case; rename one of them by \
                             `terrace mv`, or name another destination";

/// The number of a file or folder, which no other one on its file system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileNumber {
    device: u64,
    inode: u64,
    /// The most names that it may have.
    names: u64,
}

impl FileNumber {
    pub fn of(found: &Metadata) -> FileNumber {
        // A folder counts those in it, too, and has one name.
        let names = if found.is_dir() { 1 } else { found.nlink().max(1) };
        FileNumber { device: found.dev(), inode: found.ino(), names }
    }

    /// Returns whether the file has several hard links.
    pub fn has_links(&self) -> bool {
        self.names > 1
    }
}

/// Finds the files that are at more places than they have names: the file system takes these places for one. Returns the numbers of the places
/// of each file, in order.
pub fn find_shared(places: impl Iterator<Item = Option<FileNumber>>) -> Vec<Vec<usize>> {
    let mut files: BTreeMap<(u64, u64), (u64, Vec<usize>)> = BTreeMap::new();
    for (place, number) in places.enumerate().filter_map(|(place, number)| Some((place, number?))) {
        let (names, places) = files.entry((number.device, number.inode)).or_default();
        *names = number.names;
        places.push(place);
    }
    files.into_values().filter(|(names, places)| places.len() as u64 > *names).map(|(_, places)| places).collect()
}

/// Finds the keys that are another one in upper and lower case. Returns their numbers, in order. A few others may be among them, since only
/// hashes are compared: there may be millions of keys.
pub fn find_alike<'k>(keys: impl Iterator<Item = &'k [u8]>) -> Vec<usize> {
    let hasher = RandomState::new();
    let folded = keys.map(|key| hasher.hash_one(String::from_utf8_lossy(key).to_lowercase()));
    let mut hashes: Vec<(u64, usize)> = folded.zip(0..).collect();
    hashes.sort_unstable();
    let alike = hashes.chunk_by(|a, b| a.0 == b.0).filter(|keys| keys.len() > 1);
    let mut found: Vec<usize> = alike.flatten().map(|(_, number)| *number).collect();
    found.sort_unstable();
    found
}

/// Returns whether a folder lists a file that is below it under this very name, and the folders between. Not every file system that ignores
/// case numbers its files by what they are.
pub fn is_listed(folder: &Path, path: &Path) -> bool {
    let lists = |path: &Path| {
        let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten();
        entries.flatten().any(|entry| Some(entry.file_name().as_os_str()) == path.file_name())
    };
    path.ancestors().take_while(|above| *above != folder).all(lists)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn keys_that_differ_in_case_are_alike_and_a_name_is_listed_as_it_is() {
        let keys = [b"Run/a".as_slice(), b"b", b"run/A", b"c", b"B/b", "É".as_bytes(), "é".as_bytes()];
        assert_eq!(find_alike(keys.into_iter()), [0, 2, 5, 6]);
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("Run")).unwrap();
        fs::write(dir.path().join("Run/a"), "a").unwrap();
        let is_listed = |name: &str| is_listed(dir.path(), &dir.path().join(name));
        assert!(is_listed("Run/a") && !is_listed("Run/A") && !is_listed("run/a") && !is_listed("none"));
    }

    #[test]
    fn places_of_one_file_are_found_unless_they_are_hard_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a"), "a").unwrap();
        fs::write(path("b"), "b").unwrap();
        fs::create_dir_all(path("folder/below")).unwrap();
        let shared = |names: &[&str]| {
            find_shared(
                names.iter().map(|name| fs::symlink_metadata(path(name)).ok().map(|found| FileNumber::of(&found))),
            )
        };
        assert_eq!(shared(&["a", "b", "none", "none", "folder", "folder/below"]), [[0_usize; 0]; 0]);
        assert_eq!(shared(&["b", "none", "a", "./b", "folder", "folder/../folder"]), [vec![0, 3], vec![4, 5]]);
        fs::hard_link(path("a"), path("link")).unwrap();
        assert_eq!(shared(&["a", "link"]), [[0_usize; 0]; 0]);
        assert_eq!(shared(&["a", "link", "./a"]), [vec![0, 1, 2]]);
    }
}
