//! The system calls at which the kernel asks, and the meaning of their arguments.

use std::ffi::{c_int, c_long, c_uint};

use libc::seccomp_data;

use crate::times::TimesForm;

/// The calls that every architecture has.
const USUAL_CALLS: [c_long; 33] = [
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_readlinkat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    libc::SYS_utimensat,
    libc::SYS_fchmodat2,
    libc::SYS_fchownat,
    libc::SYS_fchmod,
    libc::SYS_fchown,
    libc::SYS_ftruncate,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
];
/// Calls that only older architectures have.
#[cfg(target_arch = "x86_64")]
const OLDER_CALLS: [c_long; 18] = [
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_readlink,
    libc::SYS_symlink,
    libc::SYS_link,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_CALLS: [c_long; 0] = [];

/// A call with a path, or one for attributes of an open file. Numbers named after what they point to are addresses in the caller's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCall {
    /// The descriptor of the directory from which a relative path leads on.
    pub dir: c_int,
    /// The path. 0 if the call concerns the file of the descriptor itself.
    pub path: u64,
    /// Whether a symbolic link at the path's end is followed.
    pub follows: bool,
    /// The task.
    pub task: CallTask,
}

/// The task of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallTask {
    /// Open a file or a directory.
    Open { flags: c_int, mode: u32 },
    /// The same, with the arguments of `openat2`.
    OpenAs { how: u64 },
    /// Return the attributes.
    Stat { out: u64 },
    /// Return the attributes in the newer structure.
    StatX { out: u64 },
    /// Check what the caller may do.
    Access { wanted: c_int },
    /// Rename.
    Rename { to_dir: c_int, to: u64, flags: c_uint },
    /// Remove.
    Remove { is_directory: bool },
    /// Make a directory.
    MakeDirectory { mode: u32 },
    /// Return a symbolic link's target.
    ReadLink { out: u64, size: u64 },
    /// Make a symbolic link.
    MakeLink { to: u64 },
    /// Make a hard link, to which the store has nothing alike.
    MakeHardLink,
    /// Set the length.
    SetLength { length: i64 },
    /// Set the permissions.
    SetMode { mode: u32 },
    /// Set the owner and the group. `u32::MAX` leaves one as it is.
    SetOwner { user: u32, group: u32 },
    /// Set the times of access and modification.
    SetTimes { times: u64, form: TimesForm },
    /// Return, change or remove extended attributes.
    Pairs(PairTask),
}

/// The task of a call on extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PairTask {
    /// Return the value of one.
    Get { name: u64, out: u64, size: u64 },
    /// Return the names of all.
    List { out: u64, size: u64 },
    /// Set one.
    Set { name: u64, value: u64, size: u64, flags: c_int },
    /// Remove one.
    Remove { name: u64 },
}

impl CallTask {
    /// Whether it concerns attributes that a spool or a copy has not.
    pub fn concerns_object(self) -> bool {
        matches!(
            self,
            CallTask::Pairs(_)
                | CallTask::SetLength { .. }
                | CallTask::SetMode { .. }
                | CallTask::SetOwner { .. }
                | CallTask::SetTimes { .. }
        )
    }

    /// Whether a file that it opens may be written.
    pub fn opens_to_write(self) -> bool {
        match self {
            CallTask::Open { flags, .. } => flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0,
            // Its flags are in the caller's memory.
            CallTask::OpenAs { .. } => true,
            _ => false,
        }
    }
}

/// The numbers of the calls.
pub fn numbers() -> Vec<c_long> {
    USUAL_CALLS.iter().chain(&OLDER_CALLS).copied().collect()
}

/// Returns the meaning of a call.
pub fn decode(data: &seccomp_data) -> Option<PathCall> {
    let [a, b, c, d, e, _] = data.args;
    let call = |dir: u64, path, flags: u64, task| PathCall {
        dir: dir as c_int,
        path,
        follows: flags as c_int & libc::AT_SYMLINK_NOFOLLOW == 0,
        task,
    };
    let keep = libc::AT_SYMLINK_NOFOLLOW as u64;
    Some(match c_long::from(data.nr) {
        libc::SYS_openat => open(a, b, c as c_int, d as u32),
        libc::SYS_openat2 => call(a, b, 0, CallTask::OpenAs { how: c }),
        libc::SYS_newfstatat => call(a, b, d, CallTask::Stat { out: c }),
        libc::SYS_statx => call(a, b, c, CallTask::StatX { out: e }),
        libc::SYS_faccessat => call(a, b, 0, CallTask::Access { wanted: c as c_int }),
        libc::SYS_faccessat2 => call(a, b, d, CallTask::Access { wanted: c as c_int }),
        libc::SYS_renameat => call(a, b, keep, CallTask::Rename { to_dir: c as c_int, to: d, flags: 0 }),
        libc::SYS_renameat2 => call(a, b, keep, CallTask::Rename { to_dir: c as c_int, to: d, flags: e as c_uint }),
        libc::SYS_unlinkat => call(a, b, keep, CallTask::Remove { is_directory: c as c_int & libc::AT_REMOVEDIR != 0 }),
        libc::SYS_mkdirat => call(a, b, keep, CallTask::MakeDirectory { mode: c as u32 }),
        libc::SYS_readlinkat => call(a, b, keep, CallTask::ReadLink { out: c, size: d }),
        libc::SYS_symlinkat => call(b, c, keep, CallTask::MakeLink { to: a }),
        libc::SYS_linkat => call(c, d, keep, CallTask::MakeHardLink),
        libc::SYS_truncate => call(CURRENT_DIRECTORY, a, 0, CallTask::SetLength { length: b as i64 }),
        libc::SYS_fchmodat => call(a, b, 0, CallTask::SetMode { mode: c as u32 }),
        libc::SYS_fchmodat2 => call(a, b, d, CallTask::SetMode { mode: c as u32 }),
        libc::SYS_utimensat => call(a, b, d, CallTask::SetTimes { times: c, form: TimesForm::Nanoseconds }),
        libc::SYS_fchownat => call(a, b, e, CallTask::SetOwner { user: c as u32, group: d as u32 }),
        libc::SYS_fchmod => call(a, 0, keep, CallTask::SetMode { mode: b as u32 }),
        libc::SYS_fchown => call(a, 0, keep, CallTask::SetOwner { user: b as u32, group: c as u32 }),
        libc::SYS_ftruncate => call(a, 0, keep, CallTask::SetLength { length: b as i64 }),
        number => return decode_pairs(number, data.args).or_else(|| decode_older(number, data.args)),
    })
}

