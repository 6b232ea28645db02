//! Results in a directory.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result};
use rustix::fs::{Advice, fadvise};
use terrace::files::Owner;
use terrace::sparse::{SparseReader, SparseWriter};
use terrace::{Kind, NewFile, Object, Store};

use super::destination::Destination;
use super::syncing::{Syncing, sync_folders};
use super::taken::TakenPlaces;
use super::verified::{FileState, VerifiedFiles};
use super::{Clock, Draft, Look, ResultPlace, Wanted};
use crate::at_once::{STAGING_THREADS, map_at_once};
use crate::copy::{
    FileNumber, NotRestored, OutFolder, has_mode_and_time, is_listed, same_bytes, write_directory, write_link,
};
use crate::output::path_name;

/// The mode of a file until it is whole.
const PART_MODE: u32 = 0o600;

pub struct ResultFolder {
    destination: Destination,
    out: OutFolder,
    /// The owner of objects without a recorded owner.
    owner: Owner,
    syncing: Syncing,
    taken: TakenPlaces,
    verified: VerifiedFiles,
}

impl ResultFolder {
    pub fn new(store: &Store, path: &Path) -> Result<ResultFolder> {
        let path = std::path::absolute(path).context("the working directory")?;
        let out = OutFolder::new(store, &path);
        out.check().with_context(|| format!("writing {}", path_name(&path)))?;
        let is_new = !path.exists();
        fs::create_dir_all(&path).with_context(|| format!("making {}", path_name(&path)))?;
        if let Some(parent) = path.parent().filter(|_| is_new) {
            // So that the name of the directory survives a power cut.
            let synced = File::open(parent).and_then(|parent| parent.sync_all());
            synced.with_context(|| format!("syncing {}", path_name(parent)))?;
        }
        let open = || {
            let destination = Destination::open(path.clone())?;
            let syncing = Syncing::of(destination.folder().try_clone()?)?;
            Ok::<_, io::Error>((destination, syncing))
        };
        let (destination, syncing) = open().with_context(|| format!("reading {}", path_name(&path)))?;
        let (taken, verified) = (TakenPlaces::default(), VerifiedFiles::default());
        Ok(ResultFolder { destination, out, owner: store.owner()?, syncing, taken, verified })
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        self.destination.path.join(OsStr::from_bytes(key))
    }

    /// Gives a file or folder the object's mode and time, if it has others. Returns whether it had.
    fn mend_attributes(&self, file: &File, object: &Object) -> io::Result<bool> {
        if has_mode_and_time(&file.metadata()?, &object.attributes, self.owner)? {
            return Ok(false);
        }
        NotRestored::default().mode_and_time(file, &object.attributes, self.owner)?;
        // The report calls the results safe, so these have to survive a power cut, too.
        file.sync_all().map(|()| true)
    }

