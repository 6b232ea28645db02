//! Directories that are open.

use fuser::{Errno, FileHandle, FileType, INodeNo};
use parking_lot::RwLock;

use super::{Answer, System, said};
use crate::answer::kind;
use crate::handles::Handles;
use crate::nodes::ROOT;
use crate::views;

/// Names are listed in pages of so many.
const PAGE: usize = 1024;

/// What open directories held when they were last read from the beginning.
pub type Listings = Handles<RwLock<Vec<Listed>>>;

/// A name in an open directory.
pub struct Listed {
    pub number: u64,
    pub kind: FileType,
    pub name: Vec<u8>,
}

impl System {
    /// Hands out the names from the given position on, each with the position behind it, until `add` has had enough.
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
        let listed = |(number, kind, name)| Listed { number, kind, name };
        if views::is(number.0) {
            return Ok(self.views.list(number.0)?.into_iter().map(listed).collect());
        }
        let nodes = self.nodes.read();
        let path = nodes.path(number.0).ok_or(Errno::ESTALE)?;
        let dots = [b".".to_vec(), b"..".to_vec()];
        let dot = |name| Listed { number: number.0, kind: FileType::Directory, name };
        let mut all: Vec<Listed> = dots.into_iter().map(dot).collect();
        let mut from = Vec::new();
        if number.0 == ROOT && self.views.any() {
            let attributes = self.views.lookup(ROOT, views::NAME.as_bytes())?;
            all.push(listed((attributes.ino.0, attributes.kind, views::NAME.into())));
        }
        loop {
            let (page, next) = said(self.files.list(&path, &from, PAGE))?;
            all.extend(page.into_iter().map(|entry| Listed {
                number: nodes.number(number.0, &entry.name, entry.id),
                kind: kind(entry.kind, entry.special),
                name: entry.name,
            }));
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(all)
    }
}
