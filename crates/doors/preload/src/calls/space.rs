//! The total and the free space: `statfs` and `statvfs`; and limits: `pathconf`.

use std::ffi::{c_char, c_int, c_long};

use libc::{statfs as FileSystem, statvfs as FileSystemV};
use terrace::files::FileSpace;

use crate::calls::{by_descriptor, stat, twins};
use crate::errors::CallResult;
use crate::paths::{LastLink, by_path};
use crate::pointers::put;
use crate::{opened, real};

/// The file system type that programs see: that of FUSE. It tells them that this kernel does not report the changes of others.
const FILE_SYSTEM_TYPE: i64 = 0x6573_5546;

unsafe fn fill(out: *mut FileSystem) -> CallResult<c_int> {
    let space = opened::get()?.files.space()?;
    // SAFETY: the caller gives room. The structure consists of numbers, for which zero is valid.
    unsafe {
        let mut found: FileSystem = std::mem::zeroed();
        found.f_type = FILE_SYSTEM_TYPE;
        found.f_bsize = FileSpace::BLOCK_BYTES as _;
        found.f_frsize = FileSpace::BLOCK_BYTES as _;
        (found.f_blocks, found.f_bfree, found.f_bavail) = (space.blocks, space.free_blocks, space.free_blocks);
        (found.f_files, found.f_ffree) = (space.files, space.free_files);
        found.f_namelen = FileSpace::MAX_NAME_BYTES as _;
        put(found, out)?;
    }
    Ok(0)
}

unsafe fn fill_v(out: *mut FileSystemV) -> CallResult<c_int> {
    let space = opened::get()?.files.space()?;
    // SAFETY: as above.
    unsafe {
        let mut found: FileSystemV = std::mem::zeroed();
        (found.f_bsize, found.f_frsize) = (FileSpace::BLOCK_BYTES.into(), FileSpace::BLOCK_BYTES.into());
        (found.f_blocks, found.f_bfree, found.f_bavail) = (space.blocks, space.free_blocks, space.free_blocks);
        (found.f_files, found.f_ffree, found.f_favail) = (space.files, space.free_files, space.free_files);
        found.f_namemax = FileSpace::MAX_NAME_BYTES.into();
        put(found, out)?;
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

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pathconf(path: *const c_char, name: c_int) -> c_long {
    // SAFETY: the caller gives a path.
    unsafe {
        by_path(
            libc::AT_FDCWD,
            path,
            LastLink::Follow,
            |_, path| real::pathconf(path, name),
            |path, stat| stat::existing(path, stat).map(|_| limit(name)),
        )
    }
}

/// Returns a limit of names and files, or -1 if it is unknown.
fn limit(name: c_int) -> c_long {
    match name {
        libc::_PC_LINK_MAX | libc::_PC_NO_TRUNC | libc::_PC_CHOWN_RESTRICTED => 1,
        libc::_PC_NAME_MAX => c_long::from(FileSpace::MAX_NAME_BYTES),
        libc::_PC_PATH_MAX => libc::PATH_MAX.into(),
        libc::_PC_PIPE_BUF => libc::PIPE_BUF as c_long,
        libc::_PC_FILESIZEBITS => 64,
        _ => -1,
    }
}

twins! {
    statfs(path: *const c_char, out: *mut FileSystem) -> c_int: statfs64;
    fstatfs(fd: c_int, out: *mut FileSystem) -> c_int: fstatfs64;
    statvfs(path: *const c_char, out: *mut FileSystemV) -> c_int: statvfs64;
    fstatvfs(fd: c_int, out: *mut FileSystemV) -> c_int: fstatvfs64;
}
