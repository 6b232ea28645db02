//! The incarnation of a directory: its inode, and the mount of its file system.
//!
//! As long as both stay the same, and the machine runs, no write to the directory is lost, synced or not. A disk that is
//! unplugged and plugged in again loses unsynced writes, and so does a copy of an image or a volume that is in use. In both
//! cases the kernel mounts the file system again. A copy of the directory has another inode.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use super::mounts::Mounts;

/// File systems for which the kernel shows a folder for each mounted device. Each mount creates the folder again, with an
/// inode number that is never used twice.
const MOUNTS_OF_DEVICES: [&str; 3] = ["/sys/fs/ext4", "/sys/fs/xfs", "/sys/fs/f2fs"];
/// Btrfs has a folder for each file system, in which `devices` names the devices.
const MOUNTS_OF_BTRFS: &str = "/sys/fs/btrfs";

/// Returns the name of the incarnation of `dir`. None if the kernel does not show it: on other file systems, or without
/// `/sys`. All processes of the machine get the same name, also in containers, because these folders belong to no namespace.
pub fn read_incarnation(dir: &Path) -> Option<String> {
    Some(format!("{}.{}", read_mount(dir)?, fs::metadata(dir).ok()?.ino()))
}

/// Returns a number for the mount of the file system that `dir` is on. None as for [`read_incarnation`].
pub fn read_mount(dir: &Path) -> Option<u64> {
    let device = fs::metadata(dir).ok()?.dev();
    let mount = find_by_device(device).or_else(|| find_btrfs(dir))?;
    Some(fs::metadata(mount).ok()?.ino())
}

fn find_by_device(device: u64) -> Option<PathBuf> {
    let link = fs::read_link(format!("/sys/dev/block/{}:{}", major(device), minor(device))).ok()?;
    let name = link.file_name()?;
    MOUNTS_OF_DEVICES.iter().map(|folder| Path::new(folder).join(name)).find(|mount| mount.exists())
}

/// Finds the folder of a Btrfs. Its files have a device number of their own, so the device is taken from the list of mounts.
fn find_btrfs(dir: &Path) -> Option<PathBuf> {
    let mounts = Mounts::read();
    let source = &mounts.find(&File::open(dir).ok()?).filter(|mount| mount.kind == "btrfs")?.source;
    let device = fs::canonicalize(source).unwrap_or_else(|_| source.into());
    let name = device.file_name()?;
    let is_it = |mount: &PathBuf| mount.join("devices").join(name).exists();
    let listed: io::Result<Vec<_>> = fs::read_dir(MOUNTS_OF_BTRFS).ok()?.collect();
    listed.ok()?.into_iter().map(|entry| entry.path()).find(is_it)
}
