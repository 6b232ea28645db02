//! `posix_spawn_file_actions_t` as the C library keeps it.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::slice;
use std::sync::OnceLock;

use libc::{mode_t, posix_spawn_file_actions_t};

use crate::real;

/// The list of actions. Programs are compiled with its size, and the C library's allocates the actions itself.
#[repr(C)]
pub struct FileActions {
    allocated: c_int,
    used: c_int,
    actions: *const FileAction,
    reserved: [c_int; 16],
}

const _: () = assert!(size_of::<FileActions>() == size_of::<posix_spawn_file_actions_t>());

/// One action: the C library's `__spawn_action`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct FileAction {
    kind: c_int,
    arguments: Arguments,
}

#[derive(Clone, Copy)]
#[repr(C)]
union Arguments {
    numbers: [c_int; 2],
    open: OpenArguments,
    path: *const c_char,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct OpenArguments {
    fd: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
}

const CLOSE_KIND: c_int = 0;
const COPY_KIND: c_int = 1;
const OPEN_KIND: c_int = 2;
const ENTER_KIND: c_int = 3;
const ENTER_OPEN_KIND: c_int = 4;

/// The meaning of an action.
pub enum Action {
    /// Closes a descriptor.
    Close(c_int),
    /// Copies a descriptor to another number.
    Copy(c_int, c_int),
    /// Opens a path as a descriptor.
    Open { fd: c_int, path: *const c_char, flags: c_int, mode: mode_t },
    /// Changes the current directory to a path.
    Enter(*const c_char),
    /// Changes the current directory to that of a descriptor.
    EnterOpen(c_int),
    /// Names no file of the store.
    Other,
}

impl FileAction {
    /// The action that opens a path.
    pub fn open(fd: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> FileAction {
        FileAction { kind: OPEN_KIND, arguments: Arguments { open: OpenArguments { fd, path, flags, mode } } }
    }

    /// The action that changes the current directory.
    pub fn enter(path: *const c_char) -> FileAction {
        FileAction { kind: ENTER_KIND, arguments: Arguments { path } }
    }

    /// Takes the action apart.
    pub fn action(&self) -> Action {
        // SAFETY: the C library sets these arguments for these kinds.
        unsafe {
            let Arguments { numbers: [first, second] } = self.arguments;
            match self.kind {
                CLOSE_KIND => Action::Close(first),
                COPY_KIND => Action::Copy(first, second),
                OPEN_KIND => {
                    let OpenArguments { fd, path, flags, mode } = self.arguments.open;
                    Action::Open { fd, path, flags, mode }
                }
                ENTER_KIND => Action::Enter(self.arguments.path),
                ENTER_OPEN_KIND => Action::EnterOpen(first),
                _ => Action::Other,
            }
        }
    }
}

impl FileActions {
    /// Makes a list for the C library to read. It is valid as long as the actions.
    pub fn of(actions: &[FileAction]) -> FileActions {
        let count = actions.len() as c_int;
        FileActions { allocated: count, used: count, actions: actions.as_ptr(), reserved: [0; 16] }
    }

    /// The list as the C library's.
    pub fn as_ptr(&self) -> *const posix_spawn_file_actions_t {
        std::ptr::from_ref(self).cast()
    }

    /// Returns the actions of a list. None if the C library keeps them otherwise.
    ///
    /// # Safety
    /// The list was made by the C library.
    pub unsafe fn read<'a>(list: *const posix_spawn_file_actions_t) -> &'a [FileAction] {
        static IS_KNOWN: OnceLock<bool> = OnceLock::new();
        // SAFETY: as the caller says.
        if *IS_KNOWN.get_or_init(is_known) { unsafe { actions(list) } } else { &[] }
    }
}

unsafe fn actions<'a>(list: *const posix_spawn_file_actions_t) -> &'a [FileAction] {
    // SAFETY: as `read` says.
    unsafe {
        let list = &*list.cast::<FileActions>();
        match usize::try_from(list.used) {
            Ok(count) if count > 0 && !list.actions.is_null() => slice::from_raw_parts(list.actions, count),
            _ => &[],
        }
    }
}

/// Whether the C library keeps actions as this module says: the structure is not in its headers.
fn is_known() -> bool {
    let mut list = MaybeUninit::<posix_spawn_file_actions_t>::zeroed();
    let (list, path) = (list.as_mut_ptr(), c"path".as_ptr());
    // SAFETY: the list is initialized first, and destroyed at the end.
    unsafe {
        let failed = libc::posix_spawn_file_actions_init(list) != 0
            || libc::posix_spawn_file_actions_addclose(list, 3) != 0
            || libc::posix_spawn_file_actions_adddup2(list, 4, 5) != 0
            || libc::posix_spawn_file_actions_addopen(list, 6, path, libc::O_APPEND, 0o640) != 0
            || real::posix_spawn_file_actions_addchdir_np(list, path) != 0
            || real::posix_spawn_file_actions_addfchdir_np(list, 7) != 0;
        let is_path = |path: *const c_char| CStr::from_ptr(path) == c"path";
        let is_known = !failed
            && matches!(
                actions(list).iter().take(6).map(FileAction::action).collect::<Vec<_>>()[..],
                [Action::Close(3), Action::Copy(4, 5), Action::Open { fd: 6, path: opened, flags: libc::O_APPEND, mode: 0o640 },
                    Action::Enter(entered), Action::EnterOpen(7)] if is_path(opened) && is_path(entered)
            );
        libc::posix_spawn_file_actions_destroy(list);
        is_known
    }
}
