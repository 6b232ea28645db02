//! Files that were unlinked, and to which something was added at the last moment: an open descriptor alone leads to them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use super::Identity;
use super::writers::{Leased, give_lease, take_lease};
use crate::request::Name;

/// Files without a name, by those that they had.
#[derive(Default)]
pub struct Added(BTreeMap<Name, File>);

fn is_quiet(file: &File) -> bool {
    let is_quiet = take_lease(file) != Leased::Writers;
    give_lease(file);
    is_quiet
}

impl Added {
    pub fn insert(&mut self, name: &Name, file: File) {
        self.0.insert(name.clone(), file);
    }

    pub fn get(&self, name: &Name) -> Option<&File> {
        self.0.get(name)
    }

    pub fn contains(&self, name: &Name) -> bool {
        self.0.contains_key(name)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that nobody writes to any more, but those that are `known`.
    pub fn complete(&self, known: impl Fn(&Name) -> bool) -> Vec<Name> {
        let complete = self.0.iter().filter(|(name, file)| !known(name) && is_quiet(file));
        complete.map(|(name, _)| name.clone()).collect()
    }

    /// Ends with a file that is delivered as `identity`, if it is still so and nobody writes to it; whether it did.
    pub fn end(&mut self, name: &Name, identity: &Identity) -> io::Result<bool> {
        let Some(file) = self.0.get(name) else { return Ok(false) };
        // In this order: what is written after the first look changes what the second one sees.
        let is_quiet = is_quiet(file);
        let ends = is_quiet && Identity::of(&file.metadata()?).has_same_bytes(identity);
        if ends {
            self.0.remove(name);
        }
        Ok(ends)
    }
}
