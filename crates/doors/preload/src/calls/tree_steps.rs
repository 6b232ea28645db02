//! The steps of a walk by `fts_read`.

use std::ffi::{CString, c_int};
use std::ptr::null_mut;

use libc::{DT_DIR, DT_UNKNOWN};

use crate::calls::stat;
use crate::calls::walk::read_names;
use crate::errors::{error_number, set_error_number};
use crate::tree_entry::{EntryOrder, NO_WISH, TreeEntry, TreeStream};

// The flags, kinds and wishes, as in the C library's header.
pub const FOLLOW_ROOTS_FLAG: c_int = 0x01;
const LOGICAL_FLAG: c_int = 0x02;
const NO_STAT_FLAG: c_int = 0x08;
const PHYSICAL_FLAG: c_int = 0x10;
const SHOW_DOTS_FLAG: c_int = 0x20;
const ONE_DEVICE_FLAG: c_int = 0x40;
pub const ALL_FLAGS: c_int = 0xff;
pub const NAMES_ONLY_FLAG: c_int = 0x100;
pub const DIRECTORY_KIND: u16 = 1;
const CYCLE_KIND: u16 = 2;
const OTHER_KIND: u16 = 3;
const UNREADABLE_KIND: u16 = 4;
const DOT_KIND: u16 = 5;
const LEFT_DIRECTORY_KIND: u16 = 6;
const ERROR_KIND: u16 = 7;
const FILE_KIND: u16 = 8;
pub const START_KIND: u16 = 9;
const NO_STAT_KIND: u16 = 10;
const NOT_ASKED_KIND: u16 = 11;
const LINK_KIND: u16 = 12;
const BROKEN_LINK_KIND: u16 = 13;
const AGAIN_WISH: u16 = 1;
const FOLLOW_WISH: u16 = 2;
const SKIP_WISH: u16 = 4;
/// The level of the entry above the roots.
pub const ABOVE_ROOTS_LEVEL: i16 = -1;

/// How much of a directory's entries is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Their attributes, to walk on there.
    Walk,
    /// Their attributes.
    Look,
    /// Their names.
    Names,
}

/// Finds the kind of an entry.
///
/// # Safety
/// The entry and those above it are valid.
pub unsafe fn find_kind(options: c_int, entry: *mut TreeEntry, follows: bool) -> u16 {
    // SAFETY: as the caller says. Its path is a text, and there is room for attributes.
    unsafe {
        let (one, path) = (&mut *entry, (*entry).path().as_ptr());
        if options & LOGICAL_FLAG != 0 || follows {
            if stat::stat(path, one.stat) != 0 {
                let number = error_number();
                if stat::lstat(path, one.stat) == 0 {
                    set_error_number(0);
                    return BROKEN_LINK_KIND;
                }
                return unknown(one, number);
            }
        } else if stat::lstat(path, one.stat) != 0 {
            return unknown(one, error_number());
        }
        let found = &*one.stat;
        (one.device, one.inode, one.links) = (found.st_dev, found.st_ino, found.st_nlink);
        match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR if one.level > 0 && TreeEntry::is_dot(entry) => DOT_KIND,
            libc::S_IFDIR => {
                let mut above = one.parent;
                while (*above).level > ABOVE_ROOTS_LEVEL {
                    if ((*above).device, (*above).inode) == (one.device, one.inode) {
                        one.cycle = above;
                        return CYCLE_KIND;
                    }
                    above = (*above).parent;
                }
                DIRECTORY_KIND
            }
            libc::S_IFLNK => LINK_KIND,
            libc::S_IFREG => FILE_KIND,
            _ => OTHER_KIND,
        }
    }
}

unsafe fn unknown(entry: &mut TreeEntry, number: c_int) -> u16 {
    entry.error = number;
    // SAFETY: there is room for attributes, for which zeros are valid.
    unsafe { entry.stat.write(std::mem::zeroed()) };
    NO_STAT_KIND
}

/// Orders entries as the program wants, and makes them a list.
pub unsafe fn link(order: Option<EntryOrder>, entries: &mut [*mut TreeEntry]) -> *mut TreeEntry {
    // SAFETY: the entries are valid, and the program's function compares pointers to two of them.
    unsafe {
        if let Some(order) = order {
            libc::qsort(entries.as_mut_ptr().cast(), entries.len(), size_of::<*mut TreeEntry>(), Some(order));
        }
        let mut next = null_mut();
        for entry in entries.iter().rev() {
            (**entry).next = next;
            next = *entry;
        }
        next
    }
}

