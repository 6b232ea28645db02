//! Renames files and directories.

use std::sync::Arc;

use terrace_catalog::{Change, Edit, Expect, Kind};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::open::Open;
use super::path::{check, check_new, parent};
use super::{FileError, FileResult, Files, Shared, Stat};
use crate::Error;

/// The number of keys in a page of a listing.
const KEYS_PER_PAGE: usize = 1024;

impl Files {
    /// Renames an object, with all objects below its key if there are any, and replaces one that has the new key. Unlike for
    /// [`Files::rename`], the directory of the new key need not exist, if nothing lies below the old one.
    pub fn rename_tree(&self, from: &[u8], to: &[u8]) -> FileResult<()> {
        let store = &self.shared.store;
        match store.list(from, None, 2)?.iter().any(|(key, _)| key.as_slice() != from) {
            true => self.rename(from, to, true),
            false => Ok(store.rename(from, to)?),
        }
    }

    /// Renames a file, a symbolic link or a directory. If `replace`, an existing entry at `to` is replaced: a file or link
    /// by a file or link, an empty directory by a directory.
    pub fn rename(&self, from: &[u8], to: &[u8], replace: bool) -> FileResult<()> {
        let shared = &self.shared;
        let _names = shared.names.lock();
        check(from)?;
        check_new(to)?;
        shared.directory(parent(from))?;
        shared.directory(parent(to))?;
        let moved = shared.find(from)?.ok_or_else(|| shared.missing(from))?;
        let target = shared.find(to)?;
        if !replace && target.is_some() {
            return Err(FileError::Exists(key::show(to)));
        }
        if from.is_empty() || from != to && key::below(to, from) {
            return Err(FileError::Invalid {
                path: key::show(from),
                reason: "a directory cannot be moved into itself",
            });
        }
        if from == to {
            return Ok(());
        }
        match (moved.kind == Kind::Directory, target) {
            (true, target) => shared.rename_directory(from, to, target),
            // The error that the system gives if `to` is a directory above `from`, whatever is renamed.
            (false, Some(_)) if key::below(from, to) => Err(FileError::NotEmpty(key::show(to))),
            (false, Some(target)) if target.kind == Kind::Directory => Err(FileError::IsDirectory(key::show(to))),
            (false, target) => shared.rename_file(from, to, &moved, target.and_then(|target| target.id)),
        }
    }
}

impl Shared {
    fn rename_file(&self, from: &[u8], to: &[u8], moved: &Stat, replaced: Option<u64>) -> FileResult<()> {
        let id = moved.id.unwrap_or_default();
        let mut expect = vec![Expect::Names(from.to_vec(), id), Expect::Free(to.to_vec())];
        expect.push(match replaced {
            Some(old) => Expect::Names(to.to_vec(), old),
            None => Expect::Absent(to.to_vec()),
        });
        let open = self.open.find(id);
        let mut state = open.as_ref().map(|open| open.state.write());
        let mut go = |gone: Option<Edit>| {
            let mut edits: Vec<Edit> = gone.into_iter().collect();
            edits.push(Edit::Rename { from: from.to_vec(), to: to.to_vec() });
            edits.extend(self.changed(from, to)?);
            edits.extend(self.touch(parent(from))?);
            if parent(from) != parent(to) {
                edits.extend(self.touch(parent(to))?);
            }
            self.commit(Change { expect: expect.clone(), edits })?;
            self.store.engine.mover.note_rename(from, to);
            if let Some(state) = &mut state {
                state.key = to.to_vec();
            }
            Ok(())
        };
        match replaced {
            // The rename itself replaces the object, unless that is open and must be hidden first.
            Some(old) if self.open.find(old).is_some() => self.unlink(to, old, |gone| go(Some(gone))),
            _ => go(None),
        }
    }

    fn rename_directory(&self, from: &[u8], to: &[u8], target: Option<Stat>) -> FileResult<()> {
        let full = || FileError::NotEmpty(key::show(to));
        if let Some(target) = &target {
            if target.kind != Kind::Directory {
                return Err(FileError::NotDirectory(key::show(to)));
            }
            if self.store.engine.catalog.holds_any(to)? {
                return Err(full());
            }
        }
        let mut edits = Vec::new();
        let mut renamed = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let mut page = self.store.list(from, after.as_deref(), KEYS_PER_PAGE)?;
            for (old, _) in &page {
                let new = [to, &old[from.len()..]].concat();
                check(&new)?;
                edits.push(Edit::Rename { from: old.clone(), to: new.clone() });
                renamed.push((old.clone(), new));
            }
            match page.pop() {
                Some((last, _)) => after = Some(last),
                None => break,
            }
        }
        edits.extend(self.changed(from, to)?);
        edits.extend(self.touch(parent(from))?);
        if parent(from) != parent(to) {
            edits.extend(self.touch(parent(to))?);
        }
        // The open files below get their new keys. The lock of names is held, so no name changes meanwhile, and the files'
        // locks are taken in the order of their numbers.
        let mut open: Vec<Arc<Open>> = self.open.all();
        open.retain(|open| key::below(&open.state.read().key, from));
        open.sort_by_key(|open| open.id);
        let mut states: Vec<_> = open.iter().map(|open| open.state.write()).collect();
        self.commit(Change { expect: vec![Expect::Free(to.to_vec())], edits }).map_err(|error| match error {
            FileError::Engine(Error::Conflict { .. }) => full(),
            other => other,
        })?;
        for (old, new) in &renamed {
            self.store.engine.mover.note_rename(old, new);
        }
        for state in &mut states {
            state.key = [to, &state.key[from.len()..]].concat();
        }
        Ok(())
    }

    /// Returns the edit that records the time of the rename in the renamed object.
    fn changed(&self, from: &[u8], to: &[u8]) -> FileResult<Option<Edit>> {
        let Some(object) = self.object(from)? else { return Ok(None) };
        let stat = Stat { changed: unix_nanos(), ..Stat::of(&object, self.owner) };
        let attributes = stat.attributes(object.attributes.user, self.owner);
        Ok(Some(Edit::SetAttributes { key: to.to_vec(), attributes }))
    }
}
