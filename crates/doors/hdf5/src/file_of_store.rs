//! [`FileOfStore`]: an open file below the prefix.

use std::ffi::{c_int, c_ulong};
use std::mem;
use std::sync::{Arc, OnceLock};

use rustix_futex_sync::RwLock;
use terrace::files::{File, FileError, Stat};
use terrace::{Files, Kind, key};
use terrace_prefix::access;
use terrace_prefix::locks::LockFile;
use terrace_system::fork;

use crate::failure::{DriverError, DriverResult};
use crate::open_bytes::{FileIdentity, OpenBytes, OpenFlags};
use crate::{locking, store};

/// The permissions of new files, before the mask, as `sec2` has them.
const NEW_FILE_MODE: u32 = 0o666;

/// An open file below the prefix.
pub struct FileOfStore {
    key: Vec<u8>,
    object: u64,
    writes: bool,
    /// The file in this process. A leaf, held for a copy or a replacement; no fork begins while it is held for a replacement.
    opened: RwLock<Opened>,
    /// The file that stands for it in locks, once a lock was asked for.
    lock_file: OnceLock<LockFile>,
}

/// A file that this process, or the one that it was forked from, has opened.
struct Opened {
    file: Arc<File>,
    forks: u32,
}

impl Opened {
    fn here(file: File) -> Opened {
        Opened { file: Arc::new(file), forks: fork::count() }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.forks != fork::count() {
            // It belongs to the parent's engine, whose locks may be held by threads that do not exist here.
            mem::forget(self.file.clone());
        }
    }
}

impl FileOfStore {
    /// Opens or creates a file. `stat` are the attributes of what is there.
    pub fn open(files: &Files, key: Vec<u8>, stat: Option<Stat>, flags: OpenFlags) -> DriverResult<FileOfStore> {
        let file = match stat {
            Some(_) if flags.creates && flags.is_new => return Err(FileError::Exists(key::show(&key)).into()),
            Some(stat) => existing(files, &key, &stat, flags)?,
            None if flags.creates => {
                files.create(&key, NEW_FILE_MODE & !access::mask(), access::caller(), flags.is_new)?
            }
            // The engine knows whether the name or a directory is missing.
            None => files.open(&key)?,
        };
        Ok(FileOfStore {
            object: file.id(),
            key,
            writes: flags.writes,
            opened: RwLock::new(Opened::here(file)),
            lock_file: OnceLock::new(),
        })
    }

    fn is_inherited(&self) -> bool {
        self.opened.read().forks != fork::count()
    }

    /// Returns the file in this process. A forked process opens it again, if it was opened only to be read: what its parent has buffered
    /// is not known here.
    fn file(&self) -> DriverResult<Arc<File>> {
        {
            let opened = self.opened.read();
            if opened.forks == fork::count() {
                return Ok(opened.file.clone());
            }
        }
        if self.writes {
            return Err(DriverError::new(
                libc::ESTALE,
                "it was opened for writing before this process was forked; open it again here",
            ));
        }
        let _held = fork::hold();
        let file = store::get()?.open(&self.key)?;
        if file.id() != self.object {
            return Err(FileError::Stale(key::show(&self.key)).into());
        }
        let mut opened = self.opened.write();
        *opened = Opened::here(file);
        Ok(opened.file.clone())
    }
}

fn existing(files: &Files, path: &[u8], stat: &Stat, flags: OpenFlags) -> DriverResult<File> {
    let wanted = libc::R_OK | if flags.writes { libc::W_OK } else { 0 };
    if stat.kind == Kind::File && !access::may_access(stat, wanted) {
        return Err(DriverError::new(libc::EACCES, format!("its mode {:o} does not allow it", stat.mode)));
    }
    let file = files.open(path)?;
    if flags.writes {
        files.check_writable(path)?;
    }
    if flags.truncates && stat.length > 0 {
        file.set_len(0)?;
    }
    Ok(file)
}

impl OpenBytes for FileOfStore {
    fn identity(&self) -> FileIdentity {
        FileIdentity::Stored(self.object)
    }

    /// There is no descriptor, and readers do not follow a writer: what HDF5 writes in order reaches other processes in any order.
    fn features(&self) -> c_ulong {
        0
    }

    fn length(&self) -> DriverResult<u64> {
        Ok(self.file()?.stat()?.length)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> DriverResult<usize> {
        Ok(self.file()?.read_at(offset, out)?)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> DriverResult<()> {
        Ok(self.file()?.write_at(offset, bytes)?)
    }

    fn set_length(&self, length: u64) -> DriverResult<()> {
        Ok(self.file()?.set_len(length)?)
    }

    fn place(&self) -> DriverResult<()> {
        // A forked process has written nothing.
        if self.is_inherited() { Ok(()) } else { Ok(self.file()?.flush()?) }
    }

    fn sync(&self) -> DriverResult<()> {
        Ok(self.file()?.sync()?)
    }

    fn lock(&self, exclusively: bool) -> DriverResult<()> {
        if store::get()?.store().is_shared() {
            return Err(DriverError::new(
                libc::ENOSYS,
                "several machines share the store, and locks hold on one; HDF5_USE_FILE_LOCKING=FALSE does without",
            ));
        }
        if self.lock_file.get().is_none() {
            // Another thread may have set it meanwhile, to the same file.
            let _ = self.lock_file.set(LockFile::open(self.object)?);
        }
        self.lock_file.get().map_or(Ok(()), |file| locking::lock(file, exclusively))
    }

    fn unlock(&self) -> DriverResult<()> {
        match self.lock_file.get() {
            // The lock is the parent's, too.
            Some(file) if !self.is_inherited() => Ok(file.unlock()?),
            _ => Ok(()),
        }
    }

    fn descriptor(&self) -> Option<&c_int> {
        None
    }
}
