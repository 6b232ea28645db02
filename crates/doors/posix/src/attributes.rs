//! Converts a file's attributes to those of C.

use std::hash::{DefaultHasher, Hash, Hasher};

use libc::mode_t;
use terrace::Kind;
use terrace::files::{Special, Stat};

/// The length that reads and writes should have.
const PREFERRED_BYTES: u32 = 1 << 20;
/// The unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;
/// The bit in the numbers of directories that are not objects.
const IMPLIED_DIRECTORY_BIT: u64 = 1 << 63;

/// Returns the number of a file.
pub fn number(id: Option<u64>, path: &[u8]) -> u64 {
    id.unwrap_or_else(|| {
        let mut hasher = DefaultHasher::new();
        path.hash(&mut hasher);
        hasher.finish() | IMPLIED_DIRECTORY_BIT
    })
}

/// Returns the type and the permission bits.
pub fn mode(stat: &Stat) -> mode_t {
    let kind = match (stat.special, stat.kind) {
        (Some(Special::Pipe), _) => libc::S_IFIFO,
        (Some(Special::Socket), _) => libc::S_IFSOCK,
        (Some(Special::Character(_)), _) => libc::S_IFCHR,
        (Some(Special::Block(_)), _) => libc::S_IFBLK,
        (None, Kind::File) => libc::S_IFREG,
        (None, Kind::Directory) => libc::S_IFDIR,
        (None, Kind::Symlink) => libc::S_IFLNK,
    };
    kind | stat.mode
}

/// Returns the type as in an entry of a directory.
pub fn entry_type(kind: Kind, special: Option<Special>) -> u8 {
    match (special, kind) {
        (Some(Special::Pipe), _) => libc::DT_FIFO,
        (Some(Special::Socket), _) => libc::DT_SOCK,
        (Some(Special::Character(_)), _) => libc::DT_CHR,
        (Some(Special::Block(_)), _) => libc::DT_BLK,
        (None, Kind::File) => libc::DT_REG,
        (None, Kind::Directory) => libc::DT_DIR,
        (None, Kind::Symlink) => libc::DT_LNK,
    }
}

fn special_device(stat: &Stat) -> u64 {
    match stat.special {
        Some(Special::Character(device) | Special::Block(device)) => u64::from(device),
        _ => 0,
    }
}

/// Splits a time into seconds and the nanoseconds that are added to them, also before 1970.
fn split_time(time: i64) -> (i64, i64) {
    (time.div_euclid(1_000_000_000), time.rem_euclid(1_000_000_000))
}

/// Converts to the structure of `stat`.
pub fn to_stat(stat: &Stat, path: &[u8], device: u64) -> libc::stat {
    // SAFETY: it consists of numbers, for which zero is valid.
    let mut out: libc::stat = unsafe { std::mem::zeroed() };
    out.st_dev = device;
    out.st_ino = number(stat.id, path);
    out.st_mode = mode(stat);
    out.st_nlink = stat.links as libc::nlink_t;
    (out.st_uid, out.st_gid) = (stat.owner.uid, stat.owner.gid);
    out.st_rdev = special_device(stat);
    out.st_size = stat.length as i64;
    out.st_blksize = PREFERRED_BYTES as libc::blksize_t;
    out.st_blocks = stat.length.div_ceil(BLOCK_BYTES) as i64;
    (out.st_atime, out.st_atime_nsec) = split_time(stat.accessed);
    (out.st_mtime, out.st_mtime_nsec) = split_time(stat.modified);
    (out.st_ctime, out.st_ctime_nsec) = split_time(stat.changed);
    out
}

/// Converts to the structure of `statx`.
pub fn to_statx(stat: &Stat, path: &[u8], device: u64) -> libc::statx {
    // SAFETY: it consists of numbers, for which zero is valid.
    let mut out: libc::statx = unsafe { std::mem::zeroed() };
    let time = |time| {
        // SAFETY: as above.
        let mut out: libc::statx_timestamp = unsafe { std::mem::zeroed() };
        let (seconds, nanoseconds) = split_time(time);
        (out.tv_sec, out.tv_nsec) = (seconds, nanoseconds as u32);
        out
    };
    out.stx_mask = libc::STATX_BASIC_STATS;
    out.stx_blksize = PREFERRED_BYTES;
    out.stx_nlink = stat.links;
    (out.stx_uid, out.stx_gid) = (stat.owner.uid, stat.owner.gid);
    out.stx_mode = mode(stat) as u16;
    out.stx_ino = number(stat.id, path);
    out.stx_size = stat.length;
    out.stx_blocks = stat.length.div_ceil(BLOCK_BYTES);
    (out.stx_atime, out.stx_mtime, out.stx_ctime) = (time(stat.accessed), time(stat.modified), time(stat.changed));
    let special = special_device(stat);
    (out.stx_rdev_major, out.stx_rdev_minor) = (libc::major(special), libc::minor(special));
    (out.stx_dev_major, out.stx_dev_minor) = (libc::major(device), libc::minor(device));
    out
}
