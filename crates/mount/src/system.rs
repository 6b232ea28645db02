//! FUSE's requests, each answered by `Files`.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use parking_lot::RwLock;
use terrace::files::{File, FileError, FileResult, Owner, Setting, Stat};
use terrace::{Files, Kind};

use crate::answer::{attributes, errno, kind, nanoseconds, special};
use crate::handles::Handles;
use crate::nodes::{Nodes, ROOT};
use crate::views::{self, Views};

/// For so long the kernel takes attributes and names as known; other processes may change them.
const KNOWN: Duration = Duration::from_secs(1);
/// The largest request.
const REQUEST: u32 = 1 << 20;
/// Names are listed in pages of so many.
const PAGE: usize = 1024;
/// Objects' numbers are never given twice.
const GENERATION: Generation = Generation(0);

/// The file system.
pub struct System {
    files: Files,
    views: Arc<Views>,
    /// Written while names change, read while a path is used.
    nodes: RwLock<Nodes>,
    open: Handles<File>,
    listings: Handles<RwLock<Vec<Listed>>>,
}

/// A name in an open directory.
struct Listed {
    number: u64,
    kind: FileType,
    name: Vec<u8>,
}

type Answer<T> = Result<T, Errno>;

fn said<T>(result: FileResult<T>) -> Answer<T> {
    result.map_err(|error| errno(&error))
}

impl System {
    pub fn new(files: Files, views: Arc<Views>) -> System {
        System { files, views, nodes: RwLock::default(), open: Handles::default(), listings: Handles::default() }
    }

    fn file(&self, handle: FileHandle) -> Answer<Arc<File>> {
        self.open.get(handle.0).ok_or(Errno::EBADF)
    }

    /// The open file of a number.
    fn opened(&self, nodes: &Nodes, number: INodeNo) -> Option<File> {
        nodes.object(number.0).and_then(|object| self.files.opened(object))
    }

    fn stat(&self, number: INodeNo, handle: Option<FileHandle>) -> Answer<Stat> {
        if let Some(file) = handle.and_then(|handle| self.open.get(handle.0)) {
            return said(file.stat());
        }
        let nodes = self.nodes.read();
        match nodes.path(number.0) {
            Some(path) => said(self.files.stat(&path)),
            None => said(self.opened(&nodes, number).ok_or(Errno::ESTALE)?.stat()),
        }
    }

    fn set(&self, number: INodeNo, handle: Option<FileHandle>, size: Option<u64>, setting: &Setting) -> Answer<Stat> {
        let nodes = self.nodes.read();
        let handle = handle.and_then(|handle| self.open.get(handle.0));
        let file = if handle.is_some() { None } else { self.opened(&nodes, number) };
        let path = || nodes.path(number.0).ok_or(Errno::ESTALE);
        let given = handle.as_deref().or(file.as_ref());
        if let Some(size) = size {
            match given {
                Some(file) => said(file.set_len(size))?,
                None => said(self.files.open(&path()?).and_then(|file| file.set_len(size)))?,
            }
        }
        let nothing = setting.mode.is_none()
            && setting.uid.is_none()
            && setting.gid.is_none()
            && setting.accessed.is_none()
            && setting.modified.is_none();
        said(match (given, nothing) {
            (Some(file), true) => file.stat(),
            (Some(file), false) => file.set(setting),
            (None, true) => self.files.stat(&path()?),
            (None, false) => self.files.set(&path()?, setting),
        })
    }

    /// Finds a name that the kernel asked for, or that was just made.
    fn entry(&self, nodes: &mut Nodes, parent: INodeNo, name: &OsStr) -> Answer<(u64, Stat)> {
        let path = nodes.child(parent.0, name.as_bytes()).ok_or(Errno::ESTALE)?;
        let stat = said(self.files.stat(&path))?;
        Ok((nodes.found(parent.0, name.as_bytes(), stat.id, stat.kind == Kind::Directory), stat))
    }

    /// Makes something under a name.
    fn make(&self, parent: INodeNo, name: &OsStr, make: impl FnOnce(&[u8]) -> FileResult<()>) -> Answer<(u64, Stat)> {
        let mut nodes = self.nodes.write();
        let path = nodes.child(parent.0, name.as_bytes()).ok_or(Errno::ESTALE)?;
        said(make(&path))?;
        self.entry(&mut nodes, parent, name)
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, remove: impl FnOnce(&[u8]) -> FileResult<()>) -> Answer<()> {
        let mut nodes = self.nodes.write();
        let path = nodes.child(parent.0, name.as_bytes()).ok_or(Errno::ESTALE)?;
        said(remove(&path))?;
        nodes.removed(parent.0, name.as_bytes());
        Ok(())
    }

