//! The kernel's numbers for files, and which paths they mean now.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// The root's number.
pub const ROOT: u64 = 1;
/// Set in numbers of directories that are no objects.
const IMPLIED: u64 = 1 << 63;

struct Node {
    parent: u64,
    name: Vec<u8>,
    /// The object; none for a directory that was none when it was looked up.
    object: Option<u64>,
    directory: bool,
    lookups: u64,
    /// It was removed, and lives only as long as it is open.
    gone: bool,
}

/// What the kernel knows. A renamed directory takes along what is below it.
#[derive(Default)]
pub struct Nodes {
    all: HashMap<u64, Node>,
    names: HashMap<(u64, Vec<u8>), u64>,
}

impl Nodes {
    /// The path of a number, if it has one.
    pub fn path(&self, mut number: u64) -> Option<Vec<u8>> {
        let mut names = Vec::new();
        while number != ROOT {
            let node = self.all.get(&number).filter(|node| !node.gone)?;
            names.push(node.name.as_slice());
            number = node.parent;
        }
        names.reverse();
        Some(names.join(&b'/'))
    }

    /// The path of a name in a directory.
    pub fn child(&self, parent: u64, name: &[u8]) -> Option<Vec<u8>> {
        let mut path = self.path(parent)?;
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Some(path)
    }

    /// The object that a number means.
    pub fn object(&self, number: u64) -> Option<u64> {
        self.all.get(&number)?.object
    }

    /// The number that a name in a directory has or would get.
    pub fn number(&self, parent: u64, name: &[u8], object: Option<u64>) -> u64 {
        let known = self.names.get(&(parent, name.to_vec())).filter(|number| {
            let node = self.all.get(number);
            node.is_some_and(|node| object.is_none() || node.object.is_none() || node.object == object)
        });
        match (known, object) {
            (Some(number), _) => *number,
            (None, Some(object)) => object + ROOT,
            (None, None) => {
                let mut hasher = DefaultHasher::new();
                (parent, name).hash(&mut hasher);
                hasher.finish() | IMPLIED
            }
        }
    }

    /// Notes that the kernel was told of a name once more; its number.
    pub fn found(&mut self, parent: u64, name: &[u8], object: Option<u64>, directory: bool) -> u64 {
        let place = (parent, name.to_vec());
        if let Some(number) = self.names.get(&place)
            && let Some(node) = self.all.get_mut(number)
            && (node.directory && directory || node.object == object)
        {
            node.object = object.or(node.object);
            node.lookups += 1;
            return *number;
        }
        self.removed(parent, name);
        let number = self.number(parent, name, object);
        let node = self.all.entry(number).or_insert_with(|| Node {
            parent,
            name: place.1.clone(),
            object,
            directory,
            lookups: 0,
            gone: false,
        });
        node.lookups += 1;
        // It may have been renamed by another process.
        if node.parent != parent || node.name != name {
            let before =
                (std::mem::replace(&mut node.parent, parent), std::mem::replace(&mut node.name, name.to_vec()));
            if self.names.get(&before) == Some(&number) {
                self.names.remove(&before);
            }
        }
        if let Some(node) = self.all.get_mut(&number) {
            node.gone = false;
        }
        self.names.insert(place, number);
        number
    }

    /// The kernel forgets a number so many times.
    pub fn forget(&mut self, number: u64, times: u64) {
        let Some(node) = self.all.get_mut(&number) else { return };
        node.lookups = node.lookups.saturating_sub(times);
        if node.lookups == 0 {
            let place = (node.parent, std::mem::take(&mut node.name));
            if self.names.get(&place) == Some(&number) {
                self.names.remove(&place);
            }
            self.all.remove(&number);
        }
    }

    /// A name was removed.
    pub fn removed(&mut self, parent: u64, name: &[u8]) {
        if let Some(number) = self.names.remove(&(parent, name.to_vec()))
            && let Some(node) = self.all.get_mut(&number)
        {
            node.gone = true;
        }
    }

    /// A name was changed; what had the new one is removed.
    pub fn renamed(&mut self, from: (u64, &[u8]), to: (u64, &[u8])) {
        if from == to {
            return;
        }
        self.removed(to.0, to.1);
        if let Some(number) = self.names.remove(&(from.0, from.1.to_vec()))
            && let Some(node) = self.all.get_mut(&number)
        {
            (node.parent, node.name) = (to.0, to.1.to_vec());
            self.names.insert((to.0, to.1.to_vec()), number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_directory_takes_along_what_is_below() {
        let mut nodes = Nodes::default();
        let directory = nodes.found(ROOT, b"d", None, true);
        let file = nodes.found(directory, b"f", Some(7), false);
        let other = nodes.found(ROOT, b"e", Some(8), true);
        assert_eq!(nodes.path(file).as_deref(), Some(b"d/f".as_slice()));
        nodes.renamed((ROOT, b"d"), (other, b"x"));
        assert_eq!(nodes.path(file).as_deref(), Some(b"e/x/f".as_slice()));
        // It has become an object meanwhile, and keeps its number.
        assert_eq!(nodes.found(other, b"x", Some(9), true), directory);
        nodes.removed(directory, b"f");
        assert_eq!(nodes.path(file), None);
        assert_eq!(nodes.object(file), Some(7));
        nodes.forget(file, 1);
        assert_eq!(nodes.object(file), None);
        assert_ne!(nodes.found(directory, b"f", Some(10), false), file);
    }
}
