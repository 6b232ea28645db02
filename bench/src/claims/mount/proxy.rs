//! A minimal FUSE file system: each request is one call to the file system below.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, Session, TimeOrNow, WriteFlags,
};

const ATTRIBUTE_CACHE_TIME: Duration = Duration::from_secs(1);
const INODE_GENERATION: Generation = Generation(0);
const OPEN_FLAGS: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

/// A folder, passed through.
pub struct Proxy {
    paths: RwLock<HashMap<u64, PathBuf>>,
    open: RwLock<HashMap<u64, Arc<File>>>,
    listings: RwLock<HashMap<u64, Vec<Listed>>>,
    next: AtomicU64,
}

type Listed = (u64, FileType, std::ffi::OsString);

/// Mounts the proxy as Terrace mounts a store: with the same number of threads, flags and request sizes.
pub fn mount(proxy: Proxy, at: &Path) -> io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName("bare".into()), MountOption::DefaultPermissions, MountOption::NoAtime];
    config.n_threads = Some(4);
    config.clone_fd = true;
    Session::new(proxy, at, &config)?.spawn()
}

impl Proxy {
    pub fn new(folder: PathBuf) -> Proxy {
        Proxy {
            paths: RwLock::new(HashMap::from([(1, folder)])),
            open: RwLock::default(),
            listings: RwLock::default(),
            next: AtomicU64::new(1),
        }
    }

    fn path(&self, number: INodeNo) -> io::Result<PathBuf> {
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        paths.get(&number.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    fn stat(&self, path: PathBuf) -> io::Result<FileAttr> {
        let metadata = fs::symlink_metadata(&path)?;
        self.paths.write().unwrap_or_else(PoisonError::into_inner).insert(metadata.ino(), path);
        Ok(attributes(&metadata, metadata.ino()))
    }

    fn known(&self, number: INodeNo) -> io::Result<FileAttr> {
        Ok(attributes(&fs::symlink_metadata(self.path(number)?)?, number.0))
    }

    fn keep(&self, file: File) -> FileHandle {
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(handle, Arc::new(file));
        FileHandle(handle)
    }

    fn file(&self, handle: FileHandle) -> io::Result<Arc<File>> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.get(&handle.0).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, number: INodeNo) -> io::Result<Vec<Listed>> {
        fs::read_dir(self.path(number)?)?
            .map(|entry| {
                let entry = entry?;
                let metadata = entry.metadata()?;
                Ok((metadata.ino(), kind(&metadata), entry.file_name()))
            })
            .collect()
    }
}

fn kind(metadata: &Metadata) -> FileType {
    if metadata.is_dir() { FileType::Directory } else { FileType::RegularFile }
}

fn attributes(metadata: &Metadata, number: u64) -> FileAttr {
    let time = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    FileAttr {
        ino: INodeNo(number),
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: kind(metadata),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 1 << 20,
        flags: 0,
    }
}

fn done(result: io::Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error.into()),
    }
}

fn entered(result: io::Result<FileAttr>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&ATTRIBUTE_CACHE_TIME, &attributes, INODE_GENERATION),
        Err(error) => reply.error(error.into()),
    }
}

fn attributed(result: io::Result<FileAttr>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&ATTRIBUTE_CACHE_TIME, &attributes),
        Err(error) => reply.error(error.into()),
    }
}

impl Filesystem for Proxy {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let _ = config.set_max_write(1 << 20);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entered(self.child(parent, name).and_then(|path| self.stat(path)), reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        attributed(self.known(number), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let cut = size.map_or(Ok(()), |size| {
            File::options().write(true).open(self.path(number)?).and_then(|file| file.set_len(size))
        });
        attributed(cut.and_then(|()| self.known(number)), reply);
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let make = |path: PathBuf| fs::create_dir(&path).and_then(|()| self.stat(path));
        entered(self.child(parent, name).and_then(make), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.child(parent, name).and_then(fs::remove_file), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.child(parent, name).and_then(fs::remove_dir), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.path(number).and_then(|path| File::options().read(true).write(true).open(path)) {
            Ok(file) => reply.opened(self.keep(file), OPEN_FLAGS),
            Err(error) => reply.error(error.into()),
        }
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let made = self.child(parent, name).and_then(|path| {
            let file = File::options().create(true).truncate(true).read(true).write(true).open(&path)?;
            Ok((self.stat(path)?, file))
        });
        match made {
            Ok((attributes, file)) => {
                reply.created(&ATTRIBUTE_CACHE_TIME, &attributes, INODE_GENERATION, self.keep(file), OPEN_FLAGS)
            }
            Err(error) => reply.error(error.into()),
        }
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        thread_local! {
            static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        READ_BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size as usize), 0);
            match self.file(handle).and_then(|file| file.read_at(&mut buffer[..size as usize], offset)) {
                Ok(length) => reply.data(&buffer[..length]),
                Err(error) => reply.error(error.into()),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.file(handle).and_then(|file| file.write_all_at(bytes, offset)) {
            Ok(()) => reply.written(bytes.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        reply.ok();
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut listings = self.listings.write().unwrap_or_else(PoisonError::into_inner);
        if offset == 0 {
            match self.list(number) {
                Ok(fresh) => listings.insert(number.0, fresh),
                Err(error) => return reply.error(error.into()),
            };
        }
        for (next, (number, kind, name)) in
            (1..).zip(listings.get(&number.0).into_iter().flatten()).skip(offset as usize)
        {
            if reply.add(INodeNo(*number), next, *kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
