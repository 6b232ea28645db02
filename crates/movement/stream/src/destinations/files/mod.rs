//! Files below a directory, which may be moved, or mounted over, while they are written.
//!
//! Each call looks where the path leads. If it leads to another directory than the open one, that one is opened, and nothing goes on in
//! the old one: a name whose delivery had begun there fails once, so that its delivery begins again and its state is checked again.

mod tree;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix_futex_sync::Mutex;

use super::{Destination, End, FolderId, Outcome};
use crate::entry::Position;
use crate::places::PlacesCheck;
use crate::request::Name;
use crate::runs::Run;
use crate::{Error, Failure, Result};
use tree::Tree;

/// Files below a directory. Neither a name nor a symbolic link below it can lead out of it.
pub struct Files {
    path: PathBuf,
    /// The directory that the path has last led to. A leaf.
    tree: Mutex<Arc<Tree>>,
    /// Held while another directory is opened, with I/O, so that only one thread does. Taken before `tree` and `check`.
    moving: Mutex<()>,
    /// Where the delivery of each name has begun. A leaf.
    begun: Mutex<HashMap<Name, Begun>>,
    /// It must pass before the path is followed to another directory. A leaf.
    check: Mutex<Option<PlacesCheck>>,
}

/// The delivery of a name.
struct Begun {
    /// The number of the directory that receives it.
    tree: u64,
    /// Whether it is a file, whose delivery ends, rather than requests.
    is_file: bool,
    /// Whether it had begun in another directory, and nobody has asked for this yet.
    has_moved: bool,
}

impl Files {
    /// Opens the directory `root`, creating it if it is missing.
    pub fn new(root: &Path) -> Result<Files> {
        let open = || {
            // With its symbolic links: if one of them is changed, the files go where it leads then.
            let path = std::path::absolute(root)?;
            make(&path)?;
            Ok((Arc::new(Tree::open(&path, 0)?), path))
        };
        let (tree, path) = open().map_err(Error::io(format!("opening {}", root.display())))?;
        Ok(Files {
            path,
            tree: Mutex::new(tree),
            moving: Mutex::default(),
            begun: Mutex::default(),
            check: Mutex::default(),
        })
    }

    /// Returns the directory that the path leads to.
    fn tree(&self) -> Outcome<Arc<Tree>> {
        let is_at_its_path = |tree: &Tree| {
            tree.is_at_its_path().map_err(|e| {
                let path = self.path.display();
                Failure::Later(format!("looking at {path}: {e}; put the directory back, or mount its file system"))
            })
        };
        let tree = self.tree.lock().clone();
        if is_at_its_path(&tree)? {
            return Ok(tree);
        }
        let _moving = self.moving.lock(); // see the field
        let old = self.tree.lock().clone();
        if is_at_its_path(&old)? {
            return Ok(old);
        }
        let new = Arc::new(self.open_another(&old)?);
        *self.tree.lock() = new.clone();
        tracing::warn!(
            "{} leads to another directory now: files go there from now on, and what was delivered before is in the earlier one",
            self.path.display()
        );
        Ok(new)
    }

    /// Opens the directory that the path leads to now.
    fn open_another(&self, old: &Tree) -> Outcome<Tree> {
        let path = self.path.display();
        let later = |reason: String| Failure::Later(reason);
        let new = Tree::open(&self.path, old.number + 1).map_err(|e| later(format!("opening {path}: {e}")))?;
        // Below an unmounted file system is the folder that it was mounted on: files there would be hidden once it is back.
        if let (Some(before), Some(now)) = (&old.mount, &new.mount)
            && before.at != now.at
            && !before.is_mounted()
        {
            return Err(later(format!(
                "{path} is not on the file system that was mounted at {}; mount it again, or end the stream and run it again to \
                 deliver to the directory that is there now",
                before.at.display()
            )));
        }
        let check = self.check.lock().clone();
        check.map_or(Ok(()), |check| check()).map_err(|e| later(e.to_string()))?;
        Ok(new)
    }

