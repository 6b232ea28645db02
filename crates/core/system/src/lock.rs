//! File locks: those of `flock`, which end in the process that took them, and those of `fcntl` on single bytes.

use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::FlockOperation;
use rustix::io::{Errno, retry_on_intr};

use crate::fork;
use crate::lock_wait::tell_if_long;

/// A locked file. A fork shares the lock, but the lock ends when the process that took it drops this value, even if the fork
/// still has the file open.
#[derive(Debug)]
pub struct Locked {
    file: File,
    forks: u32,
}

impl Locked {
    /// Waits for an exclusive lock on a file. A long wait is logged.
    pub fn wait(file: File) -> io::Result<Locked> {
        Locked::take_in_time(file, FlockOperation::NonBlockingLockExclusive, FlockOperation::LockExclusive)
    }

    /// Waits for a shared lock on a file. A long wait is logged.
    pub fn share(file: File) -> io::Result<Locked> {
        Locked::take_in_time(file, FlockOperation::NonBlockingLockShared, FlockOperation::LockShared)
    }

    fn take_in_time(file: File, at_once: FlockOperation, later: FlockOperation) -> io::Result<Locked> {
        let locked = Locked { file, forks: fork::count() };
        match locked.change(at_once) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => tell_if_long(&locked, || locked.change(later))?,
            taken => taken?,
        }
        Ok(locked)
    }

    /// Locks a file exclusively, or returns none if another holder has it.
    pub fn at_once(file: File) -> io::Result<Option<Locked>> {
        Locked::take_at_once(file, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes a shared lock on a file, or returns none if another holder has it exclusively.
    pub fn share_at_once(file: File) -> io::Result<Option<Locked>> {
        Locked::take_at_once(file, FlockOperation::NonBlockingLockShared)
    }

    fn take_at_once(file: File, how: FlockOperation) -> io::Result<Option<Locked>> {
        match Locked::take(file, how) {
            Ok(locked) => Ok(Some(locked)),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn take(file: File, how: FlockOperation) -> io::Result<Locked> {
        let locked = Locked { file, forks: fork::count() };
        locked.change(how)?;
        Ok(locked)
    }

    /// Changes the kind of the lock. If this fails, the lock may be lost.
    pub fn change(&self, how: FlockOperation) -> io::Result<()> {
        retry_on_intr(|| rustix::fs::flock(&self.file, how)).map_err(|e: Errno| e.into())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if self.forks == fork::count() {
            // If this fails, closing the file releases the lock.
            let _ = self.change(FlockOperation::Unlock);
        }
    }
}

impl Deref for Locked {
    type Target = File;

    fn deref(&self) -> &File {
        &self.file
    }
}

/// Locks or unlocks a byte for this opening of the file. A process may open a file several times.
pub fn lock_byte(file: &File, kind: i32, byte: i64) -> io::Result<()> {
    let range = ByteRange { kind, start: byte, length: 1 };
    range.ask(file, libc::F_OFD_SETLK).map(drop)
}

/// Locks or unlocks `length` bytes for this opening of the file, as [`lock_byte`] does one.
pub fn lock_range(file: &File, kind: i32, start: i64, length: i64) -> io::Result<()> {
    ByteRange { kind, start, length }.ask(file, libc::F_OFD_SETLK).map(drop)
}

/// Returns whether a byte could not be locked because another opening of the file has it locked.
pub fn is_held(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::PermissionDenied)
}

/// Returns whether another opening of the file has any byte locked.
pub fn any_byte_held(file: &File) -> io::Result<bool> {
    let all = ByteRange { kind: libc::F_WRLCK, start: 0, length: 0 };
    Ok(all.ask(file, libc::F_OFD_GETLK)? != libc::F_UNLCK)
}

/// Returns whether another opening of the file has any byte except this one locked. The byte must be above 0.
pub fn other_byte_held(file: &File, byte: i64) -> io::Result<bool> {
    let below = ByteRange { kind: libc::F_WRLCK, start: 0, length: byte };
    let above = ByteRange { kind: libc::F_WRLCK, start: byte + 1, length: 0 };
    for range in [below, above] {
        if range.ask(file, libc::F_OFD_GETLK)? != libc::F_UNLCK {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Locks on single bytes of a file, each for something that only one process may do at a time. All end when this is dropped.
#[derive(Debug)]
pub struct ByteLocks(File);

impl ByteLocks {
    /// Opens the file at `path`, and creates it if it is missing.
    pub fn open(path: &Path) -> io::Result<ByteLocks> {
        File::options().create(true).truncate(false).read(true).write(true).mode(0o600).open(path).map(ByteLocks)
    }

    /// Locks a byte. Returns false if another opening of the file has it locked.
    pub fn try_lock(&self, byte: i64) -> io::Result<bool> {
        match lock_byte(&self.0, libc::F_WRLCK, byte) {
            Err(e) if is_held(&e) => Ok(false),
            locked => locked.map(|()| true),
        }
    }

    /// Locks a byte for this opening and others that share it. False where another opening has it locked alone.
    pub fn try_share(&self, byte: i64) -> io::Result<bool> {
        match lock_byte(&self.0, libc::F_RDLCK, byte) {
            Err(e) if is_held(&e) => Ok(false),
            locked => locked.map(|()| true),
        }
    }

    /// Returns whether another opening of the file has a byte locked, alone or shared.
    pub fn is_held(&self, byte: i64) -> io::Result<bool> {
        let range = ByteRange { kind: libc::F_WRLCK, start: byte, length: 1 };
        Ok(range.ask(&self.0, libc::F_OFD_GETLK)? != libc::F_UNLCK)
    }

    /// Unlocks a byte.
    pub fn unlock(&self, byte: i64) -> io::Result<()> {
        lock_byte(&self.0, libc::F_UNLCK, byte)
    }
}

/// The argument of `fcntl` for a range of bytes. A length of 0 reaches to the end.
struct ByteRange {
    kind: i32,
    start: i64,
    length: i64,
}

impl ByteRange {
    /// Returns the kind of lock in the answer.
    #[allow(unsafe_code)]
    fn ask(&self, file: &File, command: i32) -> io::Result<i32> {
        // SAFETY: the call gets a complete `flock` of our own, and an open file. It keeps neither.
        let (done, answer) = unsafe {
            let mut lock: libc::flock = std::mem::zeroed();
            (lock.l_type, lock.l_whence) = (self.kind as i16, libc::SEEK_SET as i16);
            (lock.l_start, lock.l_len) = (self.start, self.length);
            (libc::fcntl(file.as_raw_fd(), command, &mut lock), lock.l_type)
        };
        if done == 0 { Ok(i32::from(answer)) } else { Err(io::Error::last_os_error()) }
    }
}
