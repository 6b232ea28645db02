//! Decides whether a path leads below the prefix, and to which path of the store.

use std::ffi::{CStr, CString, c_char, c_int};

use terrace::Kind;
use terrace::files::{FileError, Stat};

use crate::answer::{answer, give, guard};
use crate::errors::{CReturn, CallResult, ErrorNumber, refuse};
use crate::inside::is_inside;
use crate::{folder, kernel, numbers, opened, settings, table};

/// No text is in the first page of memory.
const MIN_TEXT_ADDRESS: isize = 4096;
/// The number of symbolic links in a path after which the kernel gives up, too.
const MAX_LINKS: usize = 40;
/// The folders whose entries stand for the process's descriptors.
const DESCRIPTOR_FOLDERS: [&[u8]; 2] = [b"/dev/fd/", b"/proc/self/fd/"];
const STANDARD_FILES: [(&[u8], c_int); 3] = [(b"/dev/stdin", 0), (b"/dev/stdout", 1), (b"/dev/stderr", 2)];

/// Whether a symbolic link at a path's end is followed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LastLink {
    /// It is followed.
    Follow,
    /// It is meant itself.
    Keep,
}

/// The place that a path leads to.
pub enum Route {
    /// A path of the kernel's, other than the given one.
    Elsewhere(CString),
    /// A path of the store, and the attributes of what is there.
    Below(Vec<u8>, Option<Stat>),
}

/// A path that begins below the prefix, before links and dots are resolved.
struct Start {
    /// The directory of the store from which `rest` leads on.
    base: Vec<u8>,
    rest: Vec<u8>,
}

/// Answers a call with a path: by the C library if the path leads elsewhere, otherwise by the store.
///
/// # Safety
/// The path is null or ends with a zero byte.
#[inline]
pub unsafe fn by_path<T: CReturn>(
    dir: c_int,
    path: *const c_char,
    last: LastLink,
    elsewhere: impl FnOnce(c_int, *const c_char) -> T,
    below: impl FnOnce(&[u8], Option<Stat>) -> CallResult<T>,
) -> T {
    // SAFETY: as the caller says.
    match unsafe { begin(dir, path, last) } {
        None => elsewhere(dir, path),
        Some(start) => match guard(|| start.resolve(last)) {
            Ok(Route::Elsewhere(other)) => elsewhere(libc::AT_FDCWD, other.as_ptr()),
            Ok(Route::Below(path, stat)) => answer(|| below(&path, stat)),
            Err(error) => give(Err(error)),
        },
    }
}

/// Returns where a path leads if it is not simply the kernel's.
///
/// # Safety
/// The path is null or ends with a zero byte.
pub unsafe fn find(dir: c_int, path: *const c_char, last: LastLink) -> CallResult<Option<Route>> {
    // SAFETY: as the caller says.
    match unsafe { begin(dir, path, last) } {
        None => Ok(None),
        Some(start) => guard(|| start.resolve(last)).map(Some),
    }
}

/// Returns none for the kernel's paths. Takes apart a path that begins below the prefix.
///
/// # Safety
/// The path is null or ends with a zero byte.
#[inline]
unsafe fn begin(dir: c_int, path: *const c_char, last: LastLink) -> Option<Start> {
    if is_wild(path) || settings::prefix().is_empty() || is_inside() {
        return None;
    }
    // SAFETY: the path ends with a zero byte.
    unsafe {
        match *path.cast::<u8>() {
            b'/' if leads_below(path) => Start::absolute(CStr::from_ptr(path).to_bytes()),
            // The entries are symbolic links.
            b'/' if numbers::has_any() && last == LastLink::Follow => {
                Start::descriptor(CStr::from_ptr(path).to_bytes())
            }
            b'/' => None,
            _ if dir == libc::AT_FDCWD && !folder::is_below() || dir != libc::AT_FDCWD && !numbers::has(dir) => {
                if names_prefix(path) {
                    Start::from_above(dir, CStr::from_ptr(path).to_bytes())
                } else {
                    None
                }
            }
            _ => Start::relative(dir, CStr::from_ptr(path).to_bytes()),
        }
    }
}

