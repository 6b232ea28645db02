//! Reads, writes and offsets.

use std::ffi::{c_int, c_void};
use std::slice;

use libc::{iovec, off_t, size_t, ssize_t};
use terrace::files::File;

use crate::calls::{by_descriptor, twins};
use crate::description::OpenDescription;
use crate::errors::{CReturn, CallResult, refuse};
use crate::{numbers, opened, pointers, real};

/// The most bytes that one call moves, as in the kernel.
const MAX_CALL_BYTES: usize = 0x7fff_f000;
/// The most parts of one call, as in the kernel.
const MAX_PARTS: c_int = 1024;

/// Reads at the description's offset, and moves it on.
pub fn read_on(open: &OpenDescription, out: &mut [u8]) -> CallResult<usize> {
    let file = open.readable()?;
    // The other threads read what follows.
    let _lock = open.lock_offset();
    let length = file.read_at(open.offset() as u64, out)?;
    open.advance(length as i64);
    Ok(length)
}

/// Writes at the description's offset, or at the end, and moves it on.
pub fn write_on(open: &OpenDescription, bytes: &[u8]) -> CallResult<usize> {
    let file = open.writable()?;
    let _lock = open.lock_offset();
    if open.flags() & libc::O_APPEND != 0 {
        append(file, bytes)?;
        open.set_offset(i64::try_from(file.stat()?.length).unwrap_or(i64::MAX));
        return sync_if_asked(open, file).map(|()| bytes.len());
    }
    // Other processes that share the offset write behind these bytes.
    let offset = open.advance(bytes.len() as i64);
    if let Err(error) = write_at(file, offset as u64, bytes) {
        open.advance(-(bytes.len() as i64));
        return Err(error);
    }
    sync_if_asked(open, file).map(|()| bytes.len())
}

/// Makes a file durable after a write if it was opened with `O_DSYNC`, which is a part of `O_SYNC`. Always a full sync: the bytes and the attributes of
/// a file are in the same commits.
fn sync_if_asked(open: &OpenDescription, file: &File) -> CallResult<()> {
    if open.flags() & libc::O_DSYNC != 0 {
        file.sync()?;
    }
    Ok(())
}

fn append(file: &File, bytes: &[u8]) -> CallResult<()> {
    file.append(bytes)?;
    opened::note_buffered()
}

/// Writes at an offset.
pub fn write_at(file: &File, offset: u64, bytes: &[u8]) -> CallResult<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    file.write_at(offset, bytes)?;
    opened::note_buffered()
}

fn position(offset: off_t) -> CallResult<u64> {
    u64::try_from(offset).or(refuse(libc::EINVAL))
}

/// Takes a caller's buffer as a slice.
///
/// # Safety
/// The buffer has as many bytes, which nobody else uses meanwhile; the kernel would fill or read it in the same way.
unsafe fn out<'a>(buffer: *mut c_void, length: size_t) -> CallResult<&'a mut [u8]> {
    if length == 0 {
        return Ok(&mut []);
    }
    pointers::check(buffer.cast::<u8>(), length)?;
    // SAFETY: as the caller says. Bytes that were not set before are only written to.
    Ok(unsafe { slice::from_raw_parts_mut(buffer.cast(), length.min(MAX_CALL_BYTES)) })
}

