//! Disks that record every write and every flush, with a real file system on them, and the states that a power cut may
//! leave of them.
//!
//! A [`RecordedDisk`] is a loop device whose backing file a separate process serves by FUSE. Its file system is used like
//! any other. [`RecordedDisk::power_off`] ends the recording. [`DiskRecord::image_at`] then mounts a state that a power cut
//! at any position may leave, and [`DiskRecord::restart_at`] continues, recorded again, from such a state. All are mounted
//! at the same path. A copy of an image in use is not a state that a power cut leaves.
//!
//! A test program that uses this has `terrace_testkit::disk_server!();` in its root.

mod image;
mod mount;
mod record;
mod server;

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub use image::CutLosses;
use image::{ImageMaker, copy_sparse};
use mount::{DiskFolder, mount_again, unmount_wholly};
pub use mount::{DiskFormat, remove_dead_disks};
pub use server::serve_disk;
use server::{SERVED_FOLDER_VARIABLE, SERVER_TEST_NAME, served_folder};

use crate::{Missing, Random};

/// The longest wait for the server's first answer, and for its end.
const MAX_SERVER_WAIT: Duration = Duration::from_secs(60);
const SERVER_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A mounted disk that records all writes and flushes.
pub struct RecordedDisk {
    // Dropped in this order, because the server ends once the folder's guard has unmounted everything.
    folder: DiskFolder,
    format: DiskFormat,
    server: Server,
}

impl RecordedDisk {
    /// Creates a disk of this size (or the smallest that the format allows), formats it and mounts it.
    ///
    /// # Errors
    /// If this machine has no FUSE, no loop devices, or no program for this format.
    pub fn create(format: DiskFormat, bytes: u64) -> Result<RecordedDisk, Missing> {
        File::options().read(true).write(true).open("/dev/fuse").map_err(|e| Missing::new("fuse", e))?;
        File::options().read(true).write(true).open("/dev/loop-control").map_err(|e| Missing::new("loop", e))?;
        let folder = DiskFolder::new().map_err(|e| Missing::new("loop", e))?;
        let origin = folder.path.join("origin");
        let made = || File::create(&origin)?.set_len(bytes.max(format.min_bytes()));
        made().and_then(|()| format.format(&origin)).map_err(|e| Missing::new("loop", e))?;
        let disk = RecordedDisk::serve(folder, format)?;
        format.mount(&disk.device_file(), &disk.path()).map_err(|e| Missing::new("loop", e))?;
        Ok(disk)
    }

    /// Serves the state in the file `origin`.
    fn serve(folder: DiskFolder, format: DiskFormat) -> Result<RecordedDisk, Missing> {
        let copied = copy_sparse(&folder.path.join("origin"), &folder.path.join("current"));
        let server = copied.and_then(|()| Server::start(&folder.path)).map_err(|e| Missing::new("fuse", e))?;
        Ok(RecordedDisk { folder, format, server })
    }

    /// The file behind the loop device.
    fn device_file(&self) -> PathBuf {
        served_folder(&self.folder.path).join("disk")
    }

    /// Returns the path at which its file system is mounted.
    pub fn path(&self) -> PathBuf {
        self.folder.mount_point()
    }

    /// Returns the number of writes and flushes that have reached the device. Everything that was flushed before this call
    /// is durable in each image at this position or a later one.
    pub fn position(&self) -> io::Result<usize> {
        record::count_entries(&self.folder.path)
    }

    /// Unmounts the disk, which writes the rest of the kernel's cache, and ends the recording.
    pub fn power_off(self) -> io::Result<DiskRecord> {
        // If this fails, the folder is dropped before the server, because bindings are dropped in reverse order.
        let RecordedDisk { mut server, format, folder } = self;
        unmount_wholly(&folder.mount_point())?;
        unmount_wholly(&served_folder(&folder.path))?;
        server.wait()?;
        let images = ImageMaker::new(&folder.path, format.superblocks())?;
        Ok(DiskRecord { folder, format, images })
    }
}