/// Whether a pointer cannot lead to a text: it is null or nearly, or in the kernel's half of the addresses. The kernel answers calls with
/// such pointers by `EFAULT`; other wrong pointers end the program here.
#[inline]
pub fn is_wild(path: *const c_char) -> bool {
    (path as isize) < MIN_TEXT_ADDRESS
}

/// Whether a path begins with the prefix: the one comparison that calls with other paths pay.
///
/// # Safety
/// The path ends with a zero byte.
#[inline]
unsafe fn leads_below(path: *const c_char) -> bool {
    let prefix = settings::prefix();
    // SAFETY: `strncmp` stops at the zero byte of the path. If the prefix is equal, the path has at least one byte more.
    unsafe {
        libc::strncmp(path, prefix.as_ptr().cast(), prefix.len()) == 0
            && matches!(*path.add(prefix.len()).cast::<u8>(), b'/' | 0)
    }
}

/// The last name of the prefix.
fn prefix_name() -> &'static [u8] {
    let prefix = settings::prefix();
    &prefix[prefix.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1)..]
}

/// Whether a relative path begins with the last name of the prefix: the one comparison that calls with such paths pay.
///
/// # Safety
/// The path ends with a zero byte.
#[inline]
unsafe fn names_prefix(path: *const c_char) -> bool {
    let name = prefix_name();
    // SAFETY: as in `leads_below`.
    unsafe {
        libc::strncmp(path, name.as_ptr().cast(), name.len()) == 0
            && matches!(*path.add(name.len()).cast::<u8>(), b'/' | 0)
    }
}

