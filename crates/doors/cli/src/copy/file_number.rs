//! Files that several names lead to. A file system that ignores case, or writes names in another way, takes two keys for one name.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The words about places of one file.
pub const SAME_NAME: &str = "since the destination takes their names for the same, as where upper and lower case do not differ; rename one of them by \
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

    /// Returns whether another name of the file would be a hard link.
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
