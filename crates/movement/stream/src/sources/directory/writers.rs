//! Who has a file open for writing.
//!
//! A read lease tells exactly: the system grants it only where no process has the file open for writing or mapped so, and
//! while it is held, whoever opens the file for writing waits. Where the system grants none (files of other users, network
//! file systems), `/proc` tells of the processes that may be looked at.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What became of the wish for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leased {
    /// Nobody has the file open for writing, and nobody opens it so before the lease is given back or the file is closed.
    Held,
    /// Somebody has it open for writing.
    Writers,
    /// The system grants none for this file.
    Unsupported,
}

/// What the system names the signal that a broken lease sends with; `libc` has it for few targets.
const F_SETSIG: libc::c_int = 10;

#[allow(unsafe_code)]
fn control(file: &File, command: libc::c_int, argument: libc::c_int) -> io::Result<libc::c_int> {
    // SAFETY: these commands take an integer, and the file is open as long as it is borrowed.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, argument) } {
        -1 => Err(io::Error::last_os_error()),
        answer => Ok(answer),
    }
}

/// Asks for a read lease on a file that was opened for reading only.
pub fn take_lease(file: &File) -> Leased {
    if terrace::fail::limit("TERRACE_LEASES", 1) == 0 {
        return Leased::Unsupported;
    }
    // Whoever breaks the lease sends the holder a signal. The usual one, SIGIO, would end the process; SIGURG is ignored
    // by all who do not ask for it.
    let taken = control(file, F_SETSIG, libc::SIGURG)
        .and_then(|_| control(file, libc::F_SETLEASE, i32::from(libc::F_RDLCK as i16)));
    match taken {
        Ok(_) => Leased::Held,
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Leased::Writers,
        Err(_) => Leased::Unsupported,
    }
}

/// Whether the lease is held and nobody waits to open the file for writing.
pub fn is_lease_whole(file: &File) -> bool {
    // Once somebody waits, the system answers what the lease is to become, which is none.
    control(file, libc::F_GETLEASE, 0).is_ok_and(|lease| lease == i32::from(libc::F_RDLCK as i16))
}

/// Gives a lease back. Where none is held nothing happens.
pub fn give_lease(file: &File) {
    // The only failure is that there is none.
    let _ = control(file, libc::F_SETLEASE, i32::from(libc::F_UNLCK as i16));
}

/// The files, by device and inode, that some process which may be looked at has open for writing. That a file is not among
/// them proves nothing: other users' processes and other machines cannot be looked at.
pub fn open_for_writing() -> HashSet<(u64, u64)> {
    let mut found = HashSet::new();
    let Ok(processes) = fs::read_dir("/proc") else { return found };
    // What cannot be read belongs to others, or has ended meanwhile.
    for process in processes.flatten() {
        let Ok(files) = fs::read_dir(process.path().join("fd")) else { continue };
        for file in files.flatten() {
            // The link's own mode says how the file was opened.
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
        let number = |text| u32::from_str_radix(text, 16).ok();
        Some((libc::makedev(number(major)?, number(minor)?), inode.parse().ok()?))
    };
    maps.lines().filter_map(parse).collect()
}
