//! What is in a directory.

use terrace::Kind;
use terrace::files::Special;

use crate::nodes::ROOT;
use crate::{Result, Tree, views};

/// Names are listed in pages of so many.
const PAGE: usize = 1024;

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The number that it has, or would get.
    pub number: u64,
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// What it is where it is no file after all.
    pub special: Option<Special>,
    /// The name.
    pub name: Vec<u8>,
}

impl Tree {
    /// All names in a directory.
    pub fn list(&self, number: u64) -> Result<Vec<Listed>> {
        if views::is(number) {
            return self.views.list(number);
        }
        let nodes = self.nodes.read();
        let path = nodes.path_of(number)?;
        let mut all = Vec::new();
        if number == ROOT && self.views.any() {
            all.push(Listed::view(views::FOLDER, Kind::Directory, views::NAME.to_owned()));
        }
        let mut from = Vec::new();
        loop {
            let (page, next) = self.files.list(&path, &from, PAGE)?;
            all.extend(page.into_iter().map(|entry| Listed {
                number: nodes.number(number, &entry.name, entry.id),
                kind: entry.kind,
                special: entry.special,
                name: entry.name,
            }));
            match next {
                Some(next) => from = next,
                None => return Ok(all),
            }
        }
    }
}

impl Listed {
    pub(crate) fn view(number: u64, kind: Kind, name: String) -> Listed {
        Listed { number, kind, special: None, name: name.into_bytes() }
    }
}
