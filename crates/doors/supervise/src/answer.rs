//! Answers calls from the store.

use std::ffi::c_int;
use std::sync::Arc;

use libc::mode_t;
use terrace::files::Setting;
use terrace::{Files, Kind};
use terrace_posix::{to_owner, to_stat, to_statx};
use terrace_prefix::access::{caller as owner, may_access};

use crate::calls::{CallTask, PathCall};
use crate::descriptors::CallersFile;
use crate::inode;
use crate::listener::CallReply;
use crate::listing::ShownDirectories;
use crate::memory::Caller;
use crate::pairs;
use crate::paths::{FoundPath, StorePrefix};
use crate::sieve::CallSieve;
use crate::spools::Spools;

/// An answer, or the number of the kernel's error.
type CallAnswer = Result<CallReply, c_int>;

/// The answer of calls that only succeed or fail.
const DONE_ANSWER: CallAnswer = Ok(CallReply::Value(0));

/// Answers calls, one after the other.
pub struct CallAnswers {
    /// The store's files.
    pub files: Files,
    /// Where programs see them.
    pub prefix: Arc<StorePrefix>,
    /// The files that programs have open.
    pub spools: Spools,
    /// The directories that they list.
    pub listings: ShownDirectories,
}

impl CallAnswers {
    /// Returns a sieve that holds back the calls that may have to be answered.
    pub fn sieve(&self) -> CallSieve {
        CallSieve {
            prefix: self.prefix.clone(),
            listings: self.listings.folder().into(),
            opened: self.spools.inodes.clone(),
        }
    }

    /// Answers a call. `is_waiting` says whether the memory that was read is still the caller's.
    pub fn answer(&mut self, caller: Caller, call: &PathCall, is_waiting: impl Fn() -> bool) -> CallReply {
        // Before the call's file is looked for: a closed one may have had its number.
        self.spools.place_closed(&self.files);
        let from = self.meant(caller, call);
        let to = match call.task {
            CallTask::Rename { to_dir, to, .. } => self.below(caller, to_dir, to),
            _ => None,
        };
        if from.is_none() && to.is_none() || !is_waiting() {
            return CallReply::Continue;
        }
        let answer = match (call.task, from, to) {
            (CallTask::Rename { flags, .. }, Some(from), Some(to)) => self.rename(&from, &to, flags as c_int),
            (CallTask::Rename { .. }, ..) => Err(libc::EXDEV),
            (CallTask::Open { flags, mode }, Some(path), _) => self.open(caller, &path, flags, mode),
            (CallTask::OpenAs { how }, Some(path), _) => self.open_as(caller, &path, how),
            (_, Some(path), _) => self.run(caller, call, &path),
            (_, None, _) => Ok(CallReply::Continue),
        };
        answer.unwrap_or_else(CallReply::Failure)
    }

    /// Returns the path of the store that a caller's path means. None as below.
    fn below(&self, caller: Caller, dir: c_int, address: u64) -> Option<Vec<u8>> {
        let path = caller.text(address).ok().filter(|path| !path.is_empty())?;
        self.prefix.below(caller, dir, &path, |directory| self.listings.shown(directory))
    }

    /// Returns the path of the store that a call means. None if it means something else, or if the path cannot be read: the kernel
    /// finds the mistake.
    fn meant(&self, caller: Caller, call: &PathCall) -> Option<Vec<u8>> {
        let concerns_object = call.task.concerns_object();
        let path = match call.path {
            0 => Vec::new(),
            address => caller.text(address).ok()?,
        };
        match path.as_slice() {
            b"" if concerns_object && call.dir >= 0 => self.opened(CallersFile::new(caller, call.dir)),
            b"" => None,
            path => {
                self.prefix.below(caller, call.dir, path, |directory| self.listings.shown(directory)).or_else(|| {
                    let means_file = call.follows && (concerns_object || call.task.opens_to_write());
                    let named = if means_file { CallersFile::named(caller, call.dir, path) } else { None };
                    named.and_then(|file| self.opened(file))
                })
            }
        }
    }

    /// Returns the path of the store that a caller's open file has there.
    fn opened(&self, file: CallersFile) -> Option<Vec<u8>> {
        let path = self.spools.path_of(&file.metadata()?);
        path.map(<[u8]>::to_vec).or_else(|| self.listings.shown(&file.link()?))
    }

    fn find(&mut self, path: &[u8], follows: bool) -> Result<FoundPath, c_int> {
        let mut found = self.prefix.resolve(&self.files, path, follows)?;
        if let Some(stat) = &mut found.stat {
            self.spools.show(&found.path, stat);
        }
        Ok(found)
    }

    fn open_as(&mut self, caller: Caller, path: &[u8], how: u64) -> CallAnswer {
        let mut words = [[0; 8]; 3];
        caller.read(how, words.as_flattened_mut())?;
        let [flags, mode, resolve] = words.map(u64::from_ne_bytes);
        // Programs that limit how paths are resolved know kernels without it.
        if resolve != 0 { Err(libc::ENOSYS) } else { self.open(caller, path, flags as c_int, mode as u32) }
    }

