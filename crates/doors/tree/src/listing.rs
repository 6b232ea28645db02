//! Directory listings.

use terrace::Kind;

use crate::nodes::ROOT_NODE;
use crate::{Listed, Result, Tree, views};

/// The number of names that one page of a listing holds.
const NAMES_PER_PAGE: usize = 1024;

impl Tree {
    /// Lists all entries of a directory.
    pub fn list(&self, number: u64) -> Result<Vec<Listed>> {
        if views::is_view(number) {
            return self.views.list(number);
        }
        let nodes = self.nodes.read();
        let path = nodes.path_of(number)?;
        let mut all = Vec::new();
        if number == ROOT_NODE && self.views.any() {
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
