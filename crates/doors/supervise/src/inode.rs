//! Attributes of the kernel's files.

use std::ffi::c_int;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{AtFlags, CWD, Mode, Timespec, Timestamps, UTIME_OMIT, chmod, utimensat};
use terrace::files::Setting;

const NANOSECONDS_PER_SECOND: i64 = 1_000_000_000;

/// Returns the number of the kernel's error.
pub fn number(error: impl Into<io::Error>) -> c_int {
    error.into().raw_os_error().unwrap_or(libc::EIO)
}

/// Returns the time of modification in nanoseconds since 1970.
pub fn modified(metadata: &Metadata) -> i64 {
    metadata.mtime().saturating_mul(NANOSECONDS_PER_SECOND).saturating_add(metadata.mtime_nsec())
}

/// Sets the mode and the times of the file with this name. The owner stays: leases are granted to a file's owner only.
pub fn set(name: &str, setting: &Setting) -> Result<(), c_int> {
    if let Some(mode) = setting.mode {
        chmod(name, Mode::from_raw_mode(mode & 0o7777)).map_err(number)?;
    }
    if setting.accessed.is_none() && setting.modified.is_none() {
        return Ok(());
    }
    let convert = |time: Option<i64>| match time {
        Some(time) => Timespec {
            tv_sec: time.div_euclid(NANOSECONDS_PER_SECOND),
            tv_nsec: time.rem_euclid(NANOSECONDS_PER_SECOND) as _,
        },
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
    };
    let times = Timestamps { last_access: convert(setting.accessed), last_modification: convert(setting.modified) };
    utimensat(CWD, name, &times, AtFlags::empty()).map_err(number)
}
