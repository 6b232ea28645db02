//! The FUSE requests, each answered by the tree.

mod bytes;
mod holes;
mod listing;
mod opening;
mod pairs;
mod space;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix_futex_sync::RwLock;
use terrace::files::{FileResult, Owner, Setting};
use terrace::{Files, Trusted};
use terrace_tree::{Node, ROOT_NODE, Tree};

use crate::answer::{attributes, errno, nanoseconds, special};
use crate::handles::Handles;
use crate::opened::Opened;
use crate::pages::Pages;
use crate::stale::Stale;
use listing::Listings;
use opening::DIRECT_FLAGS;
use pairs::reply_xattr;

/// The largest request in bytes.
const MAX_REQUEST_BYTES: u32 = 1 << 20;
/// Constant, because object numbers are never reused.
const NODE_GENERATION: Generation = Generation(0);

/// The file system.
pub struct System {
    tree: Tree,
    open: Handles<Opened>,
    listings: Listings,
    pages: Pages,
    stale: Arc<Stale>,
}

type Answer<T> = Result<T, Errno>;

fn map_tree_errno<T>(result: terrace_tree::Result<T>) -> Answer<T> {
    result.map_err(|error| errno(&error))
}

fn map_file_errno<T>(result: FileResult<T>) -> Answer<T> {
    map_tree_errno(result.map_err(terrace_tree::Error::from))
}

impl System {
    pub fn new(files: &Files, stale: Arc<Stale>) -> System {
        System {
            tree: Tree::new(files),
            open: Handles::default(),
            listings: Handles::default(),
            pages: Pages::default(),
            stale,
        }
    }

    /// Returns how long the kernel may cache the attributes and names that are looked up from now on.
    fn trust(&self) -> Trusted {
        self.tree.files().store().trust()
    }

    /// Replies with the entry that `find` returns.
    fn enter(&self, reply: ReplyEntry, find: impl FnOnce(&Tree) -> terrace_tree::Result<Node>) {
        let trust = self.trust();
        match find(&self.tree) {
            Ok(node) => reply.entry(&trust.left(), &attributes(&node), NODE_GENERATION),
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// Replies with the attributes that `find` returns.
    fn reply_attributes(&self, reply: ReplyAttr, find: impl FnOnce(&Tree) -> terrace_tree::Result<Node>) {
        let trust = self.trust();
        match find(&self.tree) {
            Ok(node) => reply.attr(&trust.left(), &attributes(&node)),
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// Returns the open file of a handle, if one is given.
    fn given(&self, handle: Option<FileHandle>) -> Option<Arc<Opened>> {
        handle.and_then(|handle| self.open.get(handle.0))
    }
}

fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

fn done(result: Answer<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for System {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Errors are ignored: an older kernel works without the capabilities that it does not know, and with smaller requests.
        for wish in [
            InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_ASYNC_DIO,
        ] {
            let _ = config.add_capabilities(wish); // see above
        }
        let _ = config.set_max_write(MAX_REQUEST_BYTES); // see above
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.enter(reply, |tree| tree.find(parent.0, name.as_bytes()));
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        // The kernel has dropped its pages, too, and asks no more about the file before it looks it up again.
        self.pages.forget(number.0);
        self.tree.forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        self.reply_attributes(reply, |tree| tree.node(number.0, self.given(handle).as_deref().map(|open| &**open)));
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
        self.reply_attributes(reply, |tree| {
            tree.set(number.0, self.given(handle).as_deref().map(|open| &**open), size, &setting)
        });
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.tree.read_link(number.0) {
            Ok(to) => reply.data(&to),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mknod(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, device: u32, reply: ReplyEntry) {
        let (parent, name) = (parent.0, name.as_bytes());
        self.enter(reply, |tree| match special(mode, device) {
            Some(special) => tree.make_special(parent, name, special, mode, owner(by)),
            None => tree.create(parent, name, mode, owner(by), true).map(|(node, _)| node),
        });
    }

    fn mkdir(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        self.enter(reply, |tree| tree.make_directory(parent.0, name.as_bytes(), mode, owner(by)));
    }

    fn symlink(&self, by: &Request, parent: INodeNo, name: &OsStr, to: &Path, reply: ReplyEntry) {
        let to = to.as_os_str().as_bytes();
        self.enter(reply, |tree| tree.make_link(parent.0, name.as_bytes(), to, owner(by)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(map_tree_errno(self.tree.remove(parent.0, name.as_bytes())), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(map_tree_errno(self.tree.remove_directory(parent.0, name.as_bytes())), reply);
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
        if !RenameFlags::RENAME_NOREPLACE.contains(flags) {
            return reply.error(Errno::EINVAL);
        }
        let (from, to) = ((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()));
        done(map_tree_errno(self.tree.rename(from, to, flags.is_empty())), reply);
    }

    fn open(&self, _: &Request, number: INodeNo, how: OpenFlags, reply: ReplyOpen) {
        match self.open_number(number.0, how) {
            Ok((handle, flags)) => reply.opened(handle, flags),
            Err(error) => reply.error(error),
        }
    }

    fn create(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, flags: i32, reply: ReplyCreate) {
        let trust = self.trust();
        match self.tree.create(parent.0, name.as_bytes(), mode, owner(by), flags & libc::O_EXCL != 0) {
            Ok((node, open)) => reply.created(
                &trust.left(),
                &attributes(&node),
                NODE_GENERATION,
                FileHandle(self.open.keep(Opened::direct(open))),
                DIRECT_FLAGS,
            ),
            Err(error) => reply.error(errno(&error)),
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
        self.read_bytes(handle, offset, size, |read| match read {
            Ok(bytes) => reply.data(bytes),
            Err(error) => reply.error(error),
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        bytes: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        // Mapped pages have offsets, so a write from a mapping never appends, however the file was opened.
        let appends = flags.0 & libc::O_APPEND != 0 && !how.contains(WriteFlags::FUSE_WRITE_CACHE);
        let syncs = flags.0 & libc::O_DSYNC != 0; // a part of `O_SYNC`
        self.write_bytes(handle, offset, bytes, appends, syncs, |written| match written {
            Ok(length) => reply.written(length as u32),
            Err(error) => reply.error(error),
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let flush = |open: Arc<Opened>| {
            self.note_request(&open, handle);
            map_tree_errno(open.flush())
        };
        done(self.opened(handle).and_then(flush), reply);
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
        self.open.give_up(handle.0);
        reply.ok();
    }

    // Always a full sync: the bytes and the attributes of a file are in the same commits.
    fn fsync(&self, _: &Request, _: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        done(self.opened(handle).and_then(|open| map_tree_errno(self.tree.sync(&open))), reply);
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
        done(map_file_errno(self.tree.files().sync_names()), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        self.tell_space(reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        done(self.allocate(handle, offset, length, mode), reply);
    }

    fn lseek(&self, _: &Request, number: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        match self.seek(number, handle, offset, whence) {
            Ok(offset) => reply.offset(offset),
            Err(error) => reply.error(error),
        }
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        reply_xattr(self.pair(number, name), size, reply);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        reply_xattr(self.pairs(number), size, reply);
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

const _: () = assert!(ROOT_NODE == INodeNo::ROOT.0);