/// Returns the part of an absolute path behind the prefix.
fn behind_prefix(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(settings::prefix()).filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// The path of a directory or file of the store, as programs name it.
pub fn shown(path: &[u8]) -> Vec<u8> {
    match path.is_empty() {
        true => settings::prefix().to_vec(),
        false => [settings::prefix(), b"/", path].concat(),
    }
}

impl Start {
    fn absolute(path: &[u8]) -> Option<Start> {
        Some(Start { base: Vec::new(), rest: behind_prefix(path)?.to_vec() })
    }

    /// A path that leads down from the directory above the prefix, if `dir` is that one.
    fn from_above(dir: c_int, path: &[u8]) -> Option<Start> {
        let rest = path.strip_prefix(prefix_name())?;
        let above = settings::prefix().strip_suffix(prefix_name())?;
        let identity = |stat: libc::stat| (stat.st_dev, stat.st_ino);
        let here = if dir == libc::AT_FDCWD { kernel::stat_path(c".") } else { kernel::stat_open(dir) }?;
        let above = kernel::stat_path(&CString::new(above).ok()?)?;
        (identity(here) == identity(above)).then(|| Start { base: Vec::new(), rest: rest.to_vec() })
    }

    fn relative(dir: c_int, path: &[u8]) -> Option<Start> {
        let base = match dir {
            libc::AT_FDCWD => folder::get()?,
            dir => table::get(dir)?.path(),
        };
        // An empty path is an error, or means the descriptor itself; its callers look for that first.
        let rest = if path.is_empty() { b"\0".to_vec() } else { path.to_vec() };
        Some(Start { base, rest })
    }

    fn descriptor(path: &[u8]) -> Option<Start> {
        let named = STANDARD_FILES.iter().find(|(name, _)| *name == path).map(|(_, fd)| *fd);
        let listed = || {
            let name = DESCRIPTOR_FOLDERS.iter().find_map(|folder| path.strip_prefix(*folder))?;
            std::str::from_utf8(name).ok()?.parse().ok()
        };
        let open = table::get(named.or_else(listed)?)?;
        Some(Start { base: Vec::new(), rest: open.path() })
    }

    /// Resolves dots and symbolic links.
    fn resolve(self, last: LastLink) -> CallResult<Route> {
        if self.rest == b"\0" {
            return refuse(libc::ENOENT);
        }
        let trailing = self.rest.ends_with(b"/");
        let last = if trailing { LastLink::Follow } else { last };
        let parts = split(&self.rest);
        if !parts.contains(&b"..".as_slice()) {
            let key = join(&self.base, &parts);
            if let Some(stat) = plain(&key, last)? {
                let directory = stat.as_ref().is_none_or(|stat| stat.kind == Kind::Directory);
                return if trailing && !directory { refuse(libc::ENOTDIR) } else { Ok(Route::Below(key, stat)) };
            }
        }
        let todo = parts.into_iter().rev().map(<[u8]>::to_vec).collect();
        walk(self.base, todo, last, 0)
    }
}

/// Looks a path up as a key. Returns none if a symbolic link has to be resolved first, and no attributes if nothing is there.
fn plain(key: &[u8], last: LastLink) -> CallResult<Option<Option<Stat>>> {
    let files = &opened::get()?.files;
    match files.stat(key) {
        Ok(stat) if stat.kind == Kind::Symlink && last == LastLink::Follow => Ok(None),
        Ok(stat) => Ok(Some(Some(stat))),
        Err(FileError::NotFound(_) | FileError::NotDirectory(_)) => {
            let above = key.iter().rposition(|&byte| byte == b'/').map_or(&b""[..], |at| &key[..at]);
            match files.stat(above) {
                Ok(above) if above.kind == Kind::Directory => Ok(Some(None)),
                _ => Ok(None),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Follows a path name by name. `todo` has the names that follow, the next one at its end.
fn walk(mut here: Vec<u8>, mut todo: Vec<Vec<u8>>, last: LastLink, mut links: usize) -> CallResult<Route> {
    let files = &opened::get()?.files;
    let mut stat = None;
    while let Some(name) = todo.pop() {
        if name == b".." {
            if here.is_empty() {
                return leave(todo, last, links);
            }
            let above = here.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            here.truncate(above);
            stat = None;
            continue;
        }
        let next = join(&here, &[&name]);
        stat = match files.stat(&next) {
            Ok(stat) => Some(stat),
            Err(FileError::NotFound(_)) if todo.is_empty() => None,
            Err(error) => return Err(error.into()),
        };
        let is_link = stat.as_ref().is_some_and(|stat| stat.kind == Kind::Symlink);
        if is_link && !(todo.is_empty() && last == LastLink::Keep) {
            links += 1;
            if links > MAX_LINKS {
                return refuse(libc::ELOOP);
            }
            let to = files.read_link(&next)?;
            let rest = match behind_prefix(&to) {
                Some(rest) => {
                    here.clear();
                    rest
                }
                None if to.starts_with(b"/") => {
                    let rest = todo.into_iter().rev();
                    let text = rest.fold(to, |text, name| [text.as_slice(), b"/", &name].concat());
                    return Ok(Route::Elsewhere(CString::new(text).map_err(|_| ErrorNumber(libc::EINVAL))?));
                }
                None => &to,
            };
            todo.extend(split(rest).into_iter().rev().map(<[u8]>::to_vec));
            stat = None;
            continue;
        }
        here = next;
    }
    let stat = match stat {
        None => files.stat(&here).ok(),
        found => found,
    };
    Ok(Route::Below(here, stat))
}

/// Continues a path that has left the prefix upwards. It may come back.
fn leave(todo: Vec<Vec<u8>>, last: LastLink, links: usize) -> CallResult<Route> {
    let mut names: Vec<&[u8]> = split(settings::prefix());
    names.pop();
    for name in todo.iter().rev() {
        match name.as_slice() {
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let text = names.iter().fold(Vec::new(), |text, name| [text.as_slice(), b"/", name].concat());
    let text = if text.is_empty() { b"/".to_vec() } else { text };
    match behind_prefix(&text) {
        Some(rest) => walk(Vec::new(), split(rest).into_iter().rev().map(<[u8]>::to_vec).collect(), last, links),
        None => Ok(Route::Elsewhere(CString::new(text).map_err(|_| ErrorNumber(libc::EINVAL))?)),
    }
}

/// Returns the names of a path without those that mean nothing.
fn split(path: &[u8]) -> Vec<&[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !matches!(*name, b"" | b".")).collect()
}

fn join(base: &[u8], names: &[&[u8]]) -> Vec<u8> {
    let mut path = base.to_vec();
    for name in names {
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    path
}
