//! Directory listings.

use terrace::Kind;
use terrace::files::Special;

use crate::nodes::ROOT;
use crate::{Result, Tree, views};

/// The number of names that one page of a listing holds.
const NAMES_PER_PAGE: usize = 1024;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The number that the entry has, or would get.
    pub number: u64,
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// The type of a special file.
    pub special: Option<Special>,
    /// Its name.
    pub name: Vec<u8>,
}

impl Tree {
    /// Lists all entries of a directory.
    pub fn list(&self, number: u64) -> Result<Vec<Listed>> {
        if views::is(number) {
            return self.views.list(number);
        }
        let nodes = self.nodes.read();
        let path = nodes.path_of(number)?;
        let mut all = Vec::new();
        if number == ROOT && self.views.any() {
            all.push(Listed::view(views::VIEWS_NUMBER, Kind::Directory, views::VIEWS_NAME.to_owned()));
        }
        let mut from = Vec::new();
        loop {
            let (page, next) = self.files.list(&path, &from, NAMES_PER_PAGE)?;
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
