//! Users' notes about files: pairs among an object's attributes, which a mount shows as `user.` attributes.

use std::collections::BTreeMap;

use terrace_catalog::{Change, Edit, Expect};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::stat::Stat;
use super::{FileError, FileResult, Files};
use crate::Error;

/// Names that begin so are those of Terrace's own pairs.
const OWN_PREFIXES: [&str; 2] = ["posix.", "terrace."];
/// All pairs of an object together are at most so long: they are written with each change of it.
const MAX_PAIR_BYTES: usize = 16 << 10;
/// So often it is tried again where others change the object meanwhile.
const MAX_TRIES: usize = 16;

/// Whether a pair may, must or must not be there when it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It may.
    Any,
    /// It must.
    There,
    /// It must not.
    Absent,
}

impl Files {
    /// Returns the notes about a file, a directory or a symbolic link, by name.
    pub fn pairs(&self, path: &[u8]) -> FileResult<BTreeMap<String, String>> {
        self.stat(path)?;
        let mut pairs = self.shared.object(path)?.map(|object| object.attributes.user).unwrap_or_default();
        pairs.retain(|name, _| !is_own(name));
        Ok(pairs)
    }

    /// Notes something under a name, or removes what was noted.
    ///
    /// # Errors
    /// [`FileError::NotSupported`] for the root and for directories that exist only as a part of keys, for names that are
    /// Terrace's own, and where all pairs together are longer than 16 KiB.
    pub fn set_pair(&self, path: &[u8], name: &str, value: Option<&str>, presence: Presence) -> FileResult<()> {
        let refuse = |reason| Err(FileError::NotSupported { path: key::show(path), reason });
        if is_own(name) {
            return refuse("attributes whose names begin with posix. or terrace. are the store's own");
        }
        self.stat(path)?;
        for _ in 0..MAX_TRIES {
            let Some(object) = self.shared.object(path)? else {
                return refuse("a directory that is only a part of keys has no attributes; make something in it first");
            };
            let mut stat = Stat::of(&object, self.shared.owner);
            stat.changed = unix_nanos();
            let mut user = object.attributes.user;
            let was = match value {
                Some(value) => user.insert(name.to_owned(), value.to_owned()),
                None => user.remove(name),
            };
            match (presence, was) {
                (Presence::There, None) => {
                    return Err(FileError::NoAttribute { path: key::show(path), name: name.to_owned() });
                }
                (Presence::Absent, Some(_)) => return Err(FileError::Exists(key::show(path))),
                _ => {}
            }
            if value.is_some()
                && user.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_PAIR_BYTES
            {
                return refuse("all its attributes together are at most 16 KiB long");
            }
            let attributes = stat.attributes(user, self.shared.owner);
            let expect = vec![Expect::Generation(path.to_vec(), object.generation)];
            let edit = Edit::SetAttributes { key: path.to_vec(), attributes };
            match self.shared.commit(Change { expect, edits: vec![edit] }) {
                Err(FileError::Engine(Error::Conflict { .. })) => {}
                other => return other,
            }
        }
        Err(FileError::stale(path))
    }
}

fn is_own(name: &str) -> bool {
    OWN_PREFIXES.iter().any(|own| name.starts_with(own))
}