/// Lists the current directory. Null if it is empty or unreadable.
pub unsafe fn list(walk: &mut TreeStream, depth: Depth) -> *mut TreeEntry {
    // SAFETY: the current entry is valid, and so are those that are made here.
    unsafe {
        let above = walk.current;
        let Some(names) = read_names((*above).path()) else {
            if depth == Depth::Walk {
                ((*above).kind, (*above).error) = (UNREADABLE_KIND, error_number());
            }
            return null_mut();
        };
        let only_directories = walk.options & NO_STAT_FLAG != 0 && walk.options & PHYSICAL_FLAG != 0;
        let mut entries = Vec::new();
        for (name, kind) in names {
            if walk.options & SHOW_DOTS_FLAG == 0 && matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let folder = (*above).path().to_bytes();
            let folder = folder.strip_suffix(b"/").unwrap_or(folder);
            // Neither part contains a zero byte.
            let Ok(path) = CString::new([folder, b"/", name.to_bytes()].concat()) else { continue };
            let entry = TreeEntry::new(above, (*above).level + 1, &name, path);
            let has_kind = only_directories && !matches!(kind, DT_DIR | DT_UNKNOWN);
            let is_asked = depth != Depth::Names && !has_kind;
            (*entry).kind = if is_asked { find_kind(walk.options, entry, false) } else { NOT_ASKED_KIND };
            entries.push(entry);
        }
        if entries.is_empty() && depth == Depth::Walk {
            (*above).kind = LEFT_DIRECTORY_KIND;
        }
        link(walk.order, &mut entries)
    }
}

/// Frees the entries that `fts_children` has made.
pub unsafe fn forget_children(walk: &mut TreeStream) {
    // SAFETY: nobody uses them after this.
    unsafe { TreeEntry::free_list(std::mem::replace(&mut walk.children, null_mut())) };
}

/// Goes on to the next entry, and returns it.
pub unsafe fn step(walk: &mut TreeStream) -> *mut TreeEntry {
    // SAFETY: the current entry is valid, and so are those that it leads to.
    unsafe {
        let entry = walk.current;
        let wish = std::mem::replace(&mut (*entry).wish, NO_WISH);
        let is_link = matches!((*entry).kind, LINK_KIND | BROKEN_LINK_KIND);
        match wish {
            AGAIN_WISH => (*entry).kind = find_kind(walk.options, entry, false),
            FOLLOW_WISH if is_link => (*entry).kind = find_kind(walk.options, entry, true),
            _ if (*entry).kind == DIRECTORY_KIND => return enter(walk, wish == SKIP_WISH),
            _ => return leave(walk),
        }
        entry
    }
}

/// Goes down into the current directory.
unsafe fn enter(walk: &mut TreeStream, skips: bool) -> *mut TreeEntry {
    // SAFETY: as above.
    unsafe {
        let entry = walk.current;
        if skips || walk.options & ONE_DEVICE_FLAG != 0 && (*entry).device != walk.device {
            forget_children(walk);
            (*entry).kind = LEFT_DIRECTORY_KIND;
            return entry;
        }
        if walk.options & NAMES_ONLY_FLAG != 0 {
            walk.options &= !NAMES_ONLY_FLAG;
            forget_children(walk);
        }
        let mut first = std::mem::replace(&mut walk.children, null_mut());
        if first.is_null() {
            first = list(walk, Depth::Walk);
        }
        if !first.is_null() {
            walk.current = first;
        }
        walk.current
    }
}

/// Goes on behind the current entry, or up.
unsafe fn leave(walk: &mut TreeStream) -> *mut TreeEntry {
    // SAFETY: as above. An entry that is left is not used again.
    unsafe {
        loop {
            let (entry, next, above) = (walk.current, (*walk.current).next, (*walk.current).parent);
            TreeEntry::free(entry);
            walk.current = if next.is_null() { above } else { next };
            let here = &mut *walk.current;
            if next.is_null() {
                if here.level == ABOVE_ROOTS_LEVEL {
                    TreeEntry::free(above);
                    walk.current = null_mut();
                    set_error_number(0);
                } else {
                    here.kind = if here.error != 0 { ERROR_KIND } else { LEFT_DIRECTORY_KIND };
                }
            } else if here.level == 0 {
                TreeEntry::shorten_name(next);
                walk.device = here.device;
            } else if here.wish == SKIP_WISH {
                continue;
            } else if here.wish == FOLLOW_WISH {
                here.kind = find_kind(walk.options, next, true);
                here.wish = NO_WISH;
            }
            return walk.current;
        }
    }
}
