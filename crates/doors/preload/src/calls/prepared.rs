//! The actions of `posix_spawn`, prepared for a child that has the C library's calls only.
//!
//! The child shares this process's memory until its program runs, so no call of ours may run there. Instead, this process opens the files of
//! the store that the actions name, and the child opens the descriptors of these by their paths in `/proc`: so it does not matter which numbers
//! the child has closed or replaced by then. A directory of the store is replaced by the one that stands for it.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use libc::{mode_t, posix_spawn_file_actions_t};
use terrace_prefix::folders::ShadowFolder;

use crate::actions::{Action, FileAction, FileActions};
use crate::answer::guard;
use crate::calls::{current, open};
use crate::description::OpenDescription;
use crate::errors::{CallResult, refuse};
use crate::inside::{Inside, is_inside};
use crate::paths::{self, LastLink, Route, shown};
use crate::pointers::is_wild;
use crate::{folder, numbers, settings, table};

/// Where a child's relative paths begin.
pub struct ChildPlace {
    dir: c_int,
    /// The path from there, which ends with a slash, or nothing.
    text: Vec<u8>,
}

/// A file of the store that a child opens by its descriptor here.
struct FileForChild {
    /// Among the engine's own, so that no other thread of the program closes it meanwhile.
    fd: OwnedFd,
    description: OpenDescription,
}

/// Actions that the C library can carry out. They live until the child's program runs.
pub struct PreparedActions {
    given: *const posix_spawn_file_actions_t,
    /// The actions, if some were replaced.
    replaced: Vec<FileAction>,
    whole: Option<FileActions>,
    /// Where the child is when its program runs.
    pub place: ChildPlace,
    /// The directories of the store among the child's descriptors, where they are not this process's; none for other files.
    folders: BTreeMap<c_int, Option<Vec<u8>>>,
    texts: Vec<CString>,
    files: Vec<FileForChild>,
    stand_ins: Vec<ShadowFolder>,
}

/// Returns the path by which a child opens a descriptor of this process.
pub fn path_for_child(fd: c_int) -> CallResult<CString> {
    // SAFETY: it asks only.
    let may_be_looked_at = unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } == 1;
    // After a change of the user, others may not look at this process. Then the descriptor must still be open in the child.
    let process = if may_be_looked_at { std::process::id().to_string() } else { "self".to_owned() };
    CString::new(format!("/proc/{process}/fd/{fd}")).or(refuse(libc::EINVAL))
}

impl Drop for PreparedActions {
    fn drop(&mut self) {
        // What is closed and removed is the engine's.
        let _inside = Inside::enter();
        self.files.clear();
        self.stand_ins.clear();
    }
}

impl ChildPlace {
    /// Returns where a path leads from here if it is not simply the kernel's.
    ///
    /// # Safety
    /// The path is null or ends with a zero byte.
    pub unsafe fn find(&self, path: *const c_char) -> CallResult<Option<Route>> {
        // SAFETY: as the caller says.
        unsafe { self.find_link(path, LastLink::Follow) }
    }

    unsafe fn find_link(&self, path: *const c_char, last: LastLink) -> CallResult<Option<Route>> {
        // SAFETY: as the caller says.
        unsafe {
            if is_wild(path) || self.text.is_empty() || *path.cast::<u8>() == b'/' {
                return paths::find(self.dir, path, last);
            }
            let whole = CString::new(self.after(CStr::from_ptr(path))).or(refuse(libc::EINVAL))?;
            paths::find(self.dir, whole.as_ptr(), last)
        }
    }

    fn after(&self, path: &CStr) -> Vec<u8> {
        match path.to_bytes() {
            absolute if absolute.starts_with(b"/") => absolute.to_vec(),
            relative => [&self.text, relative].concat(),
        }
    }

    fn enter(&mut self, mut path: Vec<u8>) {
        if path.starts_with(b"/") {
            self.dir = libc::AT_FDCWD;
        }
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        self.text = path;
    }
}

