//! Results in a directory.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};
use terrace::files::Owner;
use terrace::sparse::{SparseReader, SparseWriter};
use terrace::{Kind, NewFile, Object, Store};

use super::{Clock, ResultPlace};
use crate::copy::{NotRestored, OutFolder, has_mode_and_time, same_bytes, write_directory, write_link};
use crate::output::path_name;

/// The mode of a file until it is whole.
const PART_MODE: u32 = 0o600;

pub struct ResultFolder {
    path: PathBuf,
    out: OutFolder,
    /// The owner of objects without a recorded owner.
    owner: Owner,
    not_restored: NotRestored,
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
        Ok(ResultFolder { path, out, owner: store.owner()?, not_restored: NotRestored::default() })
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        self.path.join(OsStr::from_bytes(key))
    }

    /// Gives a file or folder the object's mode and time, if it has others.
    fn mend_attributes(&mut self, file: &File, object: &Object) -> io::Result<()> {
        if has_mode_and_time(&file.metadata()?, &object.attributes, self.owner)? {
            return Ok(());
        }
        self.not_restored.mode_and_time(file, &object.attributes, self.owner)?;
        file.sync_all()
    }

    fn write_file(&mut self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<()> {
        let file = NewFile::replace(&self.path(key), object.length)?;
        // Before it has a byte: the object may be private.
        file.file().set_permissions(Permissions::from_mode(PART_MODE))?;
        let mut limited = clock.limit(SparseWriter::new(file.file()));
        store.get_sparse(key, 0, None, &mut limited)?;
        limited.inner.finish()?;
        self.not_restored.mode_and_time(file.file(), &object.attributes, self.owner)?;
        Ok(file.finish()?)
    }
}

impl ResultPlace for ResultFolder {
    fn file(&self, key: &[u8]) -> Option<PathBuf> {
        Some(self.path(key))
    }

    fn seems_there(&self, key: &[u8], object: &Object) -> bool {
        let (path, kind) = (self.path(key), object.attributes.kind);
        // Behind a link it would not be in this folder; a write says so.
        let is_behind_link = self.out.find_link(&path, false).is_some();
        fs::symlink_metadata(path).is_ok_and(|found| match kind {
            _ if is_behind_link => false,
            Kind::File => found.is_file() && found.len() == object.length,
            Kind::Directory => found.is_dir(),
            Kind::Symlink => found.is_symlink(),
        })
    }

    fn is_there(&mut self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<bool> {
        let path = self.path(key);
        let mut compare = || -> Result<bool> {
            match object.attributes.kind {
                Kind::File => {
                    let file = File::open(&path)?;
                    // Synced here, too, because an earlier command may have been killed before it was.
                    file.sync_all()?;
                    // So that the bytes come from the device, not from memory. Some file systems cannot, which is no error.
                    let _ = fadvise(&file, 0, None, Advice::DontNeed);
                    let length = file.metadata()?.len();
                    let same = same_bytes(store, key, clock.limit(SparseReader::new(file.try_clone()?, length)))?;
                    if same {
                        self.mend_attributes(&file, object)?;
                    }
                    Ok(same)
                }
                Kind::Directory => {
                    self.mend_attributes(&File::open(&path)?, object)?;
                    Ok(path.is_dir())
                }
                Kind::Symlink => Ok(fs::read_link(&path)?.as_os_str().as_bytes() == store.get(key)?),
            }
        };
        let same = compare().with_context(|| format!("reading {}", path_name(&path)))?;
        if same {
            sync_names(&path, &self.path).with_context(|| format!("syncing {}", path_name(&path)))?;
        }
        Ok(same)
    }

    fn write(&mut self, store: &Store, key: &[u8], object: &Object, clock: &Clock<'_>) -> Result<()> {
        let (path, kind, owner) = (self.path(key), object.attributes.kind, self.owner);
        let mut write = || {
            self.out.check_place(&path, false, kind == Kind::Directory)?;
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let (attributes, not_restored) = (&object.attributes, &mut self.not_restored);
            match kind {
                Kind::File => self.write_file(store, key, object, clock),
                Kind::Directory => Ok(write_directory(&path, attributes, owner, not_restored)?),
                Kind::Symlink => write_link(store, key, &path, attributes, owner, not_restored).map(drop),
            }
        };
        write().with_context(|| format!("writing {}", path_name(&path)))
    }
}

/// Syncs the folders from the one in which `path` lies up to `top`, so that their names survive a power cut.
fn sync_names(path: &Path, top: &Path) -> io::Result<()> {
    let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(top));
    folders.into_iter().try_for_each(|folder| File::open(folder)?.sync_all())
}
