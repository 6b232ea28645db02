//! FUSE's requests, each answered by `Files`.

mod attributes;
mod bytes;
mod holes;
mod listing;
mod names;
mod pairs;
mod space;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use parking_lot::RwLock;
use terrace::Files;
use terrace::files::{File, FileResult, Owner, Setting};

use crate::answer::{errno, nanoseconds, special};
use crate::handles::Handles;
use crate::nodes::{Nodes, ROOT};
use crate::views::Views;
use listing::Listings;
use pairs::told;

/// For so long the kernel takes attributes and names as known; other processes may change them.
const KNOWN: Duration = Duration::from_secs(1);
/// The largest request.
const REQUEST: u32 = 1 << 20;
/// Objects' numbers are never given twice.
const GENERATION: Generation = Generation(0);
/// Requests come in whole: no page cache between, so that other processes' writes are seen.
const HOW: FopenFlags = FopenFlags::FOPEN_DIRECT_IO;

/// The file system.
pub struct System {
    files: Files,
    views: Arc<Views>,
    /// Written while names change, read while a path is used.
    nodes: RwLock<Nodes>,
    open: Handles<File>,
    listings: Listings,
}

type Answer<T> = Result<T, Errno>;

fn said<T>(result: FileResult<T>) -> Answer<T> {
    result.map_err(|error| errno(&error))
}

impl System {
    pub fn new(files: Files, views: Arc<Views>) -> System {
        System { files, views, nodes: RwLock::default(), open: Handles::default(), listings: Handles::default() }
    }
}

fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

fn entered(result: Answer<FileAttr>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&KNOWN, &attributes, GENERATION),
        Err(error) => reply.error(error),
    }
}

fn attributed(result: Answer<FileAttr>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&KNOWN, &attributes),
        Err(error) => reply.error(error),
    }
}

fn done(result: Answer<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for System {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What an older kernel does not know it does without.
        for wish in [
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
        ] {
            let _ = config.add_capabilities(wish);
        }
        let _ = config.set_max_write(REQUEST);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entered(self.look_up(parent, name), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.nodes.write().forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        attributed(self.attributes(number, handle), reply);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (accessed, modified) = (accessed.map(nanoseconds), modified.map(nanoseconds));
        let setting = Setting { mode, uid, gid, accessed, modified };
        attributed(self.set_attributes(number, handle, size, &setting), reply);
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let nodes = self.nodes.read();
        match nodes.path(number.0).ok_or(Errno::ESTALE).and_then(|path| said(self.files.read_link(&path))) {
            Ok(to) => reply.data(&to),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, device: u32, reply: ReplyEntry) {
        let make = |path: &[u8]| match special(mode, device) {
            Some(special) => self.files.make_special(path, special, mode, owner(by)),
            None => self.files.create(path, mode, owner(by), true).map(drop),
        };
        entered(self.make(parent, name, make), reply);
    }

    fn mkdir(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        entered(self.make(parent, name, |path| self.files.make_directory(path, mode, owner(by))), reply);
    }

    fn symlink(&self, by: &Request, parent: INodeNo, name: &OsStr, to: &Path, reply: ReplyEntry) {
        let make = |path: &[u8]| self.files.make_link(path, to.as_os_str().as_bytes(), owner(by));
        entered(self.make(parent, name, make), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.take(parent, name, |path| self.files.remove(path)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.take(parent, name, |path| self.files.remove_directory(path)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        done(self.change((parent, name), (new_parent, new_name), flags), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_file(number) {
            Ok(handle) => reply.opened(FileHandle(handle), HOW),
            Err(error) => reply.error(error),
        }
    }

    fn create(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, flags: i32, reply: ReplyCreate) {
        let create = |path: &[u8]| self.files.create(path, mode, owner(by), flags & libc::O_EXCL != 0);
        match self.make_open(parent, name, create) {
            Ok((attributes, handle)) => reply.created(&KNOWN, &attributes, GENERATION, FileHandle(handle), HOW),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.read_bytes((number, handle), offset, size, |read| match read {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_bytes(number, handle, offset, bytes) {
            Ok(length) => reply.written(length as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, number: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        done(self.close(number, handle), reply);
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.give_up(number, handle);
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.sync(number, handle), reply);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(self.listings.keep(RwLock::default())), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, number: INodeNo, handle: FileHandle, from: u64, mut reply: ReplyDirectory) {
        let names = self.names(number, handle, from, |next, listed| {
            reply.add(INodeNo(listed.number), next, listed.kind, OsStr::from_bytes(&listed.name))
        });
        match names {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.give_up(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(said(self.files.sync_names()), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.tell_space(reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        done(self.allocate(number, handle, offset, length, mode), reply);
    }

    fn lseek(&self, _: &Request, number: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        match self.seek(number, handle, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(error),
        }
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        told(self.pair(number, name), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        told(self.pairs(number), size, reply);
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        done(self.set_pair(number, name, Some(value), flags), reply);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.set_pair(number, name, None, 0), reply);
    }
}

const _: () = assert!(ROOT == INodeNo::ROOT.0);
