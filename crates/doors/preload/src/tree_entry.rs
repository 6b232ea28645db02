//! `FTS` and `FTSENT`: the structures of walks by `fts_read`. Programs are compiled with their layouts, so these stay.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::ptr::null_mut;

/// Compares two entries for their order.
pub type EntryOrder = unsafe extern "C" fn(*const c_void, *const c_void) -> c_int;

/// A walk.
#[repr(C)]
pub struct TreeStream {
    /// The entry that was returned last; null at the end.
    pub current: *mut TreeEntry,
    /// The entries below the current one, if the program has asked for them.
    pub children: *mut TreeEntry,
    array: *mut *mut TreeEntry,
    /// The device of the root that is walked.
    pub device: libc::dev_t,
    path: *mut c_char,
    root_fd: c_int,
    path_length: c_int,
    count: c_int,
    /// How entries of one directory are ordered.
    pub order: Option<EntryOrder>,
    /// The flags of `fts_open`, and those below.
    pub options: c_int,
}

/// The walk is one of ours.
pub const OUR_WALK_FLAG: c_int = 1 << 30;

/// The program wishes nothing of an entry.
pub const NO_WISH: u16 = 3;

/// A file in a walk. Its name follows.
#[repr(C)]
pub struct TreeEntry {
    /// The directory above that is this one.
    pub cycle: *mut TreeEntry,
    pub parent: *mut TreeEntry,
    /// The next entry of the same directory.
    pub next: *mut TreeEntry,
    number: c_long,
    pointer: *mut c_void,
    access_path: *mut c_char,
    path: *mut c_char,
    pub error: c_int,
    link_fd: c_int,
    path_length: u16,
    name_length: u16,
    pub inode: libc::ino_t,
    pub device: libc::dev_t,
    pub links: libc::nlink_t,
    pub level: i16,
    pub kind: u16,
    flags: u16,
    /// The wish of the program, by `fts_set`.
    pub wish: u16,
    pub stat: *mut libc::stat,
    name: [c_char; 0],
}

impl TreeStream {
    /// Makes a walk that has not begun.
    pub fn new(order: Option<EntryOrder>, options: c_int) -> TreeStream {
        TreeStream {
            current: null_mut(),
            children: null_mut(),
            array: null_mut(),
            device: 0,
            path: null_mut(),
            root_fd: -1,
            path_length: 0,
            count: 0,
            order,
            options: options | OUR_WALK_FLAG,
        }
    }
}

impl TreeEntry {
    /// Makes an entry with a name and a path from the root.
    pub fn new(parent: *mut TreeEntry, level: i16, name: &CStr, path: CString) -> *mut TreeEntry {
        let size = size_of::<TreeEntry>() + name.to_bytes_with_nul().len();
        let short = |text: &CStr| u16::try_from(text.to_bytes().len()).unwrap_or(u16::MAX);
        // SAFETY: all fields are numbers and pointers, for which zero is valid. The name and its zero byte have room behind them.
        unsafe {
            let entry = libc::calloc(1, size).cast::<TreeEntry>();
            if entry.is_null() {
                std::process::abort();
            }
            (*entry).parent = parent;
            (*entry).level = level;
            (*entry).stat = Box::into_raw(Box::new(std::mem::zeroed()));
            ((*entry).name_length, (*entry).path_length) = (short(name), short(&path));
            (*entry).path = path.into_raw();
            (*entry).access_path = (*entry).path;
            ((*entry).link_fd, (*entry).wish) = (-1, NO_WISH);
            std::ptr::copy_nonoverlapping(name.as_ptr(), TreeEntry::name(entry), name.to_bytes_with_nul().len());
            entry
        }
    }

    /// Frees an entry.
    ///
    /// # Safety
    /// `new` made it, and nobody uses it any more.
    pub unsafe fn free(entry: *mut TreeEntry) {
        // SAFETY: as the caller says.
        unsafe {
            drop(Box::from_raw((*entry).stat));
            drop(CString::from_raw((*entry).path));
            libc::free(entry.cast());
        }
    }

    /// Frees a list of entries.
    ///
    /// # Safety
    /// As [`TreeEntry::free`], for each.
    pub unsafe fn free_list(mut entry: *mut TreeEntry) {
        while !entry.is_null() {
            // SAFETY: as the caller says.
            unsafe {
                let next = (*entry).next;
                TreeEntry::free(entry);
                entry = next;
            }
        }
    }

    /// The path from the root that the program has named.
    pub fn path(&self) -> &CStr {
        // SAFETY: it is a text, which ends with a zero byte.
        unsafe { CStr::from_ptr(self.path) }
    }

    /// Its name.
    ///
    /// # Safety
    /// `new` made it.
    unsafe fn name(entry: *mut TreeEntry) -> *mut c_char {
        // SAFETY: the name follows the structure.
        unsafe { (&raw mut (*entry).name).cast() }
    }

    /// Replaces the name of a root, which is its path, by the last part.
    ///
    /// # Safety
    /// `new` made it.
    pub unsafe fn shorten_name(entry: *mut TreeEntry) {
        // SAFETY: the last part with its zero byte is a part of the name. Both may overlap.
        unsafe {
            let name = TreeEntry::name(entry);
            let whole = CStr::from_ptr(name).to_bytes();
            let Some(slash) = whole.iter().rposition(|&byte| byte == b'/').filter(|_| whole.len() > 1) else { return };
            let rest = whole.len() - slash - 1;
            std::ptr::copy(name.add(slash + 1), name, rest + 1);
            (*entry).name_length = u16::try_from(rest).unwrap_or(u16::MAX);
        }
    }

    /// Whether it is the entry of a directory for itself or for the one above.
    ///
    /// # Safety
    /// `new` made it.
    pub unsafe fn is_dot(entry: *mut TreeEntry) -> bool {
        // SAFETY: the name ends with a zero byte.
        matches!(unsafe { CStr::from_ptr(TreeEntry::name(entry)) }.to_bytes(), b"." | b"..")
    }
}
