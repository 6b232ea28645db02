//! Changes of attributes: modes, owners, times.

use std::ffi::{c_char, c_int};
use std::time::{SystemTime, UNIX_EPOCH};

use libc::{gid_t, mode_t, timespec, timeval, uid_t};
use terrace::files::Setting;
use terrace_posix::to_owner;

use crate::calls::by_descriptor;
use crate::description::OpenDescription;
use crate::errors::{CallResult, refuse};
use crate::paths::{LastLink, by_path};
use crate::pointers::given;
use crate::{numbers, opened, real};

fn set_path(path: &[u8], setting: &Setting) -> CallResult<c_int> {
    opened::get()?.files.set(path, setting)?;
    Ok(0)
}

fn set_open(open: &OpenDescription, setting: &Setting) -> CallResult<c_int> {
    match open.is_directory() {
        true => set_path(&open.path(), setting),
        false => {
            open.file()?.set(setting)?;
            Ok(0)
        }
    }
}

fn of_mode(mode: mode_t) -> Setting {
    Setting { mode: Some(mode & 0o7777), ..Setting::default() }
}

fn last_link(flags: c_int) -> LastLink {
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 { LastLink::Keep } else { LastLink::Follow }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fchmodat(dir: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int {
    // SAFETY: the caller gives a path.
    unsafe {
        by_path(
            dir,
            path,
            last_link(flags),
            |dir, path| real::fchmodat(dir, path, mode, flags),
            |path, _| set_path(path, &of_mode(mode)),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn chmod(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { fchmodat(libc::AT_FDCWD, path, mode, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lchmod(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as above.
    unsafe { fchmodat(libc::AT_FDCWD, path, mode, libc::AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fchmod(fd: c_int, mode: mode_t) -> c_int {
    // SAFETY: it takes numbers only.
    by_descriptor(fd, || unsafe { real::fchmod(fd, mode) }, |open| set_open(open, &of_mode(mode)))
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fchownat(
    dir: c_int,
    path: *const c_char,
    user: uid_t,
    group: gid_t,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller gives a path.
    unsafe {
        if flags & libc::AT_EMPTY_PATH != 0 && numbers::has(dir) && *path == 0 {
            return fchown(dir, user, group);
        }
        by_path(
            dir,
            path,
            last_link(flags),
            |dir, path| real::fchownat(dir, path, user, group, flags),
            |path, _| set_path(path, &to_owner(user, group)),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn chown(path: *const c_char, user: uid_t, group: gid_t) -> c_int {
    // SAFETY: as above.
    unsafe { fchownat(libc::AT_FDCWD, path, user, group, 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lchown(path: *const c_char, user: uid_t, group: gid_t) -> c_int {
    // SAFETY: as above.
    unsafe { fchownat(libc::AT_FDCWD, path, user, group, libc::AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fchown(fd: c_int, user: uid_t, group: gid_t) -> c_int {
    // SAFETY: it takes numbers only.
    by_descriptor(fd, || unsafe { real::fchown(fd, user, group) }, |open| set_open(open, &to_owner(user, group)))
}

/// Reads the two times of `utimensat`; none mean now.
unsafe fn of_times(times: *const timespec) -> CallResult<Setting> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64);
    if times.is_null() {
        return Ok(Setting { accessed: Some(now), modified: Some(now), ..Setting::default() });
    }
    let read = |time: timespec| match time.tv_nsec {
        libc::UTIME_NOW => Ok(Some(now)),
        libc::UTIME_OMIT => Ok(None),
        0..1_000_000_000 => Ok(Some(time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec))),
        _ => refuse(libc::EINVAL),
    };
    // SAFETY: the caller gives two times.
    let [accessed, modified] = (unsafe { given(times, 2)? }) else { return refuse(libc::EFAULT) };
    let (accessed, modified) = (read(*accessed)?, read(*modified)?);
    Ok(Setting { accessed, modified, ..Setting::default() })
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn utimensat(
    dir: c_int,
    path: *const c_char,
    times: *const timespec,
    flags: c_int,
) -> c_int {
    if path.is_null() {
        // SAFETY: the caller gives two times or none.
        return unsafe { futimens(dir, times) };
    }
    // SAFETY: the caller gives a path, and two times or none.
    unsafe {
        by_path(
            dir,
            path,
            last_link(flags),
            |dir, path| real::utimensat(dir, path, times, flags),
            |path, _| set_path(path, &of_times(times)?),
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn futimens(fd: c_int, times: *const timespec) -> c_int {
    // SAFETY: as above.
    unsafe { by_descriptor(fd, || real::futimens(fd, times), |open| set_open(open, &of_times(times)?)) }
}

/// Converts the times of the older calls.
unsafe fn of_microseconds(times: *const timeval) -> Option<[timespec; 2]> {
    let convert = |time: timeval| timespec { tv_sec: time.tv_sec, tv_nsec: time.tv_usec * 1000 };
    // SAFETY: the caller gives two times or none.
    (!times.is_null()).then(|| unsafe { [convert(*times), convert(*times.add(1))] })
}

fn pointer(times: &Option<[timespec; 2]>) -> *const timespec {
    times.as_ref().map_or(std::ptr::null(), |times| times.as_ptr())
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn futimesat(dir: c_int, path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: as above.
    unsafe { utimensat(dir, path, pointer(&of_microseconds(times)), 0) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn utimes(path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: as above.
    unsafe { futimesat(libc::AT_FDCWD, path, times) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn lutimes(path: *const c_char, times: *const timeval) -> c_int {
    // SAFETY: as above.
    unsafe { utimensat(libc::AT_FDCWD, path, pointer(&of_microseconds(times)), libc::AT_SYMLINK_NOFOLLOW) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn futimes(fd: c_int, times: *const timeval) -> c_int {
    // SAFETY: as above.
    unsafe { futimens(fd, pointer(&of_microseconds(times))) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn utime(path: *const c_char, times: *const libc::utimbuf) -> c_int {
    let second = |tv_sec| timespec { tv_sec, tv_nsec: 0 };
    // SAFETY: the caller gives a path, and two times or none.
    unsafe {
        let times = (!times.is_null()).then(|| [second((*times).actime), second((*times).modtime)]);
        utimensat(libc::AT_FDCWD, path, pointer(&times), 0)
    }
}
