//! Creates and removes files, directories and links.

use terrace_catalog::{Change, Edit, Expect, Kind};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::path::{check_new, parent};
use super::{File, FileError, FileResult, Files, Owner, Shared, Special, Stat};
use crate::{Error, PutOptions};

/// The bit with which a directory passes its group on to new entries.
const SETGID_BIT: u32 = 0o2000;

impl Files {
    /// Creates a file and opens it. Opens an existing file instead, unless `exclusive`.
    pub fn create(&self, path: &[u8], mode: u32, owner: Owner, exclusive: bool) -> FileResult<File> {
        if check_new(path).is_ok() {
            self.shared.refresh(path)?;
        }
        let made = {
            let _names = self.shared.names.lock();
            let made = self.shared.new_object(path, Kind::File, None, mode, owner);
            made.map(|id| File::new(self.shared.clone(), self.shared.open.enter(id, path)))
        };
        match made {
            Err(FileError::Exists(_)) if !exclusive => self.open(path),
            made => made,
        }
    }

    /// Creates a directory.
    pub fn make_directory(&self, path: &[u8], mode: u32, owner: Owner) -> FileResult<()> {
        let _names = self.shared.names.lock();
        self.shared.new_object(path, Kind::Directory, None, mode, owner).map(drop)
    }

    /// Creates a named pipe, a socket or a device. Only a door that shows them, such as a mount, gives them a meaning.
    pub fn make_special(&self, path: &[u8], special: Special, mode: u32, owner: Owner) -> FileResult<()> {
        let _names = self.shared.names.lock();
        self.shared.new_object(path, Kind::File, Some(special), mode, owner).map(drop)
    }

    /// Creates a symbolic link to `to`, which may be any bytes.
    pub fn make_link(&self, path: &[u8], to: &[u8], owner: Owner) -> FileResult<()> {
        let shared = &self.shared;
        let _names = shared.names.lock();
        let stat = shared.fresh(path, Kind::Symlink, 0o777, owner)?;
        let attributes = stat.attributes(Default::default(), shared.owner);
        let put = PutOptions { attributes: Some(attributes), create_new: true, ..PutOptions::default() };
        shared.store.put_bytes(path, to, &put).map_err(|error| in_the_way(path, error.into()))?;
        let edits = shared.touch(parent(path))?.into_iter().collect();
        shared.commit(Change { expect: Vec::new(), edits })
    }

    /// Removes a file or a symbolic link. A file that is open exists until it is closed.
    pub fn remove(&self, path: &[u8]) -> FileResult<()> {
        let shared = &self.shared;
        let _names = shared.names.lock();
        let stat = self.stat(path)?;
        let Some(id) = stat.id.filter(|_| stat.kind != Kind::Directory) else {
            return Err(FileError::IsDirectory(key::show(path)));
        };
        shared.unlink(path, id, |gone| {
            let edits = [Some(gone), shared.touch(parent(path))?].into_iter().flatten().collect();
            shared.commit(Change { expect: vec![Expect::Names(path.to_vec(), id)], edits })
        })
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, path: &[u8]) -> FileResult<()> {
        let shared = &self.shared;
        let _names = shared.names.lock();
        let stat = shared.directory(path)?;
        if path.is_empty() {
            return Err(FileError::Invalid { path: "/".into(), reason: "the root cannot be removed" });
        }
        let full = || FileError::NotEmpty(key::show(path));
        // A directory that is no object exists only because something is in it.
        let id = stat.id.ok_or_else(full)?;
        let expect = vec![Expect::Names(path.to_vec(), id), Expect::Free(path.to_vec())];
        let gone = Edit::Remove { key: path.to_vec() };
        if shared.store.engine.catalog.holds_any(path)? {
            return Err(full());
        }
        let edits = [Some(gone), shared.touch(parent(path))?].into_iter().flatten().collect();
        shared.commit(Change { expect, edits }).map_err(|error| match error {
            FileError::Engine(Error::Conflict { .. }) => full(),
            other => other,
        })
    }
}

impl Shared {
    /// Creates an object without bytes, and returns its number.
    fn new_object(
        &self,
        path: &[u8],
        kind: Kind,
        special: Option<Special>,
        mode: u32,
        owner: Owner,
    ) -> FileResult<u64> {
        let stat = Stat { special, ..self.fresh(path, kind, mode, owner)? };
        let (id, edit) = self.make(path, &stat)?;
        let expect = vec![Expect::Absent(path.to_vec()), Expect::Free(path.to_vec())];
        let edits = [Some(edit), self.touch(parent(path))?].into_iter().flatten().collect();
        self.commit(Change { expect, edits }).map_err(|error| in_the_way(path, error))?;
        Ok(id)
    }

    /// Returns the attributes of a new entry, after checks that its path is free and its directory exists.
    fn fresh(&self, path: &[u8], kind: Kind, mode: u32, mut owner: Owner) -> FileResult<Stat> {
        check_new(path)?;
        if self.find(path)?.is_some() {
            return Err(FileError::Exists(key::show(path)));
        }
        self.check_writable(path)?;
        let above = self.directory(parent(path))?;
        let inherits = above.mode & SETGID_BIT != 0;
        if inherits {
            owner.gid = above.owner.gid;
        }
        let passes_on = if inherits && kind == Kind::Directory { SETGID_BIT } else { 0 };
        Ok(Stat::fresh(kind, mode | passes_on, owner))
    }

    /// Returns the edit that updates a directory's times. A directory that is only a prefix of keys becomes an object.
    pub(super) fn touch(&self, folder: &[u8]) -> FileResult<Option<Edit>> {
        let time = unix_nanos();
        let touched = |mut stat: Stat| {
            (stat.modified, stat.changed) = (time, time);
            stat
        };
        if folder.is_empty() {
            // A leaf, held for the replacement only.
            let mut root = self.root.lock();
            *root = touched(root.clone());
            return Ok(None);
        }
        match self.object(folder)? {
            Some(object) => {
                let stat = touched(Stat::of(&object, self.owner));
                let attributes = stat.attributes(object.attributes.user, self.owner);
                Ok(Some(Edit::SetAttributes { key: folder.to_vec(), attributes }))
            }
            None => Ok(Some(self.make(folder, &Stat::implied(self.owner, time))?.1)),
        }
    }
}

/// Turns a conflict while `path` is created into the error that it exists.
fn in_the_way(path: &[u8], error: FileError) -> FileError {
    match error {
        FileError::Engine(Error::Conflict { .. }) => FileError::Exists(key::show(path)),
        other => other,
    }
}