impl PreparedActions {
    /// Prepares a caller's actions.
    ///
    /// # Safety
    /// The actions are null, or were made by the C library.
    pub unsafe fn of(given: *const posix_spawn_file_actions_t) -> CallResult<PreparedActions> {
        let place = ChildPlace { dir: libc::AT_FDCWD, text: Vec::new() };
        let (replaced, texts, files, stand_ins) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut prepared =
            PreparedActions { given, replaced, whole: None, place, folders: BTreeMap::new(), texts, files, stand_ins };
        if settings::prefix().is_empty() || is_inside() || given.is_null() {
            return Ok(prepared);
        }
        // SAFETY: as the caller says.
        let actions = unsafe { FileActions::read(given) };
        for (at, action) in actions.iter().enumerate() {
            // SAFETY: as the caller says.
            if let Some(replacement) = unsafe { prepared.prepare(action)? } {
                if prepared.replaced.is_empty() {
                    prepared.replaced = actions.to_vec();
                }
                prepared.replaced[at] = replacement;
            }
        }
        prepared.whole = (!prepared.replaced.is_empty()).then(|| FileActions::of(&prepared.replaced));
        Ok(prepared)
    }

    /// The actions for the C library.
    pub fn actions(&self) -> *const posix_spawn_file_actions_t {
        self.whole.as_ref().map_or(self.given, FileActions::as_ptr)
    }

    unsafe fn prepare(&mut self, action: &FileAction) -> CallResult<Option<FileAction>> {
        // SAFETY: the paths are the C library's copies.
        unsafe {
            match action.action() {
                Action::Close(fd) => drop(self.folders.insert(fd, None)),
                Action::Copy(from, to) => {
                    let folder = self.folder_of(from);
                    self.folders.insert(to, folder);
                }
                Action::Open { fd, path, flags, mode } => return self.open(fd, path, flags, mode),
                Action::Enter(path) => return self.enter(path),
                Action::EnterOpen(fd) => match self.folder_of(fd) {
                    Some(path) => return self.enter_below(path),
                    None => self.place = ChildPlace { dir: fd, text: Vec::new() },
                },
                Action::Other => {}
            }
        }
        Ok(None)
    }

    /// Returns the path below the prefix of a directory that the child has open.
    fn folder_of(&self, fd: c_int) -> Option<Vec<u8>> {
        let own = || table::get(fd).filter(|open| open.is_directory()).map(|open| open.path());
        self.folders.get(&fd).cloned().unwrap_or_else(own)
    }

    unsafe fn open(
        &mut self,
        fd: c_int,
        path: *const c_char,
        flags: c_int,
        mode: mode_t,
    ) -> CallResult<Option<FileAction>> {
        self.folders.insert(fd, None);
        // SAFETY: as the caller says.
        let (path, stat) = match unsafe { self.place.find_link(path, open::last_link(flags))? } {
            None => return Ok(None),
            Some(Route::Elsewhere(other)) => return Ok(Some(FileAction::open(fd, self.keep(other), flags, mode))),
            Some(Route::Below(path, stat)) => (path, stat),
        };
        let file = guard(|| {
            let (description, own) = open::describe(&path, stat, flags | libc::O_CLOEXEC, mode)?;
            // A file that was made or cut is so for the child, too.
            description.flush()?;
            // SAFETY: the descriptor is new, and has no other owner.
            let fd = unsafe { OwnedFd::from_raw_fd(numbers::open_apart(|| own)) };
            Ok(FileForChild { fd, description })
        })?;
        if file.description.is_directory() {
            self.folders.insert(fd, Some(path));
        }
        let own = path_for_child(file.fd.as_raw_fd())?;
        self.files.push(file);
        let own = self.keep(own);
        Ok(Some(FileAction::open(fd, own, libc::O_PATH | flags & libc::O_CLOEXEC, 0)))
    }

    unsafe fn enter(&mut self, path: *const c_char) -> CallResult<Option<FileAction>> {
        // SAFETY: as the caller says.
        match unsafe { self.place.find(path)? } {
            None => {
                // SAFETY: as the caller says.
                let path = self.place.after(unsafe { CStr::from_ptr(path) });
                self.place.enter(path);
                Ok(None)
            }
            Some(Route::Elsewhere(other)) => {
                self.place.enter(other.to_bytes().to_vec());
                Ok(Some(FileAction::enter(self.keep(other))))
            }
            Some(Route::Below(path, _)) => self.enter_below(path),
        }
    }

    fn enter_below(&mut self, path: Vec<u8>) -> CallResult<Option<FileAction>> {
        let (stand_in, name) = guard(|| {
            current::check_directory(&path)?;
            folder::stand_in(&path)
        })?;
        self.stand_ins.push(stand_in);
        self.place.enter(shown(&path));
        Ok(Some(FileAction::enter(self.keep(name))))
    }

    /// Keeps a path for the child.
    fn keep(&mut self, text: CString) -> *const c_char {
        self.texts.push(text);
        // The text does not move with its owner.
        self.texts.last().map_or(std::ptr::null(), |text| text.as_ptr())
    }
}