    fn list(&self, number: INodeNo) -> Answer<Vec<Listed>> {
        let listed = |(number, kind, name)| Listed { number, kind, name };
        if views::is(number.0) {
            return Ok(self.views.list(number.0)?.into_iter().map(listed).collect());
        }
        let nodes = self.nodes.read();
        let path = nodes.path(number.0).ok_or(Errno::ESTALE)?;
        let dots = [b".".to_vec(), b"..".to_vec()];
        let dot = |name| Listed { number: number.0, kind: FileType::Directory, name };
        let mut all: Vec<Listed> = dots.into_iter().map(dot).collect();
        let mut from = Vec::new();
        if number.0 == ROOT && self.views.any() {
            let attributes = self.views.lookup(ROOT, views::NAME.as_bytes())?;
            all.push(listed((attributes.ino.0, attributes.kind, views::NAME.into())));
        }
        loop {
            let (page, next) = said(self.files.list(&path, &from, PAGE))?;
            all.extend(page.into_iter().map(|entry| Listed {
                number: nodes.number(number.0, &entry.name, entry.id),
                kind: kind(entry.kind, entry.special),
                name: entry.name,
            }));
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(all)
    }
}

fn owner(request: &Request) -> Owner {
    Owner { uid: request.uid(), gid: request.gid() }
}

fn entered(result: Answer<(u64, Stat)>, reply: ReplyEntry) {
    match result {
        Ok((number, stat)) => reply.entry(&KNOWN, &attributes(number, &stat), GENERATION),
        Err(error) => reply.error(error),
    }
}

fn attributed(result: Answer<FileAttr>, reply: ReplyAttr) {
    match result {
        Ok(attributes) => reply.attr(&KNOWN, &attributes),
        Err(error) => reply.error(error),
    }
}

fn done<T>(result: Answer<T>, reply: ReplyEmpty) {
    match result {
        Ok(_) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

/// Requests come in whole: no page cache between, so that other processes' writes are seen.
fn how() -> FopenFlags {
    FopenFlags::FOPEN_DIRECT_IO
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
        if views::is(parent.0) || views::is_folder(parent.0, name.as_bytes()) {
            return match self.views.lookup(parent.0, name.as_bytes()) {
                Ok(attributes) => reply.entry(&KNOWN, &attributes, GENERATION),
                Err(error) => reply.error(error),
            };
        }
        // The kernel lets nobody change this name meanwhile.
        let stat = {
            let nodes = self.nodes.read();
            let path = nodes.child(parent.0, name.as_bytes()).ok_or(Errno::ESTALE);
            path.and_then(|path| said(self.files.stat(&path)))
        };
        let found = |stat: Stat| {
            let directory = stat.kind == Kind::Directory;
            (self.nodes.write().found(parent.0, name.as_bytes(), stat.id, directory), stat)
        };
        entered(stat.map(found), reply);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.nodes.write().forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        if views::is(number.0) {
            return attributed(self.views.attributes(number.0), reply);
        }
        match self.stat(number, handle) {
            Ok(stat) => reply.attr(&KNOWN, &attributes(number.0, &stat)),
            Err(error) => reply.error(error),
        }
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
        if views::is(number.0) {
            return attributed(self.views.set_size(number.0, size), reply);
        }
        let (accessed, modified) = (accessed.map(nanoseconds), modified.map(nanoseconds));
        match self.set(number, handle, size, &Setting { mode, uid, gid, accessed, modified }) {
            Ok(stat) => reply.attr(&KNOWN, &attributes(number.0, &stat)),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let nodes = self.nodes.read();
        match nodes.path(number.0).ok_or(Errno::ESTALE).and_then(|path| said(self.files.read_link(&path))) {
            Ok(to) => reply.data(&to),
            Err(error) => reply.error(error),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let make = |path: &[u8]| match special(mode, device) {
            Some(special) => self.files.make_special(path, special, mode, owner(request)),
            None => self.files.create(path, mode, owner(request), true).map(drop),
        };
        entered(self.make(parent, name, make), reply);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, reply: ReplyEntry) {
        entered(self.make(parent, name, |path| self.files.make_directory(path, mode, owner(request))), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, to: &Path, reply: ReplyEntry) {
        let make = |path: &[u8]| self.files.make_link(path, to.as_os_str().as_bytes(), owner(request));
        entered(self.make(parent, name, make), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.remove(parent, name, |path| self.files.remove(path)), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(self.remove(parent, name, |path| self.files.remove_directory(path)), reply);
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
        if views::is_folder(new_parent.0, new_name.as_bytes()) {
            return reply.error(Errno::EPERM);
        }
        let mut nodes = self.nodes.write();
        let (from, to) = ((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()));
        let renamed = match (nodes.child(from.0, from.1), nodes.child(to.0, to.1)) {
            (Some(old), Some(new)) => said(self.files.rename(&old, &new, flags.is_empty())),
            _ => Err(Errno::ESTALE),
        };
        if renamed.is_ok() {
            nodes.renamed(from, to);
        }
        done(renamed, reply);
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if views::is(number.0) {
            return match self.views.open(number.0) {
                Ok(handle) => reply.opened(FileHandle(handle), how()),
                Err(error) => reply.error(error),
            };
        }
        let nodes = self.nodes.read();
        match nodes.path(number.0).ok_or(Errno::ESTALE).and_then(|path| said(self.files.open(&path))) {
            Ok(file) => reply.opened(FileHandle(self.open.keep(file)), how()),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let mut opened = None;
        let made = self.make(parent, name, |path| {
            opened = Some(self.files.create(path, mode, owner(request), flags & libc::O_EXCL != 0)?);
            Ok(())
        });
        match (made, opened) {
            (Ok((number, stat)), Some(file)) => {
                let handle = FileHandle(self.open.keep(file));
                reply.created(&KNOWN, &attributes(number, &stat), GENERATION, handle, how());
            }
            (Err(error), _) => reply.error(error),
            (Ok(_), None) => reply.error(Errno::EIO),
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
        thread_local! {
            static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
        }
        BUFFER.with_borrow_mut(|buffer| {
            buffer.resize(buffer.len().max(size as usize), 0);
            let out = &mut buffer[..size as usize];
            let read = match views::is(number.0) {
                true => self.views.read(handle.0, offset, out),
                false => self.file(handle).and_then(|file| said(file.read_at(offset, out))),
            };
            match read {
                Ok(length) => reply.data(&out[..length]),
                Err(error) => reply.error(error),
            }
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
        let written = match views::is(number.0) {
            true => self.views.write(handle.0, offset, bytes),
            false => self.file(handle).and_then(|file| said(file.write_at(offset, bytes))).map(|()| bytes.len()),
        };
        match written {
            Ok(length) => reply.written(length as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, number: INodeNo, handle: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        if views::is(number.0) {
            return done(self.views.flush(handle.0), reply);
        }
        done(self.file(handle).and_then(|file| said(file.flush())), reply);
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
        match views::is(number.0) {
            true => self.views.release(handle.0),
            false => drop(self.open.give_up(handle.0)),
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        if views::is(number.0) {
            return done(self.views.sync(handle.0), reply);
        }
        done(self.file(handle).and_then(|file| said(file.sync())), reply);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(self.listings.keep(RwLock::default())), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, number: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(listing) = self.listings.get(handle.0) else { return reply.error(Errno::EBADF) };
        if offset == 0 {
            match self.list(number) {
                Ok(fresh) => *listing.write() = fresh,
                Err(error) => return reply.error(error),
            }
        }
        for (next, listed) in (1..).zip(listing.read().iter()).skip(offset as usize) {
            if reply.add(INodeNo(listed.number), next, listed.kind, OsStr::from_bytes(&listed.name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings.give_up(handle.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        done(said(self.files.sync_names()), reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.files.store().status().map_err(FileError::from) {
            Ok(status) => {
                let sum = |of: fn(&terrace::report::TierStatus) -> u64| {
                    status.tiers.iter().map(of).fold(0, u64::saturating_add)
                };
                let capacity = sum(|tier| tier.capacity).min(i64::MAX as u64);
                let free = capacity.saturating_sub(sum(|tier| tier.used));
                let block = u64::from(BLOCK);
                reply.statfs(
                    capacity / block,
                    free / block,
                    free / block,
                    status.objects,
                    u64::MAX >> 1,
                    BLOCK,
                    NAME,
                    BLOCK,
                );
            }
            Err(error) => reply.error(errno(&error)),
        }
    }
}

/// What `statfs` counts in, and the longest name.
const BLOCK: u32 = 4096;
const NAME: u32 = 255;

const _: () = assert!(ROOT == INodeNo::ROOT.0);