/// Returns the meaning of a call on extended attributes. Each has three forms: by a path whose last link is followed or kept, and by a
/// descriptor.
fn decode_pairs(number: c_long, [a, name, value, size, flags, _]: [u64; 6]) -> Option<PathCall> {
    let task = match number {
        libc::SYS_getxattr | libc::SYS_lgetxattr | libc::SYS_fgetxattr => PairTask::Get { name, out: value, size },
        libc::SYS_listxattr | libc::SYS_llistxattr | libc::SYS_flistxattr => PairTask::List { out: name, size: value },
        libc::SYS_setxattr | libc::SYS_lsetxattr | libc::SYS_fsetxattr => {
            PairTask::Set { name, value, size, flags: flags as c_int }
        }
        libc::SYS_removexattr | libc::SYS_lremovexattr | libc::SYS_fremovexattr => PairTask::Remove { name },
        _ => return None,
    };
    let (dir, path) = match number {
        libc::SYS_fgetxattr | libc::SYS_flistxattr | libc::SYS_fsetxattr | libc::SYS_fremovexattr => (a as c_int, 0),
        _ => (libc::AT_FDCWD, a),
    };
    let follows =
        matches!(number, libc::SYS_getxattr | libc::SYS_listxattr | libc::SYS_setxattr | libc::SYS_removexattr);
    Some(PathCall { dir, path, follows, task: CallTask::Pairs(task) })
}

/// The current directory, as an argument.
const CURRENT_DIRECTORY: u64 = libc::AT_FDCWD as u64;

fn open(dir: u64, path: u64, flags: c_int, mode: u32) -> PathCall {
    let is_new = flags & libc::O_CREAT != 0 && flags & libc::O_EXCL != 0;
    let follows = !is_new && flags & libc::O_NOFOLLOW == 0;
    PathCall { dir: dir as c_int, path, follows, task: CallTask::Open { flags, mode } }
}

#[cfg(target_arch = "x86_64")]
fn decode_older(number: c_long, [a, b, c, ..]: [u64; 6]) -> Option<PathCall> {
    let call = |path, follows, task| PathCall { dir: libc::AT_FDCWD, path, follows, task };
    Some(match number {
        libc::SYS_open => open(CURRENT_DIRECTORY, a, b as c_int, c as u32),
        libc::SYS_creat => open(CURRENT_DIRECTORY, a, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, b as u32),
        libc::SYS_stat => call(a, true, CallTask::Stat { out: b }),
        libc::SYS_lstat => call(a, false, CallTask::Stat { out: b }),
        libc::SYS_access => call(a, true, CallTask::Access { wanted: b as c_int }),
        libc::SYS_rename => call(a, false, CallTask::Rename { to_dir: libc::AT_FDCWD, to: b, flags: 0 }),
        libc::SYS_unlink => call(a, false, CallTask::Remove { is_directory: false }),
        libc::SYS_mkdir => call(a, false, CallTask::MakeDirectory { mode: b as u32 }),
        libc::SYS_rmdir => call(a, false, CallTask::Remove { is_directory: true }),
        libc::SYS_readlink => call(a, false, CallTask::ReadLink { out: b, size: c }),
        libc::SYS_symlink => call(b, false, CallTask::MakeLink { to: a }),
        libc::SYS_link => call(b, false, CallTask::MakeHardLink),
        libc::SYS_chmod => call(a, true, CallTask::SetMode { mode: b as u32 }),
        libc::SYS_chown => call(a, true, CallTask::SetOwner { user: b as u32, group: c as u32 }),
        libc::SYS_lchown => call(a, false, CallTask::SetOwner { user: b as u32, group: c as u32 }),
        libc::SYS_utime => call(a, true, CallTask::SetTimes { times: b, form: TimesForm::Seconds }),
        libc::SYS_utimes => call(a, true, CallTask::SetTimes { times: b, form: TimesForm::Microseconds }),
        libc::SYS_futimesat => {
            let task = CallTask::SetTimes { times: c, form: TimesForm::Microseconds };
            PathCall { dir: a as c_int, path: b, follows: true, task }
        }
        _ => return None,
    })
}

#[cfg(not(target_arch = "x86_64"))]
fn decode_older(_: c_long, _: [u64; 6]) -> Option<PathCall> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_a_meaning() {
        for number in numbers() {
            let args = [1, 2, 3, 4, 5, 6];
            let data = seccomp_data { nr: number as c_int, arch: 0, instruction_pointer: 0, args };
            assert!(decode(&data).is_some(), "{number}");
        }
        let other = seccomp_data { nr: libc::SYS_read as c_int, arch: 0, instruction_pointer: 0, args: [0; 6] };
        assert_eq!(decode(&other), None);
    }
}
