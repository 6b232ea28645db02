//! The store, opened at the first touch of the prefix, and the thread that writes buffered bytes in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Thread;
use std::time::Duration;

use rustix_futex_sync::{RwLock, RwLockWriteGuard};
use terrace::{Files, Store};

use crate::answer::complain;
use crate::errors::{CallResult, refuse};
use crate::unseen::is_unseen;
use crate::{asked, settings};

/// Buffered bytes are written after this time, so that other processes see them.
const MAX_BUFFERED_TIME: Duration = Duration::from_millis(100);

/// The store in this process. Held for writing while it is opened, and while the process forks.
static STORE_HERE: RwLock<StoreHere> = RwLock::new(StoreHere { shown: None, writer: None });
/// Whether a store could not be opened, which was said then. Relaxed: the swap alone lets one caller through.
static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);
/// Whether bytes were buffered that the writer thread has not written. Bytes are buffered under their file's lock before this is set, and the
/// thread clears it before it takes these locks. So it writes the bytes of each caller that found the flag set, and others wake it.
static IS_BUFFERED: AtomicBool = AtomicBool::new(false);
/// Whether the process is ending, so that nothing may be buffered. Relaxed: a thread that still runs then, and sees it late, has no time in
/// which its bytes are sure to be written.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// An opened store, and the thread that writes buffered bytes.
pub struct StoreHere {
    shown: Option<Arc<ShownStore>>,
    writer: Option<Thread>,
}

/// A store whose files are shown.
pub struct ShownStore {
    /// The files.
    pub files: Files,
    /// The number of the device that they are on.
    pub device: u64,
}

/// Returns the store. Opens it if this process has not.
pub fn get() -> CallResult<Arc<ShownStore>> {
    if let Some(shown) = &STORE_HERE.read().shown {
        return Ok(shown.clone());
    }
    let mut here = STORE_HERE.write();
    if let Some(shown) = &here.shown {
        return Ok(shown.clone());
    }
    let shown = Arc::new(open()?);
    here.shown = Some(shown.clone());
    Ok(shown)
}

fn open() -> CallResult<ShownStore> {
    let Some(dir) = settings::store_dir() else { return refuse(libc::ENXIO) };
    let asked = match asked::get() {
        Ok(asked) => asked,
        Err(mistake) => {
            if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
                complain(mistake);
            }
            return refuse(libc::EINVAL);
        }
    };
    let with = |store: Store| Files::with(&store, asked.options.clone());
    match Store::open(&dir).map_err(terrace::files::FileError::from).and_then(with) {
        // Devices of this major number are the kernel's own; the minor number tells stores apart.
        Ok(files) => Ok(ShownStore { device: libc::makedev(0, (files.store().id() as u32) | 1 << 31), files }),
        Err(error) => {
            if !HAS_COMPLAINED.swap(true, Ordering::Relaxed) {
                complain(&format!("the store in {} cannot be opened: {error}", dir.display()));
            }
            refuse(libc::EIO)
        }
    }
}

/// Returns the store if this process has opened it.
pub fn if_open() -> Option<Arc<ShownStore>> {
    STORE_HERE.read().shown.clone()
}

/// Locks the store while the process forks.
pub fn lock() -> RwLockWriteGuard<'static, StoreHere> {
    STORE_HERE.write()
}

impl StoreHere {
    /// Forgets the parent's store in a forked process. Its threads are not here, and its locks may be held by them.
    pub fn forget(&mut self) {
        std::mem::forget(self.shown.take());
        std::mem::forget(self.writer.take());
        IS_BUFFERED.store(false, Ordering::Relaxed);
    }
}

/// Writes all buffered bytes.
pub fn flush() -> CallResult<()> {
    match if_open() {
        Some(shown) => Ok(shown.files.flush()?),
        None => Ok(()),
    }
}

/// Notes that bytes were buffered: they are written soon, or at once if the process is ending.
pub fn note_buffered() -> CallResult<()> {
    if is_ending() {
        return flush();
    }
    if IS_BUFFERED.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    if let Some(writer) = &STORE_HERE.read().writer {
        writer.unpark();
        return Ok(());
    }
    let mut here = STORE_HERE.write();
    if here.writer.is_none() {
        match std::thread::Builder::new().name("terrace-preload".into()).spawn(write_in_time) {
            Ok(started) => here.writer = Some(started.thread().clone()),
            // Without a thread, bytes do not wait.
            Err(_) => {
                drop(here);
                IS_BUFFERED.store(false, Ordering::Relaxed);
                return flush();
            }
        }
    }
    Ok(())
}

fn write_in_time() {
    loop {
        if !IS_BUFFERED.load(Ordering::Acquire) {
            std::thread::park();
            continue;
        }
        std::thread::sleep(MAX_BUFFERED_TIME);
        // Before the flush: bytes that are buffered during it wait for the next one.
        IS_BUFFERED.store(false, Ordering::Release);
        // Bytes that could not be written stay buffered; the file's next sync or close tries again, and returns the error.
        let _ = flush();
    }
}

/// Whether the process is ending.
pub fn is_ending() -> bool {
    IS_ENDING.load(Ordering::Relaxed)
}

/// Writes all buffered bytes when the process ends. Later writes are not buffered.
pub extern "C" fn end() {
    // The parent of a process that was not seen has the bytes.
    if IS_ENDING.swap(true, Ordering::Relaxed) || is_unseen() || if_open().is_none() {
        return;
    }
    if crate::answer::guard(flush).is_err() {
        let unwritten = if_open().map_or_else(Vec::new, |shown| shown.files.unwritten());
        for key in unwritten {
            complain(&format!(
                "bytes of {} could not be written when the program ended; write the file again",
                terrace::key::show(&key)
            ));
        }
    }
}