/// The record of a disk that was switched off.
pub struct DiskRecord {
    folder: DiskFolder,
    format: DiskFormat,
    images: ImageMaker,
}

impl DiskRecord {
    /// Returns the number of writes and flushes in it.
    pub fn length(&self) -> usize {
        self.images.entries()
    }

    /// Returns the position before the first flush at or after this one, where the most writes can be lost.
    pub fn next_flush(&self, position: usize) -> usize {
        self.images.next_flush(position)
    }

    /// Mounts a state that a power cut at this position may leave: all writes before the last flush exist, and any sectors
    /// of those since. This is fastest if positions increase from call to call.
    pub fn image_at(&mut self, position: usize, random: &mut Random) -> io::Result<DiskImage<'_>> {
        let image = self.folder.path.join("image");
        let losses = self.images.make(position, random, &image)?;
        mount_again(self.format, &image, &self.folder.mount_point())?;
        Ok(DiskImage { record: self, losses, mounted: true })
    }

    /// Continues, recorded from its beginning, with a state that a power cut at this position may leave.
    pub fn restart_at(mut self, position: usize, random: &mut Random) -> io::Result<(RecordedDisk, CutLosses)> {
        let image = self.folder.path.join("image");
        let losses = self.images.make(position, random, &image)?;
        std::fs::rename(&image, self.folder.path.join("origin"))?;
        let disk = RecordedDisk::serve(self.folder, self.format).map_err(io::Error::other)?;
        mount_again(disk.format, &disk.device_file(), &disk.path())?;
        Ok((disk, losses))
    }
}

/// A mounted state after a power cut. Writes to it are not recorded.
pub struct DiskImage<'a> {
    record: &'a DiskRecord,
    losses: CutLosses,
    mounted: bool,
}

impl DiskImage<'_> {
    /// Returns the path at which it is mounted, which is that of the disk.
    pub fn path(&self) -> PathBuf {
        self.record.folder.mount_point()
    }

    /// The losses of this cut.
    pub fn losses(&self) -> CutLosses {
        self.losses
    }

    /// Unmounts it.
    pub fn unmount(mut self) -> io::Result<()> {
        self.mounted = false;
        unmount_wholly(&self.path())
    }
}

impl Drop for DiskImage<'_> {
    fn drop(&mut self) {
        if self.mounted
            && let Err(error) = unmount_wholly(&self.path())
        {
            // The folder's guard tries again.
            eprintln!("{error}");
        }
    }
}

/// The process that serves the disk.
struct Server(Child);

impl Server {
    fn start(folder: &Path) -> io::Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", SERVER_TEST_NAME, "--nocapture"]).env(SERVED_FOLDER_VARIABLE, folder);
        // It has a process group of its own, because it must outlive a test that is ended by a signal, until the guard has
        // unmounted the disk.
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let mut server = Server(command.spawn()?);
        let begun = Instant::now();
        while !served_folder(folder).join("disk").exists() {
            if let Some(status) = server.0.try_wait()? {
                let advice = "the test program needs `terrace_testkit::disk_server!();` in its root";
                return Err(io::Error::other(format!(
                    "the server ended ({status}); {advice}, and this user must be root"
                )));
            }
            if begun.elapsed() > MAX_SERVER_WAIT {
                return Err(io::Error::other("the server does not answer"));
            }
            std::thread::sleep(SERVER_POLL_INTERVAL);
        }
        Ok(server)
    }

    /// Waits for its end, which comes when nothing uses its file system any more.
    fn wait(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        while self.0.try_wait()?.is_none() {
            if begun.elapsed() > MAX_SERVER_WAIT {
                return Err(io::Error::other("the server of a disk does not end"));
            }
            std::thread::sleep(SERVER_POLL_INTERVAL);
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If something still uses the disk, the process is killed, and the users see errors. It may have ended already.
        if self.wait().is_err() {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}
