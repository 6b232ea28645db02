//! User attributes of files, which programs see as `user.` attributes through a mount and the preload library.

use std::collections::BTreeMap;

use terrace_catalog::{Change, Edit, Expect};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::asked::{AskingAttribute, LOCATION_NAME};
use super::stat::Stat;
use super::{FileError, FileResult, Files};
use crate::Error;

/// Prefixes of the names of Terrace's own attributes.
const OWN_PREFIXES: [&str; 2] = ["posix.", "terrace."];
/// The limit for the length of all user attributes of an object together, because each change of the object writes them all.
const MAX_PAIR_BYTES: usize = 16 << 10;
/// The number of attempts if others change the object at the same time.
const MAX_TRIES: usize = 16;

/// Whether an attribute may, must or must not exist when it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It may exist.
    Any,
    /// It must exist.
    There,
    /// It must not exist.
    Absent,
}

impl Files {
    /// Returns the user attributes of a file, a directory or a symbolic link, by name. Among them are those that ask for something:
    /// `terrace.require`, `terrace.replicas`, `terrace.ack` and `terrace.budget`.
    pub fn pairs(&self, path: &[u8]) -> FileResult<BTreeMap<String, String>> {
        self.stat(path)?;
        let object = self.shared.object(path)?;
        let kept = self.shared.store.engine.planning.kept.of(path, object.as_ref())?;
        let user = object.map(|object| object.attributes.user).unwrap_or_default();
        Ok(user.into_iter().filter(|(name, _)| !is_own(name)).chain(AskingAttribute::pairs(&kept)).collect())
    }

    /// Returns the value of a user attribute: one of [`pairs`](Self::pairs), or `terrace.location`, which says where a file's bytes are.
    /// That one is not among the others, so that copies of all attributes leave it out.
    pub fn pair(&self, path: &[u8], name: &str) -> FileResult<String> {
        if name == LOCATION_NAME {
            return self.location(path);
        }
        let missing = || FileError::NoAttribute { path: key::show(path), name: name.to_owned() };
        self.pairs(path)?.remove(name).ok_or_else(missing)
    }

    /// Sets a user attribute, or removes it if `value` is none. One that asks for something applies to the file's next writes, or to the
    /// files and directories that are created in a directory from now on.
    ///
    /// # Errors
    /// [`FileError::NotSupported`] for the root and for directories that exist only as a prefix of keys, for names that are
    /// Terrace's own, and if all attributes together are longer than 16 KiB. [`FileError::NotUnderstood`] for a wrong value of an
    /// attribute that asks for something.
    pub fn set_pair(&self, path: &[u8], name: &str, value: Option<&str>, presence: Presence) -> FileResult<()> {
        let refuse = |reason| Err(FileError::NotSupported { path: key::show(path), reason });
        let asking = AskingAttribute::named(name);
        if name == LOCATION_NAME {
            return refuse("terrace.location can only be read");
        }
        if is_own(name) && asking.is_none() {
            return refuse("attributes whose names begin with posix. or terrace. are the store's own");
        }
        self.stat(path)?;
        for _ in 0..MAX_TRIES {
            let Some(object) = self.shared.object(path)? else {
                return refuse(
                    "this directory has no attributes, because it exists only as a part of keys; create a file in it first",
                );
            };
            let mut stat = Stat::of(&object, self.shared.owner);
            stat.changed = unix_nanos();
            let mut user = object.attributes.user;
            let was = match (asking, value) {
                (Some(asking), value) => self.shared.ask(asking, &mut user, value, (path, name))?,
                (None, Some(value)) => user.insert(name.to_owned(), value.to_owned()),
                (None, None) => user.remove(name),
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
                return refuse("all its attributes together may have at most 16 KiB; remove or shorten some");
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
