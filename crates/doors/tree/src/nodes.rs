//! The numbers of files, and the paths that they stand for.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::error::STALE_FILE;
use crate::{Error, Result};

/// The root's number.
pub const ROOT_NODE: u64 = 1;
/// The bit set in numbers of directories that are not objects.
const IMPLIED_DIRECTORY_BIT: u64 = 1 << 63;

/// Returns the number of a file by its object, which it has under every path.
pub fn number_of(object: u64) -> u64 {
    object + ROOT_NODE
}

struct Node {
    parent: u64,
    name: Vec<u8>,
    /// The object; `None` for a directory that had no object when it was last looked up.
    object: Option<u64>,
    directory: bool,
    lookups: u64,
    /// The number of nodes with this parent. The node is kept while there are any, because their paths need it.
    children: u64,
    /// Whether its name was removed, or means another file now. It then lives only while it is open.
    gone: bool,
}

/// The nodes that users of the tree know. A renamed directory moves its descendants along.
#[derive(Default)]
pub struct Nodes {
    all: HashMap<u64, Node>,
    names: HashMap<(u64, Vec<u8>), u64>,
    changes: u64,
}

impl Nodes {
    /// Counts removed and changed names. After a change, earlier lookups must be repeated.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the path of a number, if it has one.
    pub fn path(&self, mut number: u64) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        while number != ROOT_NODE {
            let node = self.all.get(&number).filter(|node| !node.gone)?;
            names.push(node.name.as_slice());
            number = node.parent;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// Returns the path of a number, or [`STALE_FILE`].
    pub fn path_of(&self, number: u64) -> Result<Vec<u8>> {
        self.path(number).ok_or(STALE_FILE)
    }

    /// Returns the path of a name in a directory.
    pub fn child_of(&self, parent: u64, name: &[u8]) -> Result<Vec<u8>> {
        if name.is_empty() || name.contains(&b'/') {
            return Err(Error::Refused(libc::EINVAL));
        }
        let mut path = self.path_of(parent)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Ok(path)
    }

    /// Returns a number's directory and its name, which is empty for the root.
    pub fn place(&self, number: u64) -> Result<(u64, Vec<u8>)> {
        if number == ROOT_NODE {
            return Ok((ROOT_NODE, Vec::new()));
        }
        let node = self.all.get(&number).filter(|node| !node.gone).ok_or(STALE_FILE)?;
        Ok((node.parent, node.name.clone()))
    }

    /// Returns the object of a number.
    pub fn object(&self, number: u64) -> Option<u64> {
        self.all.get(&number)?.object
    }

    /// Returns the number that a name in a directory has, or would get.
    pub fn number(&self, parent: u64, name: &[u8], object: Option<u64>) -> u64 {
        let known = self.names.get(&(parent, name.to_vec())).filter(|number| {
            let node = self.all.get(number);
            node.is_some_and(|node| object.is_none() || node.object.is_none() || node.object == object)
        });
        match (known, object) {
            (Some(number), _) => *number,
            (None, Some(object)) => number_of(object),
            (None, None) => {
                // A directory that was here before it was renamed keeps this number, so it is taken.
                let elsewhere = |number: &u64| {
                    self.all.get(number).is_some_and(|node| (node.parent, &*node.name) != (parent, name))
                };
                let mut candidates = (0u32..).map(|attempt| {
                    let mut hasher = DefaultHasher::new();
                    (parent, name, attempt).hash(&mut hasher);
                    hasher.finish() | IMPLIED_DIRECTORY_BIT
                });
                candidates.find(|number| !elsewhere(number)).unwrap_or(IMPLIED_DIRECTORY_BIT)
            }
        }
    }

    /// Counts a lookup of a name and returns its number.
    ///
    /// # Errors
    /// [`STALE_FILE`] if the directory is known to be below the entry found: other processes have moved both.
    pub fn found(&mut self, parent: u64, name: &[u8], object: Option<u64>, directory: bool) -> Result<u64> {
        let place = (parent, name.to_vec());
        if let Some(number) = self.names.get(&place)
            && let Some(node) = self.all.get_mut(number)
            && (node.object == object || node.directory && directory && (node.object.is_none() || object.is_none()))
        {
            node.object = object.or(node.object);
            node.lookups += 1;
            return Ok(*number);
        }
        self.take(parent, name);
        let number = self.number(parent, name, object);
        if self.is_above(number, parent) {
            return Err(STALE_FILE);
        }
        let is_new = !self.all.contains_key(&number);
        let node = self.all.entry(number).or_insert_with(|| Node {
            parent,
            name: place.1.clone(),
            object,
            directory,
            lookups: 0,
            children: 0,
            gone: false,
        });
        node.lookups += 1;
        node.gone = false;
        // Another process may have renamed it.
        let moved = node.parent != parent || node.name != name;
        if is_new {
            self.adopted(parent);
        } else if moved {
            self.put(number, parent, name);
        }
        self.names.insert(place, number);
        Ok(number)
    }

    /// Whether a number equals another one or is one of its ancestors.
    fn is_above(&self, number: u64, mut below: u64) -> bool {
        while below != number {
            match self.all.get(&below) {
                Some(node) => below = node.parent,
                None => return false,
            }
        }
        true
    }

    /// Moves a number to another place.
    fn put(&mut self, number: u64, parent: u64, name: &[u8]) {
        let Some(node) = self.all.get_mut(&number) else { return };
        let before = (std::mem::replace(&mut node.parent, parent), std::mem::replace(&mut node.name, name.to_vec()));
        if self.names.get(&before) == Some(&number) {
            self.names.remove(&before);
        }
        self.adopted(parent);
        self.left(before.0);
    }

    fn adopted(&mut self, parent: u64) {
        if let Some(node) = self.all.get_mut(&parent) {
            node.children += 1;
        }
    }

    fn left(&mut self, parent: u64) {
        if let Some(node) = self.all.get_mut(&parent) {
            node.children -= 1;
        }
        self.drop_unused(parent);
    }

    /// Adds a lookup to a number.
    pub fn again(&mut self, number: u64) {
        if let Some(node) = self.all.get_mut(&number) {
            node.lookups += 1;
        }
    }

    /// Takes `times` lookups away from a number.
    pub fn forget(&mut self, number: u64, times: u64) {
        if let Some(node) = self.all.get_mut(&number) {
            node.lookups = node.lookups.saturating_sub(times);
            self.drop_unused(number);
        }
    }

    /// Drops a number without lookups, and then its directory's number if that is unused too.
    fn drop_unused(&mut self, mut number: u64) {
        while self.all.get(&number).is_some_and(|node| node.lookups == 0 && node.children == 0) {
            let Some(node) = self.all.remove(&number) else { return };
            let place = (node.parent, node.name);
            if self.names.get(&place) == Some(&number) {
                self.names.remove(&place);
            }
            number = place.0;
            if let Some(parent) = self.all.get_mut(&number) {
                parent.children -= 1;
            }
        }
    }

    /// Handles the removal of a name.
    pub fn removed(&mut self, parent: u64, name: &[u8]) {
        self.changes += 1;
        self.take(parent, name);
    }

    /// Detaches a known name whose meaning has changed.
    fn take(&mut self, parent: u64, name: &[u8]) {
        if let Some(number) = self.names.remove(&(parent, name.to_vec())) {
            self.changes += 1;
            if let Some(node) = self.all.get_mut(&number) {
                node.gone = true;
            }
        }
    }

    /// Handles a renaming; an entry that had the new name is removed.
    pub fn renamed(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) {
        if from == to {
            return;
        }
        self.removed(to.0, to.1);
        if let Some(number) = self.names.remove(&(from.0, from.1.to_vec())) {
            self.put(number, to.0, to.1);
            self.names.insert((to.0, to.1.to_vec()), number);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_directory_takes_along_what_is_below() {
        let mut nodes = Nodes::default();
        let directory = nodes.found(ROOT_NODE, b"d", None, true).unwrap();
        let file = nodes.found(directory, b"f", Some(7), false).unwrap();
        let other = nodes.found(ROOT_NODE, b"e", Some(8), true).unwrap();
        assert_eq!(nodes.path(file).as_deref(), Some(b"d/f".as_slice()));
        nodes.renamed((ROOT_NODE, b"d"), (other, b"x"));
        assert_eq!(nodes.path(file).as_deref(), Some(b"e/x/f".as_slice()));
        // It has become an object meanwhile; it keeps its number.
        assert_eq!(nodes.found(other, b"x", Some(9), true).unwrap(), directory);
        nodes.removed(directory, b"f");
        assert_eq!(nodes.path(file), None);
        assert_eq!(nodes.object(file), Some(7));
        nodes.forget(file, 1);
        assert_eq!(nodes.object(file), None);
        assert_ne!(nodes.found(directory, b"f", Some(10), false).unwrap(), file);
    }

    #[test]
    fn directories_are_kept_for_what_is_known_below_them() {
        let mut nodes = Nodes::default();
        let a = nodes.found(ROOT_NODE, b"a", Some(1), true).unwrap();
        let b = nodes.found(a, b"b", Some(2), true).unwrap();
        let c = nodes.found(b, b"c", Some(3), false).unwrap();
        nodes.forget(a, 1);
        nodes.forget(b, 1);
        assert_eq!(nodes.path(c).as_deref(), Some(b"a/b/c".as_slice()));
        // It was moved to a directory that only it keeps alive, and then forgotten.
        let d = nodes.found(ROOT_NODE, b"d", Some(4), true).unwrap();
        nodes.renamed((b, b"c"), (d, b"c"));
        nodes.forget(d, 1);
        assert_eq!(nodes.path(c).as_deref(), Some(b"d/c".as_slice()));
        assert_eq!((nodes.object(a), nodes.object(b)), (None, None));
        nodes.forget(c, 1);
        assert!(nodes.all.is_empty() && nodes.names.is_empty());
    }

    #[test]
    fn directories_that_others_swap_are_not_below_themselves() {
        let mut nodes = Nodes::default();
        let a = nodes.found(ROOT_NODE, b"a", Some(5), true).unwrap();
        let b = nodes.found(a, b"b", Some(6), true).unwrap();
        // mv a/b t; mv a t/a; mv t a
        assert_eq!(nodes.found(ROOT_NODE, b"a", Some(6), true).unwrap(), b);
        assert_eq!(nodes.found(b, b"a", Some(5), true).unwrap(), a);
        assert_eq!((nodes.path(b).as_deref(), nodes.path(a).as_deref()), (Some(&b"a"[..]), Some(&b"a/a"[..])));
        // While a directory is moved during its lookup, its ancestor may be found below it.
        assert!(nodes.found(a, b"x", Some(6), true).is_err());
        assert_eq!(nodes.path(a).as_deref(), Some(&b"a/a"[..]));
    }

    #[test]
    fn an_implicit_directory_keeps_its_number_when_another_gets_its_name() {
        let mut nodes = Nodes::default();
        let p = nodes.found(ROOT_NODE, b"p", None, true).unwrap();
        let n = nodes.found(p, b"n", None, true).unwrap();
        nodes.renamed((p, b"n"), (ROOT_NODE, b"m"));
        nodes.renamed((ROOT_NODE, b"p"), (n, b"p"));
        let other = nodes.found(p, b"n", None, true).unwrap();
        assert_ne!(other, n);
        assert_eq!((nodes.path(n).as_deref(), nodes.path(other).as_deref()), (Some(&b"m"[..]), Some(&b"m/p/n"[..])));
    }

    #[test]
    fn looking_up_an_unknown_name_changes_nothing() {
        let mut nodes = Nodes::default();
        nodes.found(ROOT_NODE, b"a", Some(1), true).unwrap();
        nodes.found(ROOT_NODE, b"b", Some(2), false).unwrap();
        nodes.found(ROOT_NODE, b"a", Some(1), true).unwrap();
        assert_eq!(nodes.changes(), 0);
        nodes.found(ROOT_NODE, b"a", Some(3), true).unwrap();
        assert_eq!(nodes.changes(), 1);
    }
}
