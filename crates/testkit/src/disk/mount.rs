//! Creates, mounts and unmounts file systems on files, with a guard that unmounts them however the test ends.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::mount::umount;
use tempfile::TempDir;

/// The longest wait for a mount that is still in use.
const MAX_UNMOUNT_WAIT: Duration = Duration::from_secs(90);
const UNMOUNT_RETRY_INTERVAL: Duration = Duration::from_millis(20);
/// Where disks are kept in memory.
const MEMORY_FOLDER: &str = "/dev/shm";
const FOLDER_PREFIX: &str = "terrace-disk-";
/// Unmounts the disk in the folder `$0` once standard input ends, which is when the test drops the folder or dies, and
/// removes the folder. Only this cleans up after a test that was killed.
const GUARD_SCRIPT: &str = r#"
cat > /dev/null
while umount -l "$0/mnt" 2> /dev/null; do :; done
while umount -l "$0/fuse" 2> /dev/null; do :; done
rm -rf --one-file-system "$0"
"#;

/// A file system that recorded disks can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFormat {
    /// ext4, with data written before the metadata that names it.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
}

impl DiskFormat {
    /// All formats.
    pub const ALL: [DiskFormat; 3] = [DiskFormat::Ext4, DiskFormat::Xfs, DiskFormat::Btrfs];

    /// Its name for `mount -t`.
    pub fn name(self) -> &'static str {
        match self {
            DiskFormat::Ext4 => "ext4",
            DiskFormat::Xfs => "xfs",
            DiskFormat::Btrfs => "btrfs",
        }
    }

    /// Returns the size of the smallest disk for it.
    pub fn min_bytes(self) -> u64 {
        match self {
            DiskFormat::Ext4 => 16 << 20,
            DiskFormat::Xfs => 300 << 20,
            DiskFormat::Btrfs => 128 << 20,
        }
    }

    /// Returns the offsets of its superblocks.
    pub(super) fn superblocks(self) -> &'static [u64] {
        match self {
            DiskFormat::Ext4 | DiskFormat::Xfs => &[0],
            DiskFormat::Btrfs => &[64 << 10, 64 << 20],
        }
    }

    /// Creates an empty file system in a file.
    pub(super) fn format(self, file: &Path) -> io::Result<()> {
        let options: &[&str] = match self {
            DiskFormat::Ext4 => {
                &["-q", "-F", "-b", "4096", "-J", "size=4", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]
            }
            DiskFormat::Xfs | DiskFormat::Btrfs => &["-q", "-f", "-K"],
        };
        remove_dead_disks();
        run(Command::new(format!("mkfs.{}", self.name())).args(options).arg(file))
    }

    /// Mounts the file system in a file. `mount` creates the loop device, which ends with the mount.
    pub(super) fn mount(self, file: &Path, at: &Path) -> io::Result<()> {
        if self == DiskFormat::Btrfs {
            // Btrfs remembers a disk after it was unmounted, and would refuse an older state of it.
            run(Command::new("btrfs").args(["--quiet", "device", "scan", "--forget"]))?;
        }
        run(Command::new("mount").args(["-t", self.name(), "-o", "loop"]).arg(file).arg(at))
    }
}

/// Mounts another state of a file system that was mounted before. A process with its own mount namespace that began
/// meanwhile (a container, `unshare`) keeps the old state mounted, and XFS and Btrfs refuse the new one until it ends.
pub(super) fn mount_again(format: DiskFormat, file: &Path, at: &Path) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match format.mount(file, at) {
            Err(_) if begun.elapsed() < MAX_UNMOUNT_WAIT => std::thread::sleep(UNMOUNT_RETRY_INTERVAL),
            mounted => return mounted,
        }
    }
}

/// Unmounts a file system, and waits while it is in use.
pub(super) fn unmount_wholly(at: &Path) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match umount(at) {
            Ok(()) => return Ok(()),
            Err(Errno::EBUSY) if begun.elapsed() < MAX_UNMOUNT_WAIT => std::thread::sleep(UNMOUNT_RETRY_INTERVAL),
            Err(error) => {
                let context = format!("unmounting {}: {error}", at.display());
                return Err(io::Error::new(io::Error::from(error).kind(), context));
            }
        }
    }
}

/// Runs a program. If it fails, its output is the error.
pub(super) fn run(command: &mut Command) -> io::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| io::Error::new(error.kind(), format!("running {program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().next().unwrap_or_default();
    Err(io::Error::other(format!("{program} failed ({}): {said}", output.status)))
}

/// Unmounts and removes the disks whose server and guard were killed. `mkfs.btrfs` refuses to work beside one, because it asks each mounted
/// loop device for its file.
pub fn remove_dead_disks() {
    let parents = [Path::new(MEMORY_FOLDER).to_owned(), std::env::temp_dir()];
    for folder in parents.iter().flat_map(fs::read_dir).flatten().flatten().map(|entry| entry.path()) {
        let is_disk =
            folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(FOLDER_PREFIX.as_bytes()));
        // The kernel may know attributes from before; a listing asks the server.
        let is_dead =
            || fs::read_dir(folder.join("fuse")).is_err_and(|error| error.kind() == io::ErrorKind::NotConnected);
        if is_disk && is_dead() {
            // A disk that cannot be removed here is told by what fails beside it.
            let _ = Command::new("sh").args(["-c", GUARD_SCRIPT]).arg(&folder).stdin(Stdio::null()).status();
        }
    }
}

/// A folder for a disk, and the guard that removes it.
pub(super) struct DiskFolder {
    pub(super) path: PathBuf,
    guard: Child,
}

impl DiskFolder {
    /// Creates a folder, in memory if there is room, because records need not survive.
    pub(super) fn new() -> io::Result<DiskFolder> {
        let memory = Path::new(MEMORY_FOLDER);
        let roomy = rustix::fs::statvfs(memory).is_ok_and(|found| found.f_bavail * found.f_frsize > 4 << 30);
        let parent = if roomy { memory.to_owned() } else { std::env::temp_dir() };
        let folder = tempfile::Builder::new().prefix(FOLDER_PREFIX).tempdir_in(parent)?;
        for name in ["mnt", "fuse"] {
            fs::create_dir(folder.path().join(name))?;
        }
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD_SCRIPT]).arg(folder.path());
        // In a group of its own: a signal to the test's group must not end it.
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let guard = guard.spawn()?;
        Ok(DiskFolder { path: TempDir::keep(folder), guard })
    }

    /// Returns the path at which the disk's file system is mounted.
    pub(super) fn mount_point(&self) -> PathBuf {
        self.path.join("mnt")
    }
}

impl Drop for DiskFolder {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        // A guard that cannot be waited for has ended.
        let _ = self.guard.wait();
    }
}