    /// Compares a file with its object.
    fn is_same_file(&self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<bool> {
        let file = File::open(self.path(key))?;
        // So that the bytes come from the device, not from memory. Some file systems cannot, which is no error.
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        let found = file.metadata()?;
        if !same_bytes(store, key, clock.limit(SparseReader::new(file.try_clone()?, found.len())))? {
            return Ok(false);
        }
        let (before, after) = (FileState::of(&found), FileState::of(&file.metadata()?));
        let is_mended = self.mend_attributes(&file, object)?;
        // One that was changed while it was read has another state than this, so the last look compares it again.
        let state = if is_mended && before == after { FileState::of(&file.metadata()?) } else { before };
        self.verified.note(key, state);
        Ok(true)
    }

    /// Compares a symbolic link with its object.
    fn is_same_link(&self, store: &Store, key: &[u8]) -> Result<bool> {
        let path = self.path(key);
        let state = FileState::of(&fs::symlink_metadata(&path)?);
        let is_same = fs::read_link(&path)?.as_os_str().as_bytes() == store.get(key)?;
        if is_same {
            self.verified.note(key, state);
        }
        Ok(is_same)
    }

    fn write_file(&self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<NewFile> {
        let path = self.path(key);
        if let Some(folder) = path.parent() {
            self.destination.make_folder(folder)?;
        }
        let file = NewFile::replace(&path, object.length)?;
        // Before it has a byte: the object may be private.
        file.file().set_permissions(Permissions::from_mode(PART_MODE))?;
        let mut limited = clock.limit(SparseWriter::new(file.file()));
        store.get_sparse(key, 0, None, &mut limited)?;
        limited.inner.finish()?;
        NotRestored::default().mode_and_time(file.file(), &object.attributes, self.owner)?;
        Ok(file)
    }

    /// Writes a directory or a symbolic link.
    fn write_special(&self, store: &Store, key: &[u8], object: &Object) -> Result<()> {
        let (path, attributes, owner) = (self.path(key), &object.attributes, self.owner);
        let not_restored = NotRestored::default();
        if attributes.kind == Kind::Directory {
            self.destination.make_folder(&path)?;
            return Ok(write_directory(&path, attributes, owner, &not_restored)?);
        }
        if let Some(folder) = path.parent() {
            self.destination.make_folder(folder)?;
        }
        write_link(store, key, &path, attributes, owner, &not_restored).map(drop)
    }

    /// Syncs what is at the place of an object.
    fn sync_one(&self, key: &[u8], object: &Object) -> io::Result<()> {
        match object.attributes.kind {
            // It has no descriptor; its folder is synced.
            Kind::Symlink => Ok(()),
            Kind::File | Kind::Directory => File::open(self.path(key))?.sync_all(),
        }
    }
}

impl ResultPlace for ResultFolder {
    fn check(&self) -> Result<()> {
        self.destination.check()
    }

    fn name_of(&self, key: &[u8]) -> String {
        path_name(&self.path(key))
    }

    fn look(&self, key: &[u8], object: &Object) -> Look {
        let (path, kind) = (self.path(key), object.attributes.kind);
        // Behind a link it would not be in this folder; a write says so.
        if self.out.find_link(&path, false).is_some() {
            return Look::Nothing;
        }
        let Ok(found) = fs::symlink_metadata(path) else { return Look::Nothing };
        let is_there = match kind {
            Kind::File => found.is_file() && found.len() == object.length,
            Kind::Directory => found.is_dir(),
            Kind::Symlink => found.is_symlink(),
        };
        let number = Some(FileNumber::of(&found));
        match is_there {
            true if self.verified.is_changed(key, &found) => Look::Changed(number),
            true => Look::There(number),
            false => Look::Nothing,
        }
    }

    fn lists(&self, key: &[u8]) -> bool {
        is_listed(&self.destination.path, &self.path(key))
    }

    fn looks_fast(&self) -> bool {
        true
    }

    fn write(&self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<Draft> {
        let (path, kind) = (self.path(key), object.attributes.kind);
        let write = || {
            self.destination.check()?;
            self.out.check_place(&path, false, kind == Kind::Directory)?;
            self.taken.check_free(key, &path)?;
            match kind {
                Kind::File => self.write_file(store, key, object, clock).map(Draft::File),
                Kind::Directory | Kind::Symlink => Ok(Draft::None),
            }
        };
        write().with_context(|| format!("writing {}", path_name(&path)))
    }

    fn sync_drafts(&self, drafts: &mut [Result<Draft>]) {
        let files = drafts.iter().filter_map(|draft| match draft {
            Ok(Draft::File(file)) => Some(file.file()),
            _ => None,
        });
        // Before the drafts get their names: a power cut must not leave a name without the bytes.
        if self.syncing.sync_all(files) {
            return;
        }
        let sync = |draft: &Result<Draft>| match draft {
            Ok(Draft::File(file)) => file.file().sync_all(),
            _ => Ok(()),
        };
        let synced = map_at_once(STAGING_THREADS, &*drafts, sync);
        for (draft, synced) in drafts.iter_mut().zip(synced) {
            if let Err(error) = synced {
                *draft = Err(error).context("syncing it");
            }
        }
    }

    fn publish(&self, store: &Store, key: &[u8], object: &Object, draft: Draft) -> Result<()> {
        let publish = || {
            self.destination.check()?;
            // Again: another object of the batch may have its place by now.
            self.taken.check_free(key, &self.path(key))?;
            match draft {
                Draft::File(file) => file.finish_synced()?,
                Draft::None => self.write_special(store, key, object)?,
            }
            self.taken.note(key, &self.path(key));
            Ok::<_, Error>(())
        };
        publish().with_context(|| format!("writing {}", path_name(&self.path(key))))
    }

    fn sync(&self, objects: &[&Wanted]) -> Vec<Result<()>> {
        let paths: Vec<PathBuf> = objects.iter().map(|(key, _)| self.path(key)).collect();
        if self.syncing.sync_paths(&paths) {
            return objects.iter().map(|_| Ok(())).collect();
        }
        let synced = map_at_once(STAGING_THREADS, objects, |(key, object)| self.sync_one(key, object));
        let folders = sync_folders(&paths, &self.destination.path);
        let context = |(path, synced): (&PathBuf, io::Result<()>)| {
            let synced = synced.and_then(|()| folders.check(path));
            synced.with_context(|| format!("syncing {}", path_name(path)))
        };
        paths.iter().zip(synced).map(context).collect()
    }

    fn is_there(&self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<bool> {
        let path = self.path(key);
        let compare = || -> Result<bool> {
            match object.attributes.kind {
                Kind::File => self.is_same_file(store, key, object, clock),
                Kind::Directory => {
                    self.mend_attributes(&File::open(&path)?, object)?;
                    Ok(path.is_dir())
                }
                Kind::Symlink => self.is_same_link(store, key),
            }
        };
        let compare = || {
            let is_there = compare()?;
            if is_there {
                self.taken.note(key, &path);
            }
            Ok::<_, Error>(is_there)
        };
        compare().with_context(|| format!("reading {}", path_name(&path)))
    }
}
