//! Only one copy of this library in a process may have a store open. Two copies, such as a Python module and a preloaded
//! library, would silently release each other's LMDB locks.
//!
//! Each copy has its own statics, and they share only the process. So a copy locks the byte of a file that stands for its
//! process. The lock ends with the process, and a forked child has a byte of its own.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::LazyLock;

use rustix_futex_sync::Mutex;
use terrace_system::fork;
use terrace_system::lock::{any_byte_held, is_held, lock_byte};

use super::refuse;
use crate::{Error, Result};

/// The stores that this copy has open, with the number of openings and their files. Locked under `fork::hold` only: a fork during
/// that time would inherit the lock, and no thread that releases it. It guards the byte locks, too: two threads that took and
/// released the same byte at the same time would undo each other.
static TAKEN_LOCKS: LazyLock<Mutex<HashMap<Id, Taken>>> = LazyLock::new(Mutex::default);
/// Processes of one namespace have numbers below two to this power.
const PROCESS_BITS: u32 = 22;

/// Device and inode of a store's file.
type Id = (u64, u64);

/// A store that this copy of the library has open.
struct Taken {
    openings: usize,
    file: File,
    /// The forks before it was opened. A forked child inherits what its parent has taken, and must take a byte of its own.
    forks: u32,
}

/// Held by a copy of the library as long as it has a store open.
pub struct Sole {
    id: Id,
    forks: u32,
    /// The same opening of the file as in `TAKEN_LOCKS`.
    file: File,
}

impl Sole {
    /// Returns whether no other process has the store open. Returns false if the system cannot tell.
    pub fn is_alone(&self) -> bool {
        any_byte_held(&self.file).is_ok_and(|held| !held)
    }

    /// Makes this process invisible to [`is_alone`](Self::is_alone) of others. Another copy of the library in this process is not
    /// noticed any more.
    pub fn hide(&self) -> io::Result<()> {
        own_byte().and_then(|byte| lock_byte(&self.file, libc::F_UNLCK, byte))
    }
}

impl Drop for Sole {
    fn drop(&mut self) {
        let _held = fork::hold();
        if self.forks != fork::count() {
            return;
        }
        // Under `_held`: see `TAKEN_LOCKS`.
        let mut taken = TAKEN_LOCKS.lock();
        if let Some(Taken { openings, file, .. }) = taken.get_mut(&self.id) {
            *openings -= 1;
            if *openings == 0 {
                // Closing the file would not release the byte, because a fork may have the file open. If this fails, the
                // byte stays locked until the process ends, and only another copy of the library in this process notices.
                let _ = own_byte().and_then(|byte| lock_byte(file, libc::F_UNLCK, byte));
                taken.remove(&self.id);
            }
        }
    }
}

/// Takes the store in `dir` for this copy of the library. If the system cannot lock bytes, every copy gets it.
pub fn take_sole(dir: &Path) -> Result<Sole> {
    let path = dir.join("copies");
    let context = || format!("opening {}", path.display());
    let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
    let file = file.map_err(Error::io(context()))?;
    let metadata = file.metadata().map_err(Error::io(context()))?;
    let id = (metadata.dev(), metadata.ino());
    // The caller prevents forks: see `TAKEN_LOCKS`.
    let mut taken = TAKEN_LOCKS.lock();
    let same = |file: &File| file.try_clone().map_err(Error::io(context()));
    if let Some(Taken { openings, file, .. }) = taken.get_mut(&id).filter(|taken| taken.forks == fork::count()) {
        let file = same(file)?;
        *openings += 1;
        return Ok(Sole { id, forks: fork::count(), file });
    }
    let locked = own_byte().and_then(|byte| lock_byte(&file, libc::F_WRLCK, byte));
    if locked.is_err_and(|e| is_held(&e)) {
        let way = "close it there, or use only one copy";
        return Err(refuse(dir, &format!("another copy of this library in this process has it open; {way}")));
    }
    let shared = same(&file)?;
    taken.insert(id, Taken { openings: 1, file, forks: fork::count() });
    Ok(Sole { id, forks: fork::count(), file: shared })
}

/// Returns the byte that stands for this process, among those of all namespaces.
fn own_byte() -> io::Result<i64> {
    let space = fs::metadata("/proc/self/ns/pid")?.ino();
    Ok((space << PROCESS_BITS) as i64 & i64::MAX | i64::from(std::process::id()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Config, Store};

    #[test]
    fn a_second_copy_of_the_library_in_a_process_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[[tier]]\nname = 't'\nkind = 'directory'\ntargets = ['{}/t']\n", dir.path().display());
        let home = dir.path().join("store");
        let store = Store::init(&home, &Config::parse(&text, "test").unwrap()).unwrap();
        // This copy may open it as often as it likes.
        drop(Store::open(&home).unwrap());
        drop(store);
        // Another copy of the library locks the same byte.
        let other = File::options().write(true).open(home.join("copies")).unwrap();
        lock_byte(&other, libc::F_WRLCK, own_byte().unwrap()).unwrap();
        let refused = Store::open(&home).map(|_| ()).unwrap_err();
        assert!(matches!(&refused, Error::Store { reason, .. } if reason.contains("another copy")), "{refused}");
        drop(other);
        let open = Store::open(&home).unwrap();
        let other = File::options().write(true).open(home.join("copies")).unwrap();
        assert!(lock_byte(&other, libc::F_WRLCK, own_byte().unwrap()).is_err(), "this one has it");
        drop(open);
    }
}
