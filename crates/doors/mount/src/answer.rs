//! Converts results of the file tree to FUSE replies.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo, TimeOrNow};
use terrace::Kind;
use terrace::files::{Special, Stat};
use terrace_tree::{Error, Node};

/// Converts the type of a file.
pub fn kind(kind: Kind, special: Option<Special>) -> FileType {
    match (special, kind) {
        (Some(Special::Pipe), _) => FileType::NamedPipe,
        (Some(Special::Socket), _) => FileType::Socket,
        (Some(Special::Character(_)), _) => FileType::CharDevice,
        (Some(Special::Block(_)), _) => FileType::BlockDevice,
        (None, Kind::File) => FileType::RegularFile,
        (None, Kind::Directory) => FileType::Directory,
        (None, Kind::Symlink) => FileType::Symlink,
    }
}

/// Converts the special-file type that `mknod` creates.
pub fn special(mode: u32, device: u32) -> Option<Special> {
    match mode & libc::S_IFMT {
        libc::S_IFIFO => Some(Special::Pipe),
        libc::S_IFSOCK => Some(Special::Socket),
        libc::S_IFCHR => Some(Special::Character(device)),
        libc::S_IFBLK => Some(Special::Block(device)),
        _ => None,
    }
}

/// Converts a file's attributes.
pub fn attributes(node: &Node) -> FileAttr {
    let stat: &Stat = &node.stat;
    FileAttr {
        ino: INodeNo(node.number),
        size: stat.length,
        blocks: stat.length.div_ceil(512),
        atime: time(stat.accessed),
        mtime: time(stat.modified),
        ctime: time(stat.changed),
        crtime: UNIX_EPOCH,
        kind: kind(stat.kind, stat.special),
        perm: stat.mode as u16,
        nlink: stat.links,
        uid: stat.owner.uid,
        gid: stat.owner.gid,
        rdev: match stat.special {
            Some(Special::Character(device) | Special::Block(device)) => device,
            _ => 0,
        },
        blksize: 1 << 20,
        flags: 0,
    }
}

fn time(nanoseconds: i64) -> SystemTime {
    let distance = Duration::from_nanos(nanoseconds.unsigned_abs());
    let time = if nanoseconds < 0 { UNIX_EPOCH.checked_sub(distance) } else { UNIX_EPOCH.checked_add(distance) };
    time.unwrap_or(UNIX_EPOCH)
}

/// Converts a time to nanoseconds since 1970.
pub fn nanoseconds(time: TimeOrNow) -> i64 {
    let time = match time {
        TimeOrNow::SpecificTime(time) => time,
        TimeOrNow::Now => SystemTime::now(),
    };
    let clamp = |distance: Duration| i64::try_from(distance.as_nanos()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => clamp(after),
        Err(before) => {
            // The kernel rounds seconds down and adds nanoseconds, also before 1970; `fuser` 0.18 subtracts them.
            let (seconds, added) = (Duration::from_secs(before.duration().as_secs()), before.duration().subsec_nanos());
            i64::from(added) - clamp(seconds)
        }
    }
}

/// Converts an error to its number. Logs details that the number cannot convey to the caller.
pub fn errno(error: &Error) -> Errno {
    if error.is_the_stores() {
        tracing::warn!(%error, "a request failed");
    }
    Errno::from_i32(error.errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0.75 s before 1970 is second -1 and 250 million nanoseconds in the kernel's terms, and was stored as 1.25 s before 1970.
    #[test]
    fn times_before_1970_keep_their_fraction() {
        let from_fuser = UNIX_EPOCH - Duration::new(1, 250_000_000);
        assert_eq!(nanoseconds(TimeOrNow::SpecificTime(from_fuser)), -750_000_000);
        assert_eq!(time(-750_000_000), UNIX_EPOCH - Duration::from_millis(750));
    }
}
