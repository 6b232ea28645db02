//! Durability, lengths, holes and advice.

use std::ffi::{c_char, c_int, c_uint};

use libc::{off_t, size_t, ssize_t};

use crate::answer::guard;
use crate::calls::{by_descriptor, stat, twins};
use crate::description::OpenDescription;
use crate::errors::{CallResult, ErrorNumber, refuse};
use crate::paths::{LastLink, by_path};
use crate::{numbers, opened, real, table};

fn make_durable(open: &OpenDescription) -> CallResult<c_int> {
    match open.is_directory() {
        true => opened::get()?.files.sync_names()?,
        false => open.file()?.sync()?,
    }
    Ok(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fsync(fd: c_int) -> c_int {
    // SAFETY: it takes a number only.
    by_descriptor(fd, || unsafe { real::fsync(fd) }, |open| make_durable(open))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: as above.
    by_descriptor(fd, || unsafe { real::fdatasync(fd) }, |open| make_durable(open))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sync_file_range(fd: c_int, offset: off_t, length: off_t, flags: c_uint) -> c_int {
    // SAFETY: as above.
    by_descriptor(fd, || unsafe { real::sync_file_range(fd, offset, length, flags) }, |open| open.flush().map(|()| 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syncfs(fd: c_int) -> c_int {
    // SAFETY: as above.
    by_descriptor(
        fd,
        || unsafe { real::syncfs(fd) },
        |_| {
            opened::get()?.files.sync()?;
            Ok(0)
        },
    )
}

fn length(length: off_t) -> CallResult<u64> {
    u64::try_from(length).or(refuse(libc::EINVAL))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ftruncate(fd: c_int, to: off_t) -> c_int {
    // SAFETY: as above.
    by_descriptor(
        fd,
        || unsafe { real::ftruncate(fd, to) },
        |open| {
            // As the kernel calls a descriptor for reading here.
            let is_for_reading = open.flags() & (libc::O_PATH | libc::O_ACCMODE) == libc::O_RDONLY;
            if is_for_reading {
                return refuse(libc::EINVAL);
            }
            open.writable()?.set_len(length(to)?)?;
            Ok(0)
        },
    )
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn truncate(path: *const c_char, to: off_t) -> c_int {
    // SAFETY: the caller gives a path.
    unsafe {
        by_path(
            libc::AT_FDCWD,
            path,
            LastLink::Follow,
            |_, path| real::truncate(path, to),
            |path, found| {
                let file = opened::get()?.files.open(path)?;
                stat::check_access(&stat::existing(path, found)?, libc::W_OK)?;
                file.set_len(length(to)?)?;
                Ok(0)
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int {
    // SAFETY: it takes numbers only.
    by_descriptor(
        fd,
        || unsafe { real::fallocate(fd, mode, offset, length) },
        |open| allocate(open, mode, offset, length).map(|()| 0),
    )
}

/// Extends a file or makes a hole in it. Reserves nothing: it checks that enough space is free now.
fn allocate(open: &OpenDescription, mode: c_int, offset: off_t, bytes: off_t) -> CallResult<()> {
    let file = open.writable()?;
    let (offset, bytes) = (length(offset)?, length(bytes)?);
    if bytes == 0 {
        return refuse(libc::EINVAL);
    }
    let end = offset + bytes;
    match mode & !libc::FALLOC_FL_KEEP_SIZE {
        0 if opened::get()?.files.store().room().free < bytes => return refuse(libc::ENOSPC),
        0 => {}
        libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => file.clear(offset, bytes)?,
        _ => return refuse(libc::EOPNOTSUPP),
    }
    if mode & libc::FALLOC_FL_KEEP_SIZE == 0 {
        file.extend(end)?;
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int {
    match table::get(fd) {
        // SAFETY: as above.
        None => unsafe { real::posix_fallocate(fd, offset, length) },
        Some(open) => match guard(|| allocate(&open, 0, offset, length)) {
            Ok(()) => 0,
            Err(ErrorNumber(number)) => number,
        },
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn posix_fadvise(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int {
    // The engine sees itself how a file is read.
    // SAFETY: as above.
    if numbers::has(fd) { 0 } else { unsafe { real::posix_fadvise(fd, offset, length, advice) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readahead(fd: c_int, offset: off_t, length: size_t) -> ssize_t {
    // SAFETY: as above.
    if numbers::has(fd) { 0 } else { unsafe { real::readahead(fd, offset, length) } }
}

twins! {
    ftruncate(fd: c_int, to: off_t) -> c_int: ftruncate64;
    truncate(path: *const c_char, to: off_t) -> c_int: truncate64;
    fallocate(fd: c_int, mode: c_int, offset: off_t, length: off_t) -> c_int: fallocate64;
    posix_fallocate(fd: c_int, offset: off_t, length: off_t) -> c_int: posix_fallocate64;
    posix_fadvise(fd: c_int, offset: off_t, length: off_t, advice: c_int) -> c_int: posix_fadvise64;
}
