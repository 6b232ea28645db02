//! Knowing whether the catalog can be trusted: it is never synced, so it cannot after an unclean reboot.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::FlockOperation;

use super::{refuse, write};
use crate::catalog::Catalog;
use crate::{Error, Locked, Result};

/// Names the boot that the catalog was last used in, and whether it was synced at the end.
const MARK: &str = "boot";

fn boot_id() -> String {
    // A test may pretend that the machine was started again.
    std::env::var("TERRACE_BOOT_ID")
        .or_else(|_| fs::read_to_string("/proc/sys/kernel/random/boot_id"))
        .map_or_else(|_| "unknown".into(), |id| id.trim().to_owned())
}

/// Throws the catalog away if the machine was rebooted while it was in use.
pub fn prepare(dir: &Path, lock: &Locked) -> Result<()> {
    let mark = fs::read_to_string(dir.join(MARK)).unwrap_or_default();
    let known = mark.is_empty() || mark.trim() == boot_id() || mark.trim() == "clean";
    if known {
        return Ok(());
    }
    alone(dir, lock)?;
    // Another opener may have done it while this one waited.
    if fs::read_to_string(dir.join(MARK)).unwrap_or_default().trim() != boot_id() {
        forget_catalog(dir)?;
        write(&dir.join(MARK), boot_id().as_bytes())?;
    }
    shared(dir, lock)
}

/// Holds the store's lock together with all others that have it open.
pub fn shared(dir: &Path, lock: &Locked) -> Result<()> {
    let context = format!("locking {}", dir.join("lock").display());
    lock.change(FlockOperation::LockShared).map_err(Error::io(context))
}

/// Makes sure that no other process has the store open. Where one has, the lock is not held any more.
pub fn alone(dir: &Path, lock: &Locked) -> Result<()> {
    lock.change(FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| refuse(dir, "another process has the store open, and this needs it alone; end that first"))
}

pub fn forget_catalog(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir.join("catalog")) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("removing the old catalog")(e)),
        _ => Ok(()),
    }
}

/// Notes that the catalog is in use in this boot.
pub fn opened(dir: &Path) -> Result<()> {
    let path = dir.join(MARK);
    if fs::read_to_string(&path).unwrap_or_default().trim() == boot_id() {
        return Ok(());
    }
    write(&path, boot_id().as_bytes())
}

/// The last one to close the store syncs the catalog and says so. Where that fails, the mark stays as it is, which
/// costs a rebuild after the next reboot and nothing else.
pub fn closed(dir: &Path, lock: &Locked, catalog: &Catalog) {
    if lock.change(FlockOperation::NonBlockingLockExclusive).is_ok() && catalog.force_sync().is_ok() {
        let _ = write(&dir.join(MARK), b"clean");
    }
}

pub fn random_id() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
