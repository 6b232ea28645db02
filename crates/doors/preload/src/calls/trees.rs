//! Walks through trees: `fts_open` to `fts_close`. The C library's enter directories by calls of its own. `fts_set` is the C library's: it
//! sets a field.
//!
//! As with the flag `FTS_NOCHDIR`, the current directory stays: each entry's path leads there from it.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;

use crate::answer::give;
use crate::calls::tree_steps::{
    ABOVE_ROOTS_LEVEL, ALL_FLAGS, DIRECTORY_KIND, Depth, FOLLOW_ROOTS_FLAG, NAMES_ONLY_FLAG, START_KIND, find_kind,
    forget_children, link, list, step,
};
use crate::calls::twins;
use crate::calls::walk::leads_below;
use crate::errors::{refuse, set_error_number};
use crate::real;
use crate::tree_entry::{EntryOrder, OUR_WALK_FLAG, TreeEntry, TreeStream};

/// Makes the entries of the paths that a walk begins with.
unsafe fn roots(mut paths: *const *const c_char, options: c_int, order: Option<EntryOrder>) -> *mut TreeEntry {
    // SAFETY: the caller gives a list of paths that ends with null.
    unsafe {
        let above = TreeEntry::new(null_mut(), ABOVE_ROOTS_LEVEL, c"", CString::default());
        let start = TreeEntry::new(above, 0, c"", CString::default());
        (*start).kind = START_KIND;
        let mut entries = Vec::new();
        while !(*paths).is_null() {
            let path = CStr::from_ptr(*paths);
            let entry = TreeEntry::new(above, 0, path, path.to_owned());
            (*entry).kind = find_kind(options, entry, options & FOLLOW_ROOTS_FLAG != 0);
            entries.push(entry);
            paths = paths.add(1);
        }
        (*start).next = link(order, &mut entries);
        start
    }
}

unsafe fn has_empty_path(mut paths: *const *const c_char) -> bool {
    // SAFETY: as above.
    unsafe {
        while !(*paths).is_null() && **paths != 0 {
            paths = paths.add(1);
        }
        !(*paths).is_null()
    }
}

unsafe fn any_leads_below(mut paths: *const *const c_char) -> bool {
    // SAFETY: as above.
    unsafe {
        while !(*paths).is_null() && !leads_below(*paths) {
            paths = paths.add(1);
        }
        !(*paths).is_null()
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fts_open(
    paths: *const *const c_char,
    options: c_int,
    order: Option<EntryOrder>,
) -> *mut TreeStream {
    // SAFETY: the caller gives a list of paths that ends with null.
    unsafe {
        match () {
            () if !any_leads_below(paths) => real::fts_open(paths, options, order),
            () if options & !ALL_FLAGS != 0 => give(refuse(libc::EINVAL)),
            () if has_empty_path(paths) => give(refuse(libc::ENOENT)),
            () => {
                let mut walk = TreeStream::new(order, options);
                walk.current = roots(paths, options, order);
                Box::into_raw(Box::new(walk))
            }
        }
    }
}

unsafe fn is_ours(walk: *mut TreeStream) -> bool {
    // SAFETY: the caller has the walk from `fts_open`. In both kinds of walks, the options are at the same place.
    unsafe { (*walk).options & OUR_WALK_FLAG != 0 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fts_read(walk: *mut TreeStream) -> *mut TreeEntry {
    // SAFETY: the caller has the walk from `fts_open`, and uses it on one thread.
    unsafe {
        match () {
            () if !is_ours(walk) => real::fts_read(walk),
            () if (*walk).current.is_null() => null_mut(),
            () => step(&mut *walk),
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fts_children(walk: *mut TreeStream, options: c_int) -> *mut TreeEntry {
    // SAFETY: as above.
    unsafe {
        if !is_ours(walk) {
            return real::fts_children(walk, options);
        }
        if !matches!(options, 0 | NAMES_ONLY_FLAG) {
            return give(refuse(libc::EINVAL));
        }
        set_error_number(0);
        let (walk, here) = (&mut *walk, (*walk).current);
        match () {
            () if here.is_null() => null_mut(),
            () if (*here).kind == START_KIND => (*here).next,
            () if (*here).kind != DIRECTORY_KIND => null_mut(),
            () => {
                forget_children(walk);
                walk.options |= options;
                walk.children = list(walk, if options == 0 { Depth::Look } else { Depth::Names });
                walk.children
            }
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fts_close(walk: *mut TreeStream) -> c_int {
    // SAFETY: as above; the caller does not use it again.
    unsafe {
        if !is_ours(walk) {
            return real::fts_close(walk);
        }
        let mut walk = Box::from_raw(walk);
        forget_children(&mut walk);
        let mut entry = walk.current;
        while !entry.is_null() {
            // Those behind it, and then those above.
            let next = if (*entry).next.is_null() { (*entry).parent } else { (*entry).next };
            TreeEntry::free(entry);
            entry = next;
        }
        0
    }
}

twins! {
    fts_open(paths: *const *const c_char, options: c_int, order: Option<EntryOrder>) -> *mut TreeStream: fts64_open;
    fts_read(walk: *mut TreeStream) -> *mut TreeEntry: fts64_read;
    fts_children(walk: *mut TreeStream, options: c_int) -> *mut TreeEntry: fts64_children;
    fts_close(walk: *mut TreeStream) -> c_int: fts64_close;
}
