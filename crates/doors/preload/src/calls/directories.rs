//! Directory streams: `opendir` to `closedir`, and `scandir`, which the C library builds on calls of its own.

use std::ffi::{c_char, c_int, c_long};

use libc::{DIR, dirent64};
use terrace_posix::{entry_type, number};

use crate::answer::{answer, give};
use crate::calls::{descriptors, open, twins};
use crate::errors::{CallResult, refuse};
use crate::inside::is_inside;
use crate::{numbers, opened, real, table};

/// The number of names that one page of a listing holds.
const NAMES_PER_PAGE: usize = 1024;

/// A stream of a directory of the store. Like that of the C library, it begins with the descriptor, by which both are told apart.
#[repr(C)]
struct DirectoryStream {
    fd: c_int,
    position: usize,
    entries: Vec<StreamEntry>,
    /// The entry that was returned last.
    current: dirent64,
}

struct StreamEntry {
    number: u64,
    kind: u8,
    name: Vec<u8>,
}

/// Whether a stream is one of ours.
unsafe fn is_ours(stream: *mut DIR) -> bool {
    // SAFETY: the caller has the stream from `opendir` or `fdopendir`. In both kinds of streams, the descriptor is the first field.
    !stream.is_null() && unsafe { numbers::has(*stream.cast::<c_int>()) }
}

unsafe fn ours<'a>(stream: *mut DIR) -> &'a mut DirectoryStream {
    // SAFETY: `is_ours` was asked. POSIX lets only one thread use a stream at a time.
    unsafe { &mut *stream.cast::<DirectoryStream>() }
}

fn begin(fd: c_int) -> CallResult<*mut DIR> {
    let Some(open) = table::get(fd) else { return refuse(libc::EBADF) };
    if !open.is_directory() {
        return refuse(libc::ENOTDIR);
    }
    let entries = list(&open.path())?;
    // SAFETY: it consists of numbers, for which zero is valid.
    let current = unsafe { std::mem::zeroed() };
    Ok(Box::into_raw(Box::new(DirectoryStream { fd, position: 0, entries, current })).cast())
}

fn list(path: &[u8]) -> CallResult<Vec<StreamEntry>> {
    let shown = opened::get()?;
    let above = path.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |at| &path[..at]);
    let dot = |name: &[u8], path: &[u8]| -> CallResult<StreamEntry> {
        let number = number(shown.files.stat(path)?.id, path);
        Ok(StreamEntry { number, kind: libc::DT_DIR, name: name.to_vec() })
    };
    let mut entries = vec![dot(b".", path)?, dot(b"..", above)?];
    let mut from = Vec::new();
    loop {
        let (page, next) = shown.files.list(path, &from, NAMES_PER_PAGE)?;
        entries.extend(page.into_iter().map(|entry| {
            let whole = if path.is_empty() { entry.name.clone() } else { [path, b"/", &entry.name].concat() };
            let kind = entry_type(entry.kind, entry.special);
            StreamEntry { number: number(entry.id, &whole), kind, name: entry.name }
        }));
        match next {
            Some(next) => from = next,
            None => return Ok(entries),
        }
    }
}

