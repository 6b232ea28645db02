//! The kernel's rules of who may open a file.

use std::ffi::c_int;
use std::fs;

use terrace::Kind;
use terrace::files::{Owner, Stat};

/// The mask if the kernel does not tell: nobody but the owner may write.
const UNKNOWN_MASK: u32 = 0o022;

/// The owner of new files: the caller.
pub fn caller() -> Owner {
    // SAFETY: these calls only return numbers.
    unsafe { Owner { uid: libc::geteuid(), gid: libc::getegid() } }
}

/// The mask of new files' permissions, as far as the kernel tells it without changing it.
pub fn mask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("Umask:")?.trim(), 8).ok());
    mask.unwrap_or(UNKNOWN_MASK)
}

/// Whether the caller may read (`R_OK`), write (`W_OK`) or execute (`X_OK`) a file.
pub fn may_access(stat: &Stat, wanted: c_int) -> bool {
    let by = caller();
    let any_execute = stat.mode & 0o111 != 0 || stat.kind == Kind::Directory;
    let allowed = match () {
        () if by.uid == 0 => libc::R_OK | libc::W_OK | if any_execute { libc::X_OK } else { 0 },
        () if by.uid == stat.owner.uid => (stat.mode >> 6 & 7) as c_int,
        () if is_in_group(stat.owner.gid) => (stat.mode >> 3 & 7) as c_int,
        () => (stat.mode & 7) as c_int,
    };
    wanted & !allowed & (libc::R_OK | libc::W_OK | libc::X_OK) == 0
}

fn is_in_group(group: u32) -> bool {
    let mut groups = [0; 256];
    // SAFETY: the system fills at most as many numbers as there is room for.
    let count = unsafe { libc::getgroups(groups.len() as c_int, groups.as_mut_ptr()) };
    caller().gid == group || groups[..count.max(0) as usize].contains(&group)
}
