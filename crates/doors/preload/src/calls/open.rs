//! `open` and its twins.

use std::ffi::{c_char, c_int, c_long};
use std::sync::Arc;

use libc::mode_t;
use terrace::Kind;
use terrace::files::{File, Stat};
use terrace_prefix::access::caller;

use crate::calls::{descriptors, names, stat, streams, twins};
use crate::description::OpenDescription;
use crate::errors::{CallResult, refuse};
use crate::inside::is_inside;
use crate::paths::{LastLink, by_path};
use crate::pointers::is_wild;
use crate::{numbers, opened, real, table};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller gives a path.
    unsafe {
        if is_inside() {
            return numbers::open_apart(|| real::openat(dir, path, flags, mode));
        }
        by_path(
            dir,
            path,
            last_link(flags),
            |dir, path| {
                let open = || {
                    let _change = numbers::open_programs();
                    real::openat(dir, path, flags, mode)
                };
                descriptors::kernels(open())
            },
            |path, stat| open_below(path, stat, flags, mode),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { openat(libc::AT_FDCWD, path, flags, mode) }
}

/// `openat2`, which programs call by its number. A limit on how the path is resolved is refused, as by kernels without it.
pub unsafe fn openat2(dir: c_int, path: *const c_char, how: *const libc::open_how, size: usize) -> c_long {
    // SAFETY: the caller gives a path, and a structure of this size.
    unsafe {
        let kernel = |dir: c_int, path: *const c_char| {
            let _change = numbers::open_programs();
            let done =
                real::syscall(libc::SYS_openat2, dir.into(), path as c_long, how as c_long, size as c_long, 0, 0);
            descriptors::kernels(done as c_int).into()
        };
        if is_wild(how) || size < size_of::<libc::open_how>() {
            return kernel(dir, path);
        }
        let flags = (*how).flags as c_int;
        let below = |path: &[u8], stat| {
            // A later kernel's structure is longer.
            if size > size_of::<libc::open_how>() {
                return refuse(libc::E2BIG);
            }
            match (*how).resolve {
                0 => open_below(path, stat, flags, (*how).mode as mode_t).map(c_long::from),
                _ => refuse(libc::ENOSYS),
            }
        };
        by_path(dir, path, last_link(flags), kernel, below)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn creat(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __open_2(path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { open(path, flags, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as above.
    unsafe { openat(dir, path, flags, 0) }
}

twins! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int: open64, __open, __open64, __open_nocancel;
    openat(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int: openat64, __openat, __openat64;
    creat(path: *const c_char, mode: mode_t) -> c_int: creat64;
    __open_2(path: *const c_char, flags: c_int) -> c_int: __open64_2;
    __openat_2(dir: c_int, path: *const c_char, flags: c_int) -> c_int: __openat64_2;
}

/// Whether `open` follows a symbolic link at a path's end.
pub fn last_link(flags: c_int) -> LastLink {
    let creates = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
    if creates || flags & libc::O_NOFOLLOW != 0 { LastLink::Keep } else { LastLink::Follow }
}

/// Opens a file or a directory of the store for this process, and returns its descriptor.
pub fn open_below(path: &[u8], stat: Option<Stat>, flags: c_int, mode: mode_t) -> CallResult<c_int> {
    let (description, fd) = describe(path, stat, flags, mode)?;
    let fd = table::add(fd, Arc::new(description))?;
    streams::adopt(fd);
    Ok(fd)
}

/// Opens a file or a directory of the store. Returns its descriptor, too, which the table does not have yet.
pub fn describe(path: &[u8], stat: Option<Stat>, flags: c_int, mode: mode_t) -> CallResult<(OpenDescription, c_int)> {
    let file = match stat {
        Some(_) if flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0 => return refuse(libc::EEXIST),
        Some(stat) => existing(path, &stat, flags)?,
        None => Some(new(path, flags, mode)?),
    };
    OpenDescription::new(path, file, flags)
}

/// Opens an existing file. A directory has no bytes.
fn existing(path: &[u8], stat: &Stat, flags: c_int) -> CallResult<Option<File>> {
    if flags & libc::O_TMPFILE == libc::O_TMPFILE {
        return refuse(libc::EOPNOTSUPP);
    }
    let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
    let only_path = flags & libc::O_PATH != 0;
    match stat.kind {
        Kind::Directory if !only_path && (writes || flags & libc::O_CREAT != 0) => return refuse(libc::EISDIR),
        Kind::Directory => return Ok(None),
        _ if flags & libc::O_DIRECTORY != 0 => return refuse(libc::ENOTDIR),
        Kind::Symlink => return refuse(libc::ELOOP),
        // Pipes, sockets and devices need a file system.
        Kind::File if stat.special.is_some() => return refuse(libc::ENXIO),
        Kind::File => {}
    }
    if !only_path {
        let reads = flags & libc::O_ACCMODE != libc::O_WRONLY;
        stat::check_access(stat, if reads { libc::R_OK } else { 0 } | if writes { libc::W_OK } else { 0 })?;
    }
    let file = opened::get()?.files.open(path)?;
    if writes && !only_path {
        opened::get()?.files.check_writable(path)?;
    }
    if flags & libc::O_TRUNC != 0 && !only_path && stat.length > 0 {
        file.set_len(0)?;
    }
    Ok(Some(file))
}

fn new(path: &[u8], flags: c_int, mode: mode_t) -> CallResult<File> {
    if flags & libc::O_CREAT == 0 {
        // The engine knows whether the name or a directory is missing.
        opened::get()?.files.open(path)?;
        return refuse(libc::ENOENT);
    }
    let exclusive = flags & libc::O_EXCL != 0;
    Ok(opened::get()?.files.create(path, mode & !names::mask(), caller(), exclusive)?)
}