impl DirectoryStream {
    /// Fills `current` with the next entry.
    fn advance(&mut self) -> Option<&mut dirent64> {
        let entry = self.entries.get(self.position)?;
        self.position += 1;
        self.current.d_ino = entry.number;
        self.current.d_off = self.position as i64;
        self.current.d_reclen = size_of::<dirent64>() as u16;
        self.current.d_type = entry.kind;
        // A name has at most 255 bytes, so its zero byte has room, too.
        let room = self.current.d_name.len() - 1;
        self.current.d_name.fill(0);
        for (to, from) in self.current.d_name[..room].iter_mut().zip(&entry.name) {
            *to = *from as c_char;
        }
        Some(&mut self.current)
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn opendir(path: *const c_char) -> *mut DIR {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the caller gives a path.
    unsafe {
        if is_inside() {
            // The C library would open it by a call of its own, and its number would stay among the program's.
            let fd = open::openat(libc::AT_FDCWD, path, flags, 0);
            return if fd < 0 { std::ptr::null_mut() } else { real::fdopendir(fd) };
        }
        crate::paths::by_path(
            libc::AT_FDCWD,
            path,
            crate::paths::LastLink::Follow,
            |_, path| {
                let _change = numbers::open_programs();
                real::opendir(path)
            },
            |path, stat| {
                let fd = open::open_below(path, stat, flags, 0)?;
                begin(fd).inspect_err(|_| {
                    descriptors::close(fd);
                })
            },
        )
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdopendir(fd: c_int) -> *mut DIR {
    // SAFETY: it takes a number only.
    if numbers::has(fd) { answer(|| begin(fd)) } else { unsafe { real::fdopendir(fd) } }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readdir64(stream: *mut DIR) -> *mut dirent64 {
    // SAFETY: the caller gives a stream.
    unsafe {
        match is_ours(stream) {
            true => ours(stream).advance().map_or(std::ptr::null_mut(), |entry| entry),
            false => real::readdir64(stream),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn readdir64_r(
    stream: *mut DIR,
    entry: *mut dirent64,
    result: *mut *mut dirent64,
) -> c_int {
    // SAFETY: the caller gives a stream, and room for an entry and a pointer.
    unsafe {
        if !is_ours(stream) {
            return real::readdir64_r(stream, entry, result);
        }
        match ours(stream).advance() {
            Some(next) => {
                entry.write(*next);
                result.write(entry);
            }
            None => result.write(std::ptr::null_mut()),
        }
        0
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn closedir(stream: *mut DIR) -> c_int {
    // SAFETY: the caller gives a stream, and does not use it again.
    unsafe {
        match is_ours(stream) {
            true => {
                let stream = Box::from_raw(stream.cast::<DirectoryStream>());
                descriptors::close(stream.fd)
            }
            false if is_inside() => {
                let _change = numbers::change_engines();
                numbers::let_go(real::dirfd(stream));
                real::closedir(stream)
            }
            false => {
                let _change = numbers::change_programs();
                real::closedir(stream)
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rewinddir(stream: *mut DIR) {
    // SAFETY: the caller gives a stream.
    unsafe {
        if !is_ours(stream) {
            return real::rewinddir(stream);
        }
        let stream = ours(stream);
        stream.position = 0;
        let path = table::get(stream.fd).map(|open| open.path()).unwrap_or_default();
        // The function cannot fail. The stream shows what it has.
        if let Ok(entries) = crate::answer::guard(|| list(&path)) {
            stream.entries = entries;
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn seekdir(stream: *mut DIR, position: c_long) {
    // SAFETY: as above.
    unsafe {
        match is_ours(stream) {
            true => ours(stream).position = usize::try_from(position).unwrap_or_default(),
            false => real::seekdir(stream, position),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn telldir(stream: *mut DIR) -> c_long {
    // SAFETY: as above.
    unsafe {
        match is_ours(stream) {
            true => ours(stream).position as c_long,
            false => real::telldir(stream),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn dirfd(stream: *mut DIR) -> c_int {
    // SAFETY: as above.
    unsafe {
        match is_ours(stream) {
            true => ours(stream).fd,
            false => real::dirfd(stream),
        }
    }
}

type ScanFilter = extern "C" fn(*const dirent64) -> c_int;
type ScanOrder = extern "C" fn(*mut *const dirent64, *mut *const dirent64) -> c_int;

/// As in the C library, on our own streams: the library's would not see the store.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn scandirat(
    dir: c_int,
    path: *const c_char,
    out: *mut *mut *mut dirent64,
    filter: Option<ScanFilter>,
    order: Option<ScanOrder>,
) -> c_int {
    // SAFETY: the caller gives a path, and room for a pointer. The list and its entries are from `malloc`, as the caller expects.
    unsafe {
        let fd = open::openat(dir, path, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, 0);
        if fd < 0 {
            return -1;
        }
        let stream = fdopendir(fd);
        if stream.is_null() {
            return -1;
        }
        let mut kept: Vec<*mut dirent64> = Vec::new();
        loop {
            let entry = readdir64(stream);
            if entry.is_null() {
                break;
            }
            if filter.is_none_or(|filter| filter(entry) != 0) {
                let size = size_of::<dirent64>();
                let copy = libc::malloc(size).cast::<dirent64>();
                if copy.is_null() {
                    break;
                }
                // The C library's entries may be shorter than the structure; `d_reclen` says how long they are.
                let length = usize::from((*entry).d_reclen).min(size);
                std::ptr::copy_nonoverlapping(entry.cast::<u8>(), copy.cast::<u8>(), length);
                kept.push(copy);
            }
        }
        closedir(stream);
        let list = libc::malloc(size_of::<*mut dirent64>() * kept.len().max(1)).cast::<*mut dirent64>();
        if list.is_null() {
            kept.into_iter().for_each(|entry| libc::free(entry.cast()));
            return give(refuse(libc::ENOMEM));
        }
        std::ptr::copy_nonoverlapping(kept.as_ptr(), list, kept.len());
        if let Some(order) = order {
            let order: extern "C" fn(*const std::ffi::c_void, *const std::ffi::c_void) -> c_int =
                std::mem::transmute(order);
            libc::qsort(list.cast(), kept.len(), size_of::<*mut dirent64>(), Some(order));
        }
        out.write(list);
        kept.len() as c_int
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn scandir(
    path: *const c_char,
    out: *mut *mut *mut dirent64,
    filter: Option<ScanFilter>,
    order: Option<ScanOrder>,
) -> c_int {
    // SAFETY: as above.
    unsafe { scandirat(libc::AT_FDCWD, path, out, filter, order) }
}

twins! {
    readdir64(stream: *mut DIR) -> *mut dirent64: readdir;
    readdir64_r(stream: *mut DIR, entry: *mut dirent64, result: *mut *mut dirent64) -> c_int: readdir_r;
    scandirat(dir: c_int, path: *const c_char, out: *mut *mut *mut dirent64, filter: Option<ScanFilter>, order: Option<ScanOrder>) -> c_int: scandirat64;
    scandir(path: *const c_char, out: *mut *mut *mut dirent64, filter: Option<ScanFilter>, order: Option<ScanOrder>) -> c_int: scandir64;
}
