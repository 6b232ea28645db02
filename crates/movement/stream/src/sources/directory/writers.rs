//! Detects processes that have a file open for writing.
//!
//! A read lease answers exactly: the system grants it only if no process has the file open or mapped for writing, and while it is held, a
//! process that opens the file for writing blocks. If the system grants no lease (files of other users, network file systems), `/proc`
//! lists the open files of those processes that are readable to this one.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The result of a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leased {
    /// No process has the file open for writing, and none can open it until the lease is released or the file is closed.
    Held,
    /// A process has the file open for writing.
    Writers,
    /// The system grants no lease for this file.
    Unsupported,
}

/// The `fcntl` command that selects the signal sent for a broken lease; `libc` defines it for few targets.
const F_SETSIG: libc::c_int = 10;

#[allow(unsafe_code)]
fn control(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: these commands take an integer, and the borrow keeps the file open.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// Requests a read lease on a file that was opened for reading only.
pub fn take_lease(file: &File) -> Leased {
    if terrace::fail::limit("TERRACE_LEASES", 1) == 0 {
        return Leased::Unsupported;
    }
    // A process that breaks the lease causes a signal to its holder. The default, SIGIO, would end the process; SIGURG is ignored unless
    // a handler is set.
    let taken = control(file, F_SETSIG, libc::SIGURG)
        .and_then(|_| control(file, libc::F_SETLEASE, i32::from(libc::F_RDLCK as i16)));
    match taken {
        Ok(_) => Leased::Held,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Leased::Writers,
        Err(_) => Leased::Unsupported,
    }
}

/// Whether the lease is held and no process waits to open the file for writing.
pub fn is_lease_whole(file: &File) -> bool {
    // While a process waits, the system reports the type that the lease is about to get, which is none.
    control(file, libc::F_GETLEASE, 0).is_ok_and(|lease| lease == i32::from(libc::F_RDLCK as i16))
}

/// Releases a lease. Has no effect without one.
pub fn give_lease(file: &File) {
    // The only failure is that no lease is held, so it can be ignored.
    let _ = control(file, libc::F_SETLEASE, i32::from(libc::F_UNLCK as i16));
}

/// Returns the files, by device and inode, that a readable process has open for writing. A file's absence proves nothing: processes of
/// other users and on other machines are not readable.
pub fn open_for_writing() -> HashSet<(u64, u64)> {
    let mut found = HashSet::new();
    let Ok(processes) = fs::read_dir("/proc") else { return found };
    // An unreadable process belongs to another user, or has ended meanwhile.
    for process in processes.flatten() {
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        for file in files.flatten() {
            // The mode of the link itself shows how the file was opened.
            let writes = file.metadata().is_ok_and(|link| link.mode() & 0o200 != 0);
            if writes && let Ok(metadata) = fs::metadata(file.path()) {
                found.insert((metadata.dev(), metadata.ino()));
            }
        }
        found.extend(mapped_for_writing(&process.path()));
    }
    found
}

fn mapped_for_writing(process: &Path) -> Vec<(u64, u64)> {
    let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
    let parse = |line: &str| {
        let mut words = line.split_whitespace();
        let (_, rights, _, device, inode) = (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
        if !(rights.contains('w') && rights.contains('s')) {
            return None;
        }
        let (major, minor) = device.split_once(':')?;
        // A line without these numbers is not the mapping of a file.
        let number = |text| u32::from_str_radix(text, 16).ok();
        Some((libc::makedev(number(major)?, number(minor)?), inode.parse().ok()?))
    };
    maps.lines().filter_map(parse).collect()
}
