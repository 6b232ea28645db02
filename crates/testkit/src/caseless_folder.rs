//! A folder that ignores case, as those of vfat, SMB and APFS do, for tests: a FUSE file system over another folder.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, FileTimes, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::{Missing, skip};

/// The kernel asks again each time.
const ENTRY_LIFETIME: Duration = Duration::ZERO;

/// A folder in which names that differ only in case are one name. Dropping this unmounts it.
pub struct CaselessFolder {
    path: PathBuf,
    /// Unmounts it.
    _session: BackgroundSession,
}

impl CaselessFolder {
    /// Mounts a caseless folder at `at`, which keeps its files in the folder `backing`. Creates both folders. If this fails, counts a skip of
    /// `test`, and returns none.
    pub fn mount(test: &str, backing: &Path, at: &Path) -> Option<CaselessFolder> {
        let mount = || {
            fs::create_dir_all(backing)?;
            fs::create_dir_all(at)?;
            let mut config = fuser::Config::default();
            config.mount_options = vec![MountOption::FSName("terrace-caseless".into())];
            fuser::spawn_mount(Server { root: backing.to_owned(), paths: Mutex::default() }, at, &config)
        };
        match mount() {
            Ok(session) => Some(CaselessFolder { path: at.to_owned(), _session: session }),
            Err(error) => {
                skip(test, &Missing::new("fuse", error));
                None
            }
        }
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

struct Server {
    root: PathBuf,
    /// The paths of the files that the kernel knows, by their inodes. Held for one look or change.
    paths: Mutex<BTreeMap<u64, PathBuf>>,
}

impl Server {
    fn paths(&self) -> MutexGuard<'_, BTreeMap<u64, PathBuf>> {
        // A panic in another request fails the test anyway.
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, inode: INodeNo) -> io::Result<PathBuf> {
        match inode == INodeNo::ROOT {
            true => Ok(self.root.clone()),
            false => self.paths().get(&inode.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }

    /// Returns the path of a name in a folder. If an entry differs from the name only in case, returns that entry's path.
    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        let folder = self.path(parent)?;
        let folded = |name: &OsStr| name.to_string_lossy().to_lowercase();
        for entry in fs::read_dir(&folder)? {
            let there = entry?.file_name();
            if folded(&there) == folded(name) {
                return Ok(folder.join(there));
            }
        }
        Ok(folder.join(name))
    }

    fn attributes(&self, path: &Path) -> io::Result<FileAttr> {
        let found = fs::symlink_metadata(path)?;
        let is_root = path == self.root;
        if !is_root {
            self.paths().insert(found.ino(), path.to_owned());
        }
        Ok(FileAttr {
            ino: if is_root { INodeNo::ROOT } else { INodeNo(found.ino()) },
            size: found.len(),
            blocks: found.blocks(),
            atime: found.accessed()?,
            mtime: found.modified()?,
            ctime: found.modified()?,
            crtime: found.modified()?,
            kind: kind_of(found.file_type()),
            perm: (found.mode() & 0o7777) as u16,
            nlink: found.nlink() as u32,
            uid: found.uid(),
            gid: found.gid(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        for path in self.paths().values_mut() {
            if let Ok(below) = path.strip_prefix(from) {
                *path = if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) };
            }
        }
        Ok(())
    }
}

fn kind_of(kind: fs::FileType) -> FileType {
    match (kind.is_dir(), kind.is_symlink()) {
        (true, _) => FileType::Directory,
        (_, true) => FileType::Symlink,
        _ => FileType::RegularFile,
    }
}

fn reply_entry(entry: io::Result<FileAttr>, reply: ReplyEntry) {
    match entry {
        Ok(attributes) => reply.entry(&ENTRY_LIFETIME, &attributes, Generation(0)),
        Err(error) => reply.error(error.into()),
    }
}

fn reply_attributes(attributes: io::Result<FileAttr>, reply: ReplyAttr) {
    match attributes {
        Ok(attributes) => reply.attr(&ENTRY_LIFETIME, &attributes),
        Err(error) => reply.error(error.into()),
    }
}

fn reply_empty(done: io::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

impl Filesystem for Server {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        reply_entry(self.child(parent, name).and_then(|path| self.attributes(&path)), reply);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply_attributes(self.path(inode).and_then(|path| self.attributes(&path)), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = || {
            let path = self.path(inode)?;
            if let Some(mode) = mode {
                fs::set_permissions(&path, Permissions::from_mode(mode & 0o7777))?;
            }
            if let Some(size) = size {
                File::options().write(true).open(&path)?.set_len(size)?;
            }
            if let Some(time) = mtime {
                let time = match time {
                    TimeOrNow::SpecificTime(time) => time,
                    TimeOrNow::Now => SystemTime::now(),
                };
                File::open(&path)?.set_times(FileTimes::new().set_modified(time))?;
            }
            self.attributes(&path)
        };
        reply_attributes(set(), reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let make = || {
            let path = self.child(parent, name)?;
            DirBuilder::new().mode(mode & !umask).create(&path)?;
            self.attributes(&path)
        };
        reply_entry(make(), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.child(parent, name).and_then(fs::remove_file), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        reply_empty(self.child(parent, name).and_then(fs::remove_dir), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        to: INodeNo,
        to_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let rename = || {
            let (from, to) = (self.child(parent, name)?, self.child(to, to_name)?);
            Server::rename(self, &from, &to)
        };
        reply_empty(rename(), reply);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, _: i32, reply: ReplyCreate) {
        let create = || {
            let path = self.child(parent, name)?;
            File::options().create(true).truncate(false).write(true).mode(mode & !umask).open(&path)?;
            self.attributes(&path)
        };
        match create() {
            Ok(made) => reply.created(&ENTRY_LIFETIME, &made, Generation(0), FileHandle(0), FopenFlags::empty()),
            Err(error) => reply.error(error.into()),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = || {
            let mut bytes = vec![0; size as usize];
            let count = File::open(self.path(inode)?)?.read_at(&mut bytes, offset)?;
            bytes.truncate(count);
            Ok::<_, io::Error>(bytes)
        };
        match read() {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.into()),
        }
    }

    fn write(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = || File::options().write(true).open(self.path(inode)?)?.write_all_at(bytes, offset);
        match write() {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, inode: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let list = || {
            let mut entries = Vec::new();
            for entry in fs::read_dir(self.path(inode)?)? {
                let entry = entry?;
                let found = fs::symlink_metadata(entry.path())?;
                entries.push((INodeNo(found.ino()), kind_of(found.file_type()), entry.file_name()));
            }
            entries.sort_by(|a, b| a.2.cmp(&b.2));
            Ok::<_, io::Error>(entries)
        };
        match list() {
            Ok(entries) => {
                for (next, (inode, kind, name)) in (1..).zip(entries).skip(offset as usize) {
                    if reply.add(inode, next, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096);
    }
}
