//! The total and the free space: `statfs` and `statvfs`.

use std::ffi::{c_char, c_int};

use libc::{statfs as FileSystem, statvfs as FileSystemV};

use crate::calls::{by_descriptor, twins};
use crate::errors::CallResult;
use crate::paths::{LastLink, by_path};
use crate::{opened, real};

/// The block size, and the longest name.
const BLOCK_BYTES: u64 = 4096;
const MAX_NAME_BYTES: u64 = 255;
/// The least space of an object of one byte: its frame and its catalog records.
const OBJECT_BYTES: u64 = 512;
/// The type by which programs know that changes of others are not reported to this kernel: that of FUSE.
const FILE_SYSTEM_TYPE: i64 = 0x6573_5546;

/// The numbers of blocks, of free blocks, of files and of further files.
fn space() -> CallResult<(u64, u64, u64, u64)> {
    let shown = opened::get()?;
    let store = shown.files.store();
    let room = store.room();
    let objects = store.catalog().count().map_err(terrace::files::FileError::from)?;
    let blocks = |bytes: u64| bytes.min(i64::MAX as u64) / BLOCK_BYTES;
    let more = room.free.min(i64::MAX as u64) / OBJECT_BYTES;
    Ok((blocks(room.capacity), blocks(room.free), objects.saturating_add(more), more))
}

unsafe fn fill(out: *mut FileSystem) -> CallResult<c_int> {
    let (blocks, free, files, more) = space()?;
    // SAFETY: the caller gives room. The structure consists of numbers, for which zero is valid.
    unsafe {
        let mut found: FileSystem = std::mem::zeroed();
        found.f_type = FILE_SYSTEM_TYPE;
        found.f_bsize = BLOCK_BYTES as _;
        found.f_frsize = BLOCK_BYTES as _;
        (found.f_blocks, found.f_bfree, found.f_bavail) = (blocks, free, free);
        (found.f_files, found.f_ffree) = (files, more);
        found.f_namelen = MAX_NAME_BYTES as _;
        out.write(found);
    }
    Ok(0)
}

unsafe fn fill_v(out: *mut FileSystemV) -> CallResult<c_int> {
    let (blocks, free, files, more) = space()?;
    // SAFETY: as above.
    unsafe {
        let mut found: FileSystemV = std::mem::zeroed();
        (found.f_bsize, found.f_frsize) = (BLOCK_BYTES, BLOCK_BYTES);
        (found.f_blocks, found.f_bfree, found.f_bavail) = (blocks, free, free);
        (found.f_files, found.f_ffree, found.f_favail) = (files, more, more);
        found.f_namemax = MAX_NAME_BYTES;
        out.write(found);
    }
    Ok(0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn statfs(path: *const c_char, out: *mut FileSystem) -> c_int {
    // SAFETY: the caller gives a path, and room for the answer.
    unsafe { by_path(libc::AT_FDCWD, path, LastLink::Follow, |_, path| real::statfs(path, out), |_, _| fill(out)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fstatfs(fd: c_int, out: *mut FileSystem) -> c_int {
    // SAFETY: as above.
    unsafe { by_descriptor(fd, || real::fstatfs(fd, out), |_| fill(out)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn statvfs(path: *const c_char, out: *mut FileSystemV) -> c_int {
    // SAFETY: as above.
    unsafe { by_path(libc::AT_FDCWD, path, LastLink::Follow, |_, path| real::statvfs(path, out), |_, _| fill_v(out)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fstatvfs(fd: c_int, out: *mut FileSystemV) -> c_int {
    // SAFETY: as above.
    unsafe { by_descriptor(fd, || real::fstatvfs(fd, out), |_| fill_v(out)) }
}

twins! {
    statfs(path: *const c_char, out: *mut FileSystem) -> c_int: statfs64;
    fstatfs(fd: c_int, out: *mut FileSystem) -> c_int: fstatfs64;
    statvfs(path: *const c_char, out: *mut FileSystemV) -> c_int: statvfs64;
    fstatvfs(fd: c_int, out: *mut FileSystemV) -> c_int: fstatvfs64;
}
