//! The open files of the processes that ask.

use std::ffi::c_int;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::memory::Caller;

/// The names of the standard descriptors.
const STANDARD_NAMES: [&[u8]; 3] = [b"/dev/stdin", b"/dev/stdout", b"/dev/stderr"];

/// An open file of a process, or its current directory.
pub struct CallersFile {
    process: String,
    fd: c_int,
}

impl CallersFile {
    /// The file of a descriptor; the current directory for `AT_FDCWD`.
    pub fn new(caller: Caller, fd: c_int) -> CallersFile {
        CallersFile { process: caller.number().to_string(), fd }
    }

    /// The open file that a path names, such as `/proc/self/fd/3`.
    pub fn named(caller: Caller, dir: c_int, path: &[u8]) -> Option<CallersFile> {
        let own = |fd: usize| Some(CallersFile::new(caller, c_int::try_from(fd).ok()?));
        let digits = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<usize>().ok();
        if let Some(number) = digits(path) {
            let folder = CallersFile::new(caller, dir).link()?;
            return CallersFile::named(caller, dir, &[folder.as_slice(), b"/", number.to_string().as_bytes()].concat());
        }
        if let Some(fd) = STANDARD_NAMES.iter().position(|name| *name == path) {
            return own(fd);
        }
        if let Some(fd) = path.strip_prefix(b"/dev/fd/") {
            return own(digits(fd)?);
        }
        let mut names = path.strip_prefix(b"/proc/")?.split(|&byte| byte == b'/');
        match (names.next()?, names.next()?, digits(names.next()?)?, names.next()) {
            (b"self" | b"thread-self", b"fd", fd, None) => own(fd),
            (process, b"fd", fd, None) => {
                Some(CallersFile { process: digits(process)?.to_string(), fd: c_int::try_from(fd).ok()? })
            }
            _ => None,
        }
    }

    /// Returns a path by which this process reaches the file.
    pub fn name(&self) -> String {
        match self.fd {
            libc::AT_FDCWD => format!("/proc/{}/cwd", self.process),
            fd => format!("/proc/{}/fd/{fd}", self.process),
        }
    }

    /// Returns the path that the kernel knows of it.
    pub fn link(&self) -> Option<Vec<u8>> {
        fs::read_link(self.name()).ok().map(PathBuf::into_os_string).map(OsStringExt::into_vec)
    }

    /// Returns its attributes.
    pub fn metadata(&self) -> Option<Metadata> {
        fs::metadata(self.name()).ok()
    }

    /// Whether the process may write it.
    pub fn is_writable(&self) -> bool {
        let told = fs::read_to_string(format!("/proc/{}/fdinfo/{}", self.process, self.fd)).unwrap_or_default();
        let flags = told.lines().find_map(|line| c_int::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
        flags.is_some_and(|flags| matches!(flags & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_open_files_are_told_from_others() {
        let caller = Caller::new(7);
        let named = |path: &[u8]| CallersFile::named(caller, libc::AT_FDCWD, path).map(|file| file.name());
        assert_eq!(named(b"/proc/self/fd/12").as_deref(), Some("/proc/7/fd/12"));
        assert_eq!(named(b"/proc/9/fd/1").as_deref(), Some("/proc/9/fd/1"));
        assert_eq!(named(b"/dev/fd/0").as_deref(), Some("/proc/7/fd/0"));
        assert_eq!(named(b"/dev/stdout").as_deref(), Some("/proc/7/fd/1"));
        let others =
            [&b"/proc/self/fd/"[..], b"/proc/self/fd/1/x", b"/proc/self/maps", b"/dev/null", b"/proc/x/fd/1", b"file"];
        assert!(others.iter().all(|path| named(path).is_none()));
    }
}