    /// Returns the directory that the path leads to, if it is the one in which the delivery of the name has begun.
    fn tree_of(&self, name: &[u8]) -> Outcome<Arc<Tree>> {
        let tree = self.tree()?;
        let mut all = self.begun.lock();
        if let Some(begun) = all.get_mut(name).filter(|begun| begun.tree != tree.number) {
            (begun.tree, begun.has_moved) = (tree.number, true);
            return Err(Failure::Later(format!(
                "{} leads to another directory now; the delivery of {} begins again",
                self.path.display(),
                String::from_utf8_lossy(name)
            )));
        }
        Ok(tree)
    }

    /// Does the same as `tree_of`, and notes that the delivery has begun there.
    fn begin(&self, name: &[u8], is_file: bool) -> Outcome<Arc<Tree>> {
        let tree = self.tree_of(name)?;
        let mut all = self.begun.lock();
        match all.get_mut(name) {
            Some(begun) => begun.is_file = is_file,
            None => drop(all.insert(name.into(), Begun { tree: tree.number, is_file, has_moved: false })),
        }
        drop(all);
        Ok(tree)
    }
}

/// Creates a folder and its missing parents, and makes their names durable.
fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make(above)?;
    std::fs::create_dir_all(folder)?;
    // Before a file is written in it: a power cut that takes the folder takes its files.
    File::open(above)?.sync_all()
}

impl Destination for Files {
    fn root(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn set_check(&self, check: Option<PlacesCheck>) {
        *self.check.lock() = check;
    }

    fn is_file(&self, name: &[u8], device: u64, inode: u64) -> bool {
        self.tree().is_ok_and(|tree| tree.is_file(name, device, inode))
    }

    fn length(&self, name: &[u8]) -> Outcome<Option<u64>> {
        self.tree_of(name)?.length(name)
    }

    fn folder(&self, name: &[u8]) -> Outcome<Option<FolderId>> {
        self.tree_of(name)?.folder_of(name)
    }

    fn resume(&self, name: &[u8], _: Position) -> Outcome<()> {
        self.begin(name, false).map(drop)
    }

    fn take_moved(&self, name: &[u8]) -> bool {
        self.begun.lock().get_mut(name).is_some_and(|begun| std::mem::take(&mut begun.has_moved))
    }

    fn write(&self, name: &[u8], _: Position, runs: &[Run]) -> Outcome<()> {
        self.begin(name, false)?.write(name, runs)
    }

    fn write_part(&self, name: &[u8], runs: &[Run], end: Option<&End>) -> Outcome<()> {
        self.begin(name, true)?.write_part(name, runs, end)
    }

    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()> {
        self.begin(name, false)?.set_length(name, length)
    }

    fn sync(&self, name: &[u8]) -> Outcome<()> {
        let tree = self.tree_of(name)?;
        // Incomplete files need no sync: after a crash they are written again from the first byte.
        if tree.has_begun(name) {
            return Ok(());
        }
        tree.sync(name)?;
        let mut begun = self.begun.lock();
        if begun.get(name).is_some_and(|begun| begun.is_file) {
            // Its removal looks itself whether the file is still at the path. So this map holds the names of requests only.
            begun.remove(name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::PathBuf;

    use bytes::Bytes;
    use terrace::Attributes;

    use super::tree::MAX_OPEN_FILES;
    use super::*;

    /// Completed files stayed open, without a bound, until the process had no descriptors left.
    #[test]
    fn few_files_stay_open_however_many_are_written() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::new(dir.path()).unwrap();
        for number in 0..MAX_OPEN_FILES * 2 + 10 {
            let name = number.to_string().into_bytes();
            let run = Run { offset: 0, bytes: Bytes::copy_from_slice(&name) };
            let end = End { length: name.len() as u64, attributes: Attributes::default() };
            assert!(files.write_part(&name, &[run], Some(&end)).is_ok());
            assert!(files.sync(&name).is_ok());
        }
        let is_here = |link: PathBuf| std::fs::read_link(link).is_ok_and(|file| file.starts_with(&files.path));
        let open = std::fs::read_dir("/proc/self/fd").unwrap().filter(|entry| is_here(entry.as_ref().unwrap().path()));
        assert!(open.count() <= MAX_OPEN_FILES + 1);
    }
}
