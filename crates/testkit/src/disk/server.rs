//! The process that serves a recorded disk: a FUSE file system with one file, `disk`, the backing file of a loop device. It
//! uses no other file system than that of its record, so it can always answer.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, MountOption,
    OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use super::record::Recorder;

/// The variable with the folder of the disk that this process serves.
pub(super) const SERVED_FOLDER_VARIABLE: &str = "TERRACE_RECORDED_DISK";
/// The test that [`crate::disk_server`] declares.
pub(super) const SERVER_TEST_NAME: &str = "recorded_disk_server";
/// Only the bytes of the file change, and the kernel does not cache them.
const ATTRIBUTE_LIFETIME: Duration = Duration::from_secs(86_400);
const DISK_INODE: INodeNo = INodeNo(2);

/// Declares the test under which a test program serves recorded disks: [`super::RecordedDisk`] runs the program again, with
/// only this test, in another process. It belongs into the root of each test program that uses recorded disks.
#[macro_export]
macro_rules! disk_server {
    () => {
        #[test]
        fn recorded_disk_server() {
            if let Err(error) = $crate::disk::serve_disk() {
                ::std::panic::resume_unwind(::std::boxed::Box::new(::std::format!("serving a disk: {error}")));
            }
        }
    };
}

/// Serves the disk that the environment names until it is unmounted. Returns at once if it names none.
pub fn serve_disk() -> io::Result<()> {
    let Some(folder) = std::env::var_os(SERVED_FOLDER_VARIABLE).map(PathBuf::from) else { return Ok(()) };
    let recorder = Recorder::new(&folder)?;
    let mut config = fuser::Config::default();
    config.mount_options = vec![MountOption::FSName("terrace-recorded-disk".into())];
    fuser::mount(Server { size: recorder.size()?, recorder: Mutex::new(recorder) }, served_folder(&folder), &config)
}

/// Returns the folder in which the one file is visible.
pub(super) fn served_folder(folder: &Path) -> PathBuf {
    folder.join("fuse")
}

struct Server {
    size: u64,
    /// Held for one request. It records writes and flushes in the order in which the kernel sends them.
    recorder: Mutex<Recorder>,
}

impl Server {
    fn recorder(&self) -> MutexGuard<'_, Recorder> {
        // A panic in another request fails the test anyway. The disk continues until then.
        self.recorder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let is_disk = inode == DISK_INODE;
        FileAttr {
            ino: inode,
            size: if is_disk { self.size } else { 0 },
            blocks: if is_disk { self.size / 512 } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: 0o700,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if name == "disk" {
            reply.entry(&ATTRIBUTE_LIFETIME, &self.attributes(DISK_INODE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&ATTRIBUTE_LIFETIME, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // The kernel caches nothing: each write of the loop device arrives here before it is acknowledged.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.recorder().read(offset, size as usize) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.recorder().write(offset, bytes) {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    // Recorded: a simulated power cut keeps all writes before it.
    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.recorder().flush() {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close. The device's flushes arrive as `fsync`.
        reply.ok();
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        // The disk has no discard.
        reply.error(Errno::EOPNOTSUPP);
    }
}
