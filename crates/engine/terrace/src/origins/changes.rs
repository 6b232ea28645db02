//! Commits what origins have said about names.

use terrace_catalog::{Change, Child, Edit, Expect, Kind, Object};
use terrace_format::key;
use terrace_tier::{OriginEntry, OriginKind};

use super::Origins;
use super::attribute::{Pinned, attributes_of, note_listed};
use crate::config::OriginConfig;
use crate::{Error, Result};

/// The number of names in one commit.
const NAMES_PER_COMMIT: usize = 512;
/// The number of names that are read at a time.
const NAMES_PER_PAGE: usize = 1024;

impl Origins {
    /// Makes the catalog show an entry at a key, or nothing.
    pub(super) fn apply(&self, origin: &OriginConfig, key: &[u8], entry: Option<OriginEntry>) -> Result<()> {
        let mut batch = Batch { origins: self, changes: Vec::new() };
        // A folder above it may still be shown as the file that was there before.
        let above = key.iter().enumerate().skip(origin.prefix.len() + 1).filter(|(_, byte)| **byte == b'/');
        for (at, _) in above.filter(|_| entry.is_some()) {
            let now = self.catalog.object(&key[..at])?;
            if now.as_ref().is_some_and(|object| object.attributes.kind != Kind::Directory) {
                batch.set(origin, &key[..at], now, Some(folder_entry(0)))?;
                batch.commit()?;
            }
        }
        batch.set(origin, key, self.catalog.object(key)?, entry)?;
        batch.commit().map(drop)
    }

    /// Makes the catalog show these entries in a folder, and no others.
    pub(super) fn apply_listing(
        &self,
        origin: &OriginConfig,
        folder: &[u8],
        mut entries: Vec<OriginEntry>,
        began: i64,
    ) -> Result<()> {
        let key_of = |name: &[u8]| [folder, b"/", name].concat();
        let listed = entries.len();
        entries.retain(|entry| {
            !entry.name.is_empty() && !entry.name.contains(&b'/') && key::check(&key_of(&entry.name)).is_ok()
        });
        // A bucket may have both a blob and a common prefix of one name. Then the blob is left out, as file systems over buckets do.
        entries.sort_by(|a, b| (&a.name, a.kind != OriginKind::Folder).cmp(&(&b.name, b.kind != OriginKind::Folder)));
        entries.dedup_by(|later, first| later.name == first.name);
        let left_out = (listed - entries.len()) as u64;
        let mut children: Vec<Child> = Vec::new();
        let mut next = Some(Vec::new());
        while let Some(from) = next {
            let page;
            (page, next) = self.catalog.children(folder, &from, NAMES_PER_PAGE)?;
            children.extend(page);
        }
        children.sort_by(|a, b| a.name.cmp(&b.name));
        let mut batch = Batch { origins: self, changes: Vec::new() };
        let mut known = children.into_iter().peekable();
        for entry in entries {
            while let Some(gone) = known.next_if(|child| child.name < entry.name) {
                batch.remove_child(origin, &key_of(&gone.name), gone.object)?;
            }
            let child = known.next_if(|child| child.name == entry.name);
            batch.set(origin, &key_of(&entry.name), child.and_then(|child| child.object), Some(entry))?;
            batch.commit_if_long()?;
        }
        for gone in known {
            batch.remove_child(origin, &key_of(&gone.name), gone.object)?;
            batch.commit_if_long()?;
        }
        batch.commit()?;
        terrace_system::fail::point("origin:listed");
        let Some(object) = self.catalog.object(folder)? else { return Ok(()) };
        let mut attributes = object.attributes.clone();
        note_listed(&mut attributes, began, left_out);
        let expect = vec![Expect::Names(folder.to_vec(), object.id)];
        let edits = vec![Edit::SetAttributes { key: folder.to_vec(), attributes }];
        ignore_conflict(self.catalog.commit(Change { expect, edits }).map_err(Error::from).map(drop)).map(drop)
    }

    /// Removes what the origin with this number shows at or below a key. Returns the number of objects.
    pub fn remove_below(&self, number: u32, prefix: &[u8]) -> Result<u64> {
        let mut removed = 0;
        loop {
            let mut batch = Batch { origins: self, changes: Vec::new() };
            let (mut after, mut is_end): (Option<Vec<u8>>, bool) = (None, false);
            while batch.changes.len() < NAMES_PER_COMMIT && !is_end {
                let page = self.catalog.list(prefix, after.as_deref(), NAMES_PER_PAGE)?;
                is_end = page.is_empty();
                for (key, object) in page {
                    if Pinned::of(&object).is_some_and(|pinned| pinned.number == number) {
                        batch.changes.push(remove(&key, &object));
                    }
                    after = Some(key);
                }
            }
            if batch.changes.is_empty() {
                return Ok(removed);
            }
            removed += batch.changes.len() as u64;
            batch.commit()?;
        }
    }

    /// Puts the folder of a new origin into the catalog.
    ///
    /// # Errors
    /// [`Error::Conflict`] if something is at or below it, or a file is above it.
    pub fn make_root(&self, origin: &OriginConfig) -> Result<()> {
        let key = origin.prefix.as_bytes();
        let conflict = |reason: &str| Error::Conflict { key: origin.prefix.clone(), reason: reason.to_owned() };
        if self.catalog.holds_any(key)? || self.catalog.object(key)?.is_some() {
            return Err(conflict("the store has objects there already; choose a prefix without any"));
        }
        let root = folder_entry(terrace_system::clock::unix_nanos());
        let edit = self.put(origin, key, &root)?;
        let expect = vec![Expect::Absent(key.to_vec()), Expect::Free(key.to_vec())];
        self.catalog.commit(Change { expect, edits: vec![edit] })?;
        Ok(())
    }

