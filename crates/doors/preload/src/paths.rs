//! Decides whether a path leads below the prefix, and to which path of the store.

use std::ffi::{CStr, CString, c_char, c_int};

use terrace::files::Stat;
use terrace_prefix::route::{self, behind_prefix};
pub use terrace_prefix::route::{LastLink, Route};

use crate::answer::{answer, give, guard};
use crate::errors::{CReturn, CallResult, refuse};
use crate::inside::is_inside;
use crate::pointers::is_wild;
use crate::{folder, kernel, numbers, opened, settings, table};

/// The folders whose entries stand for the process's descriptors.
const DESCRIPTOR_FOLDERS: [&[u8]; 2] = [b"/dev/fd/", b"/proc/self/fd/"];
const STANDARD_FILES: [(&[u8], c_int); 3] = [(b"/dev/stdin", 0), (b"/dev/stdout", 1), (b"/dev/stderr", 2)];

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

/// The path of a directory or file of the store, as programs name it.
pub fn shown(path: &[u8]) -> Vec<u8> {
    match path.is_empty() {
        true => settings::prefix().to_vec(),
        false => [settings::prefix(), b"/", path].concat(),
    }
}

impl Start {
    fn absolute(path: &[u8]) -> Option<Start> {
        Some(Start { base: Vec::new(), rest: behind_prefix(settings::prefix(), path)?.to_vec() })
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
        Ok(route::resolve(&opened::get()?.files, settings::prefix(), self.base, &self.rest, last)?)
    }
}