    fn open(&mut self, caller: Caller, path: &[u8], flags: c_int, mode: u32) -> CallAnswer {
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            return Err(libc::EOPNOTSUPP);
        }
        let (creates, exclusive) = (flags & libc::O_CREAT != 0, flags & libc::O_EXCL != 0);
        let follows = !(creates && exclusive) && flags & libc::O_NOFOLLOW == 0;
        let FoundPath { path, stat } = self.find(path, follows)?;
        let closes_on_exec = flags & libc::O_CLOEXEC != 0;
        let give = |fd| Ok(CallReply::Descriptor(fd, closes_on_exec));
        let Some(stat) = stat else {
            if !creates {
                return Err(libc::ENOENT);
            }
            let file = self.files.create(&path, mode & !caller.mask(), owner(), exclusive).map_err(|e| e.errno())?;
            let stat = file.stat().map_err(|e| e.errno())?;
            return give(self.spools.open(&self.files, &path, &stat, flags)?);
        };
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
        match stat.kind {
            _ if creates && exclusive => Err(libc::EEXIST),
            Kind::Directory if writes || creates => Err(libc::EISDIR),
            Kind::Directory => give(self.listings.open(&self.files, &path, flags)?),
            _ if flags & libc::O_DIRECTORY != 0 => Err(libc::ENOTDIR),
            Kind::Symlink => Err(libc::ELOOP),
            Kind::File if stat.special.is_some() => Err(libc::ENXIO),
            Kind::File => {
                let reads = flags & libc::O_ACCMODE != libc::O_WRONLY;
                let wanted = if reads { libc::R_OK } else { 0 } | if writes { libc::W_OK } else { 0 };
                if flags & libc::O_PATH == 0 && !may_access(&stat, wanted) {
                    return Err(libc::EACCES);
                }
                give(self.spools.open(&self.files, &path, &stat, flags)?)
            }
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8], flags: c_int) -> CallAnswer {
        if flags & !(libc::RENAME_NOREPLACE as c_int) != 0 {
            return Err(libc::EINVAL);
        }
        let (from, to) = (self.find(from, false)?.path, self.find(to, false)?.path);
        self.files.rename(&from, &to, flags == 0).map_err(|error| error.errno())?;
        self.spools.rename(&from, &to);
        DONE_ANSWER
    }

    /// Carries out a call with one path that opens nothing.
    fn run(&mut self, caller: Caller, call: &PathCall, path: &[u8]) -> CallAnswer {
        let FoundPath { path, stat } = self.find(path, call.follows)?;
        let there = || stat.clone().ok_or(libc::ENOENT);
        let free = || if stat.is_some() { Err(libc::EEXIST) } else { Ok(()) };
        let done = |result: terrace::files::FileResult<()>| result.map_err(|error| error.errno());
        let device = libc::makedev(0, (self.files.store().id() as u32) | 1 << 31);
        match call.task {
            CallTask::Stat { out } => caller.write_value(out, &to_stat(&there()?, &path, device))?,
            CallTask::StatX { out } => caller.write_value(out, &to_statx(&there()?, &path, device))?,
            CallTask::Access { wanted } => {
                if !may_access(&there()?, wanted) {
                    return Err(libc::EACCES);
                }
            }
            CallTask::Remove { is_directory } => {
                there()?;
                let removed = if is_directory { self.files.remove_directory(&path) } else { self.files.remove(&path) };
                done(removed)?;
                self.spools.remove(&path);
            }
            CallTask::MakeDirectory { mode } => {
                free()?;
                done(self.files.make_directory(&path, mode & !caller.mask(), owner()))?;
            }
            CallTask::MakeLink { to } => {
                free()?;
                done(self.files.make_link(&path, &caller.text(to)?, owner()))?;
            }
            CallTask::ReadLink { out, size } => {
                if there()?.kind != Kind::Symlink {
                    return Err(libc::EINVAL);
                }
                let mut to = self.files.read_link(&path).map_err(|error| error.errno())?;
                to.truncate(usize::try_from(size).unwrap_or(usize::MAX));
                caller.write(out, &to)?;
                return Ok(CallReply::Value(to.len() as i64));
            }
            CallTask::SetLength { length } => {
                let length = u64::try_from(length).map_err(|_| libc::EINVAL)?;
                if call.path != 0 {
                    self.spools.set_length(&self.files, &path, length)?;
                } else {
                    if CallersFile::new(caller, call.dir).is_writable() {
                        self.spools.set_known_length(&self.files, &path, length)?;
                    }
                    // The kernel does the same with the spool, whose mode may forbid it to others, and finds the caller's mistakes.
                    return Ok(CallReply::Continue);
                }
            }
            CallTask::SetMode { mode } => {
                self.set(caller, call, &path, &Setting { mode: Some(mode as mode_t & 0o7777), ..Setting::default() })?;
            }
            CallTask::SetOwner { user, group } => self.set(caller, call, &path, &to_owner(user, group))?,
            CallTask::SetTimes { times, form } => self.set(caller, call, &path, &form.read(caller, times)?)?,
            CallTask::Pairs(task) => return pairs::answer(&self.files, caller, &path, task).map(CallReply::Value),
            CallTask::MakeHardLink => return Err(libc::EPERM),
            CallTask::Open { .. } | CallTask::OpenAs { .. } | CallTask::Rename { .. } => {
                return Ok(CallReply::Continue);
            }
        }
        DONE_ANSWER
    }

    /// Changes attributes of the object, and of the file that programs have open instead.
    fn set(&mut self, caller: Caller, call: &PathCall, path: &[u8], setting: &Setting) -> Result<(), c_int> {
        let stat = self.files.set(path, setting).map_err(|error| error.errno())?;
        let is_done = self.spools.set(path, setting)?;
        if !is_done && call.path == 0 && stat.kind == Kind::File {
            inode::set(&CallersFile::new(caller, call.dir).name(), setting)?;
        }
        Ok(())
    }
}