    fn put(&self, origin: &OriginConfig, key: &[u8], entry: &OriginEntry) -> Result<Edit> {
        let (key, object, length) = (key.to_vec(), self.catalog.next_id()?, entry.length);
        let attributes = attributes_of(origin.number, entry);
        Ok(Edit::Put { key, object, length, want: 1, attributes, staged: false, extents: Vec::new() })
    }
}

fn folder_entry(modified: i64) -> OriginEntry {
    let (name, identity) = (Vec::new(), String::new());
    OriginEntry { name, kind: OriginKind::Folder, length: 0, modified, mode: None, identity }
}

/// Returns whether an object holds bytes of its own, and says that it stays. A process that did not know of the origin yet has written it.
fn is_own(origin: &OriginConfig, key: &[u8], now: &Option<Object>) -> bool {
    let holds_bytes = |object: &&Object| object.attributes.kind != Kind::Directory && Pinned::of(object).is_none();
    let is_own = now.as_ref().is_some_and(|object| holds_bytes(&object));
    if is_own {
        let (key, origin) = (key::show(key), &origin.url);
        tracing::warn!(
            key,
            origin,
            "an object that was written while the origin was added stays in the place of the origin's file; `terrace get` saves it"
        );
    }
    is_own
}

fn remove(key: &[u8], object: &Object) -> Change {
    let edits = vec![Edit::Remove { key: key.to_vec() }];
    Change { expect: vec![Expect::Names(key.to_vec(), object.id)], edits }
}

/// Returns whether a change was carried out. If not, another process was first, and the next look sees what it did.
fn ignore_conflict(committed: Result<()>) -> Result<bool> {
    match committed {
        Ok(()) => Ok(true),
        Err(Error::Conflict { .. } | Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Changes of names that are to be committed.
struct Batch<'a> {
    origins: &'a Origins,
    changes: Vec<Change>,
}

impl Batch<'_> {
    /// Makes a key show an entry, or nothing, in the place of what it shows now.
    fn set(
        &mut self,
        origin: &OriginConfig,
        key: &[u8],
        now: Option<Object>,
        entry: Option<OriginEntry>,
    ) -> Result<()> {
        let Some(entry) = entry else { return self.remove_child(origin, key, now) };
        if now.as_ref().is_some_and(|object| Pinned::is(object, origin.number, &entry)) || is_own(origin, key, &now) {
            return Ok(());
        }
        let was_folder = now.as_ref().is_none_or(|object| object.attributes.kind == Kind::Directory);
        if was_folder && entry.kind != OriginKind::Folder && self.origins.catalog.holds_any(key)? {
            // A file cannot be above other keys, so these are removed first.
            self.remove_child(origin, key, now)?;
            self.commit()?;
            let put = self.origins.put(origin, key, &entry)?;
            self.push(vec![Expect::Absent(key.to_vec()), Expect::Free(key.to_vec())], put);
            return Ok(());
        }
        let here = match &now {
            Some(object) => Expect::Names(key.to_vec(), object.id),
            None => Expect::Absent(key.to_vec()),
        };
        let put = self.origins.put(origin, key, &entry)?;
        // A folder may be above other keys.
        let free = (entry.kind != OriginKind::Folder).then(|| Expect::Free(key.to_vec()));
        self.push([Some(here), free].into_iter().flatten().collect(), put);
        Ok(())
    }

    fn push(&mut self, expect: Vec<Expect>, edit: Edit) {
        self.changes.push(Change { expect, edits: vec![edit] });
    }

    /// Removes what a key shows, and all below it.
    fn remove_child(&mut self, origin: &OriginConfig, key: &[u8], now: Option<Object>) -> Result<()> {
        if is_own(origin, key, &now) {
            return Ok(());
        }
        match now {
            Some(object) if object.attributes.kind != Kind::Directory => self.changes.push(remove(key, &object)),
            _ => drop(self.origins.remove_below(origin.number, key)?),
        }
        Ok(())
    }

    fn commit_if_long(&mut self) -> Result<()> {
        if self.changes.len() >= NAMES_PER_COMMIT { self.commit().map(drop) } else { Ok(()) }
    }

    /// Commits the changes: all at once, or if another process was faster, one by one. Returns whether all were carried out.
    fn commit(&mut self) -> Result<bool> {
        let changes = std::mem::take(&mut self.changes);
        if changes.is_empty() {
            return Ok(true);
        }
        let commit =
            |change: Change| ignore_conflict(self.origins.catalog.commit(change).map_err(Error::from).map(drop));
        let (mut expect, mut edits) = (Vec::new(), Vec::new());
        for change in &changes {
            expect.extend(change.expect.iter().cloned());
            edits.extend(change.edits.iter().cloned());
        }
        if commit(Change { expect, edits })? {
            return Ok(true);
        }
        let mut is_done = true;
        for change in changes {
            is_done &= commit(change)?;
        }
        Ok(is_done)
    }
}
