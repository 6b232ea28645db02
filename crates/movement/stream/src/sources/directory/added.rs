//! Unlinked files that were changed at the last moment. Only an open descriptor still refers to them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use super::Identity;
use super::writers::{Leased, give_lease, take_lease};
use crate::request::Name;

/// Unlinked files by their former names.
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

    /// Returns the files without writers, except those that are `known`.
    pub fn complete(&self, known: impl Fn(&Name) -> bool) -> Vec<Name> {
        let complete = self.0.iter().filter(|(name, file)| !known(name) && is_quiet(file));
        complete.map(|(name, _)| name.clone()).collect()
    }

    /// Drops a file delivered as `identity` if it is unchanged and has no writers. Returns whether it was dropped.
    pub fn end(&mut self, name: &Name, identity: &Identity) -> io::Result<bool> {
        let Some(file) = self.0.get(name) else { return Ok(false) };
        // Keep this order: a write after the first check changes what the second check sees.
        let is_quiet = is_quiet(file);
        let ends = is_quiet && Identity::of(&file.metadata()?).has_same_bytes(identity);
        if ends {
            self.0.remove(name);
        }
        Ok(ends)
    }
}
