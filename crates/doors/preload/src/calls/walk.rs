//! Walks through trees: `ftw` and `nftw`. The C library's enter directories by calls of its own.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::mem::MaybeUninit;

use crate::answer::give;
use crate::calls::{directories, stat, twins};
use crate::errors::refuse;
use crate::paths::{LastLink, Route, find};
use crate::real;

/// The function that `ftw` calls.
type Visitor = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int) -> c_int;
/// The function that `nftw` calls.
type PlacedVisitor = unsafe extern "C" fn(*const c_char, *const libc::stat, c_int, *mut WalkPlace) -> c_int;

/// `FTW`: where in the tree a visited file is.
#[repr(C)]
pub struct WalkPlace {
    /// Where the last name begins in the path.
    base: c_int,
    /// The number of directories above.
    level: c_int,
}

// The kinds of files that a visitor is told, and the flags, as in the C library's header.
const FILE_KIND: c_int = 0;
const DIRECTORY_KIND: c_int = 1;
const UNREADABLE_KIND: c_int = 2;
const UNKNOWN_KIND: c_int = 3;
const LINK_KIND: c_int = 4;
const LEFT_DIRECTORY_KIND: c_int = 5;
const BROKEN_LINK_KIND: c_int = 6;
const KEEP_LINKS_FLAG: c_int = 1;
const CHANGE_DIRECTORY_FLAG: c_int = 4;
const DEPTH_FIRST_FLAG: c_int = 8;
const ACTIONS_FLAG: c_int = 16;
const SKIP_SUBTREE_ACTION: c_int = 2;
const SKIP_SIBLINGS_ACTION: c_int = 3;

/// A walk through a tree of the store.
struct TreeWalk<F> {
    visit: F,
    flags: c_int,
    /// The directories that links may lead to again.
    entered: BTreeSet<(u64, u64)>,
}

impl<F: FnMut(&CStr, &libc::stat, c_int, &mut WalkPlace) -> c_int> TreeWalk<F> {
    /// Visits a file and all below it. Returns what the visitor returned: 0 to go on.
    fn go(&mut self, path: &CStr, level: c_int) -> c_int {
        let base = path.to_bytes().iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        let mut place = WalkPlace { base: base as c_int, level };
        let mut found = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the path ends with a zero byte. Zeros are valid attributes.
        let (kind, found) = unsafe {
            let kept = stat::lstat(path.as_ptr(), found.as_mut_ptr());
            let is_link = kept == 0 && found.assume_init_ref().st_mode & libc::S_IFMT == libc::S_IFLNK;
            let kind = match () {
                () if kept != 0 && level == 0 => return -1,
                () if kept != 0 => UNKNOWN_KIND,
                () if is_link && self.flags & KEEP_LINKS_FLAG != 0 => LINK_KIND,
                () if is_link && stat::stat(path.as_ptr(), found.as_mut_ptr()) != 0 => BROKEN_LINK_KIND,
                () if found.assume_init_ref().st_mode & libc::S_IFMT == libc::S_IFDIR => DIRECTORY_KIND,
                () => FILE_KIND,
            };
            (kind, found.assume_init())
        };
        if kind != DIRECTORY_KIND {
            return (self.visit)(path, &found, kind, &mut place);
        }
        if self.flags & KEEP_LINKS_FLAG == 0 && !self.entered.insert((found.st_dev, found.st_ino)) {
            return 0;
        }
        let Some(names) = read_names(path) else { return (self.visit)(path, &found, UNREADABLE_KIND, &mut place) };
        if self.flags & DEPTH_FIRST_FLAG == 0 {
            match (self.visit)(path, &found, DIRECTORY_KIND, &mut place) {
                SKIP_SUBTREE_ACTION if self.flags & ACTIONS_FLAG != 0 => return 0,
                0 => {}
                other => return other,
            }
        }
        for (name, _) in names {
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // Neither part contains a zero byte.
            let Ok(whole) = CString::new([path.to_bytes(), b"/", name.to_bytes()].concat()) else { continue };
            match self.go(&whole, level + 1) {
                SKIP_SIBLINGS_ACTION if self.flags & ACTIONS_FLAG != 0 => break,
                SKIP_SUBTREE_ACTION if self.flags & ACTIONS_FLAG != 0 => {}
                0 => {}
                other => return other,
            }
        }
        match self.flags & DEPTH_FIRST_FLAG != 0 {
            true => (self.visit)(path, &found, LEFT_DIRECTORY_KIND, &mut place),
            false => 0,
        }
    }
}

/// Returns the names in a directory and the kinds of their files. None if it cannot be read.
pub fn read_names(path: &CStr) -> Option<Vec<(CString, u8)>> {
    // SAFETY: the path ends with a zero byte; the stream is used here only, and entries until the next one is read.
    unsafe {
        let stream = directories::opendir(path.as_ptr());
        if stream.is_null() {
            return None;
        }
        let mut names = Vec::new();
        loop {
            let entry = directories::readdir64(stream);
            if entry.is_null() {
                break;
            }
            names.push((CStr::from_ptr((*entry).d_name.as_ptr()).to_owned(), (*entry).d_type));
        }
        directories::closedir(stream);
        Some(names)
    }
}

/// Whether a path leads below the prefix.
pub unsafe fn leads_below(path: *const c_char) -> bool {
    // SAFETY: the caller gives a path.
    matches!(unsafe { find(libc::AT_FDCWD, path, LastLink::Follow) }, Ok(Some(Route::Below(..))))
}

fn walk(path: &CStr, flags: c_int, visit: impl FnMut(&CStr, &libc::stat, c_int, &mut WalkPlace) -> c_int) -> c_int {
    TreeWalk { visit, flags, entered: BTreeSet::new() }.go(path, 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn nftw(path: *const c_char, visit: PlacedVisitor, limit: c_int, flags: c_int) -> c_int {
    // SAFETY: the caller gives a path, and a function that takes what is passed to it.
    unsafe {
        match leads_below(path) {
            false => real::nftw64(path, visit as *const c_void, limit, flags),
            // The current directory would be one of the store's own while the program runs.
            true if flags & CHANGE_DIRECTORY_FLAG != 0 => give(refuse(libc::EOPNOTSUPP)),
            true => {
                walk(CStr::from_ptr(path), flags, |path, found, kind, place| visit(path.as_ptr(), found, kind, place))
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ftw(path: *const c_char, visit: Visitor, limit: c_int) -> c_int {
    // SAFETY: as above.
    unsafe {
        match leads_below(path) {
            false => real::ftw64(path, visit as *const c_void, limit),
            true => walk(CStr::from_ptr(path), 0, |path, found, kind, _| {
                // This one knows no broken links.
                visit(path.as_ptr(), found, if kind == BROKEN_LINK_KIND { UNKNOWN_KIND } else { kind })
            }),
        }
    }
}

twins! {
    nftw(path: *const c_char, visit: PlacedVisitor, limit: c_int, flags: c_int) -> c_int: nftw64;
    ftw(path: *const c_char, visit: Visitor, limit: c_int) -> c_int: ftw64;
}
