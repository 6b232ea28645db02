//! Open directories.

use fuser::{Errno, FileHandle, FileType, INodeNo};
use rustix_futex_sync::RwLock;

use super::{Answer, System, map_tree_errno};
use crate::answer::kind;
use crate::handles::Handles;

/// The content of an open directory when it was last read from the start.
pub type Listings = Handles<RwLock<Vec<Listed>>>;

/// An entry of an open directory.
pub struct Listed {
    pub number: u64,
    pub kind: FileType,
    pub name: Vec<u8>,
}

impl System {
    /// Passes the names from the given position to `add`, each with the position after it, until `add` is full.
    pub fn names(
        &self,
        number: INodeNo,
        handle: FileHandle,
        from: u64,
        mut add: impl FnMut(u64, &Listed) -> bool,
    ) -> Answer<()> {
        let listing = self.listings.get(handle.0).ok_or(Errno::EBADF)?;
        if from == 0 {
            *listing.write() = self.list(number)?;
        }
        for (next, listed) in (1..).zip(listing.read().iter()).skip(from as usize) {
            if add(next, listed) {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, number: INodeNo) -> Answer<Vec<Listed>> {
        let dots = [b".".to_vec(), b"..".to_vec()];
        let dots = dots.into_iter().map(|name| Listed { number: number.0, kind: FileType::Directory, name });
        let found = map_tree_errno(self.tree.list(number.0))?.into_iter();
        Ok(dots
            .chain(found.map(|one| Listed { number: one.number, kind: kind(one.kind, one.special), name: one.name }))
            .collect())
    }
}