/// As [`out`], for bytes that are only read.
unsafe fn given<'a>(buffer: *const c_void, length: size_t) -> CallResult<&'a [u8]> {
    // SAFETY: as the caller says.
    let bytes: &[u8] = unsafe { pointers::given(buffer.cast(), length)? };
    Ok(&bytes[..length.min(MAX_CALL_BYTES)])
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller gives a buffer of this length.
    unsafe {
        by_descriptor(
            fd,
            || real::read(fd, buffer, length),
            |open| read_on(open, out(buffer, length)?).map(|length| length as ssize_t),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        by_descriptor(
            fd,
            || real::write(fd, buffer, length),
            |open| write_on(open, given(buffer, length)?).map(|length| length as ssize_t),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pread(fd: c_int, buffer: *mut c_void, length: size_t, offset: off_t) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        by_descriptor(
            fd,
            || real::pread(fd, buffer, length, offset),
            |open| Ok(open.readable()?.read_at(position(offset)?, out(buffer, length)?)? as ssize_t),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwrite(fd: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        by_descriptor(
            fd,
            || real::pwrite(fd, buffer, length, offset),
            |open| {
                let bytes = given(buffer, length)?;
                write_positioned(open, position(offset)?, bytes).map(|length| length as ssize_t)
            },
        )
    }
}

/// Writes at an offset, or at the end if the file was opened to append, as Linux does.
fn write_positioned(open: &OpenDescription, offset: u64, bytes: &[u8]) -> CallResult<usize> {
    let file = open.writable()?;
    match open.flags() & libc::O_APPEND != 0 {
        true => append(file, bytes)?,
        false => write_at(file, offset, bytes)?,
    }
    sync_if_asked(open, file).map(|()| bytes.len())
}

/// Takes a caller's list of buffers as a slice.
unsafe fn parts<'a>(list: *const iovec, count: c_int) -> CallResult<&'a [iovec]> {
    match count {
        // SAFETY: the caller gives a list of this length.
        0..=MAX_PARTS => unsafe { pointers::given(list, count as usize) },
        _ => refuse(libc::EINVAL),
    }
}

/// Reads into buffers, one after the other, until one is not filled.
unsafe fn scatter(
    list: *const iovec,
    count: c_int,
    mut read: impl FnMut(&mut [u8]) -> CallResult<usize>,
) -> CallResult<ssize_t> {
    let mut total = 0;
    // SAFETY: the caller gives a list of this length, whose buffers have the lengths that it says.
    for part in unsafe { parts(list, count)? } {
        // SAFETY: as above.
        let buffer = unsafe { out(part.iov_base, part.iov_len)? };
        let length = read(buffer)?;
        total += length as ssize_t;
        if length < buffer.len() {
            break;
        }
    }
    Ok(total)
}

/// Returns the bytes of all buffers, so that one write keeps them together.
unsafe fn gather(list: *const iovec, count: c_int) -> CallResult<Vec<u8>> {
    let mut bytes = Vec::new();
    // SAFETY: as in `scatter`.
    for part in unsafe { parts(list, count)? } {
        // SAFETY: as above.
        bytes.extend_from_slice(unsafe { given(part.iov_base, part.iov_len)? });
    }
    Ok(bytes)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readv(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller gives a list of buffers.
    unsafe { by_descriptor(fd, || real::readv(fd, list, count), |open| scatter(list, count, |out| read_on(open, out))) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn writev(fd: c_int, list: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        by_descriptor(
            fd,
            || real::writev(fd, list, count),
            |open| write_on(open, &gather(list, count)?).map(|length| length as ssize_t),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        by_descriptor(
            fd,
            || real::preadv(fd, list, count, offset),
            |open| {
                let (file, mut at) = (open.readable()?, position(offset)?);
                scatter(list, count, |out| {
                    let length = file.read_at(at, out)?;
                    at += length as u64;
                    Ok(length)
                })
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        by_descriptor(
            fd,
            || real::pwritev(fd, list, count, offset),
            |open| write_positioned(open, position(offset)?, &gather(list, count)?).map(|length| length as ssize_t),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn preadv2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        match (numbers::has(fd), offset) {
            (false, _) => real::preadv2(fd, list, count, offset, flags),
            (true, -1) => readv(fd, list, count),
            (true, _) => preadv(fd, list, count, offset),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pwritev2(
    fd: c_int,
    list: *const iovec,
    count: c_int,
    offset: off_t,
    flags: c_int,
) -> ssize_t {
    // SAFETY: as above.
    unsafe {
        match (numbers::has(fd), offset) {
            (false, _) => real::pwritev2(fd, list, count, offset, flags),
            // They change what is durable, or where the bytes go: an error rather than other bytes.
            (true, _) if flags != 0 => crate::answer::give(refuse(libc::EOPNOTSUPP)),
            (true, -1) => writev(fd, list, count),
            (true, _) => pwritev(fd, list, count, offset),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t {
    // SAFETY: it takes numbers only.
    by_descriptor(fd, || unsafe { real::lseek(fd, offset, whence) }, |open| seek(open, offset, whence))
}

fn seek(open: &OpenDescription, offset: off_t, whence: c_int) -> CallResult<off_t> {
    let _lock = open.lock_offset();
    let from = |start: i64| start.checked_add(offset).filter(|at| *at >= 0);
    let found = |at: Option<u64>| at.and_then(|at| i64::try_from(at).ok());
    let at = match whence {
        libc::SEEK_SET => from(0),
        libc::SEEK_CUR => from(open.offset()),
        libc::SEEK_END => from(i64::try_from(open.stat()?.length).unwrap_or(i64::MAX)),
        libc::SEEK_DATA | libc::SEEK_HOLE => {
            let (file, start) = (open.file()?, u64::try_from(offset).or(refuse(libc::ENXIO))?);
            let at = if whence == libc::SEEK_DATA { file.next_data(start)? } else { file.next_hole(start)? };
            Some(found(at).map_or_else(|| refuse(libc::ENXIO), Ok)?)
        }
        _ => None,
    };
    let Some(at) = at else { return refuse(libc::EINVAL) };
    open.set_offset(at);
    Ok(at)
}

/// The fortified twins end the program if the buffer is shorter than the call says.
fn check_room<T: CReturn>(length: size_t, room: size_t, call: impl FnOnce() -> T) -> T {
    if length > room {
        std::process::abort();
    }
    call()
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(fd: c_int, buffer: *mut c_void, length: size_t, room: size_t) -> ssize_t {
    // SAFETY: the buffer is long enough, which is checked.
    check_room(length, room, || unsafe { read(fd, buffer, length) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __pread_chk(
    fd: c_int,
    buffer: *mut c_void,
    length: size_t,
    offset: off_t,
    room: size_t,
) -> ssize_t {
    // SAFETY: as above.
    check_room(length, room, || unsafe { pread(fd, buffer, length, offset) })
}

twins! {
    read(fd: c_int, buffer: *mut c_void, length: size_t) -> ssize_t: __read, __read_nocancel;
    write(fd: c_int, buffer: *const c_void, length: size_t) -> ssize_t: __write, __write_nocancel;
    pread(fd: c_int, buffer: *mut c_void, length: size_t, offset: off_t) -> ssize_t: pread64, __pread64;
    pwrite(fd: c_int, buffer: *const c_void, length: size_t, offset: off_t) -> ssize_t: pwrite64, __pwrite64;
    preadv(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t: preadv64;
    pwritev(fd: c_int, list: *const iovec, count: c_int, offset: off_t) -> ssize_t: pwritev64;
    preadv2(fd: c_int, list: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t: preadv64v2;
    pwritev2(fd: c_int, list: *const iovec, count: c_int, offset: off_t, flags: c_int) -> ssize_t: pwritev64v2;
    lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t: lseek64, __lseek, llseek;
    __pread_chk(fd: c_int, buffer: *mut c_void, length: size_t, offset: off_t, room: size_t) -> ssize_t: __pread64_chk;
}
