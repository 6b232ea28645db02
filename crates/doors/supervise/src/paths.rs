//! Decides whether a path leads below the prefix, and to which path of the store.

use std::ffi::c_int;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use terrace::files::{FileError, Stat};
use terrace::{Files, Kind};

use crate::listing::ShownDirectories;
use crate::memory::Caller;

/// The number of symbolic links in a path after which the kernel gives up, too.
const MAX_LINKS: usize = 40;

/// Where programs see the store.
pub struct StorePrefix {
    /// The path below which they see it, without a slash at its end.
    prefix: Vec<u8>,
}

/// The end of a path of the store.
pub struct FoundPath {
    /// The path, in which no symbolic link is left to be followed.
    pub path: Vec<u8>,
    /// The attributes of what is there.
    pub stat: Option<Stat>,
}

impl StorePrefix {
    /// Programs see the store below this absolute path.
    pub fn new(prefix: &[u8]) -> StorePrefix {
        let end = prefix.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
        StorePrefix { prefix: prefix[..end].to_vec() }
    }

    /// Returns the path of the store that a caller's path means. None if it leads elsewhere. Symbolic links are not resolved.
    pub fn below(&self, caller: Caller, dir: c_int, path: &[u8], listings: &ShownDirectories) -> Option<Vec<u8>> {
        if path.first() == Some(&b'/') {
            return self.behind_prefix(path);
        }
        let base = current_of(caller, dir)?;
        match listings.shown(&base) {
            Some(directory) => {
                let whole = [self.prefix.as_slice(), b"/", &directory, b"/", path].concat();
                self.behind_prefix(&whole)
            }
            None => self.behind_prefix(&[base.as_slice(), b"/", path].concat()),
        }
    }

    /// Returns the part of an absolute path behind the prefix, without names that mean nothing. `..` does not lead above the prefix, where
    /// the kernel would find no way back to it.
    fn behind_prefix(&self, path: &[u8]) -> Option<Vec<u8>> {
        self.behind_prefix_from(path, &names(&self.prefix, &[]))
    }

    /// The same, where `..` does not lead above `floor`.
    fn behind_prefix_from(&self, path: &[u8], floor: &[&[u8]]) -> Option<Vec<u8>> {
        let is_below = |path: &[u8]| {
            let rest = path.strip_prefix(self.prefix.as_slice())?;
            (rest.is_empty() || rest.starts_with(b"/")).then_some(rest.to_vec())
        };
        // The one comparison that most calls pay.
        if !has_detours(path) {
            return is_below(path).map(|rest| rest.get(1..).unwrap_or_default().to_vec());
        }
        let whole = names(path, floor).iter().fold(Vec::new(), |whole, name| [whole.as_slice(), b"/", name].concat());
        is_below(&whole).map(|rest| rest.get(1..).unwrap_or_default().to_vec())
    }

    /// Follows the symbolic links of a path.
    ///
    /// # Errors
    /// The number of the kernel's error; `EXDEV` for a link that leads out of the store.
    pub fn resolve(&self, files: &Files, path: &[u8], follows: bool) -> Result<FoundPath, c_int> {
        let mut todo: Vec<Vec<u8>> = names(path, &[]).into_iter().rev().map(<[u8]>::to_vec).collect();
        let (mut here, mut links) = (Vec::new(), 0);
        let mut stat = Some(stat_of(files, b"")?.ok_or(libc::EIO)?);
        while let Some(name) = todo.pop() {
            if stat.as_ref().is_none_or(|stat| stat.kind != Kind::Directory) {
                return Err(if stat.is_some() { libc::ENOTDIR } else { libc::ENOENT });
            }
            let next = if here.is_empty() { name.clone() } else { [here.as_slice(), b"/", &name].concat() };
            stat = stat_of(files, &next)?;
            let is_link = stat.as_ref().is_some_and(|stat| stat.kind == Kind::Symlink);
            if !is_link || todo.is_empty() && !follows {
                here = next;
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(libc::ELOOP);
            }
            let to = files.read_link(&next).map_err(|error| error.errno())?;
            let shown = [self.prefix.as_slice(), b"/", &here, b"/", &to].concat();
            let to = if to.starts_with(b"/") { &to } else { &shown };
            let to = self.behind_prefix_from(to, &[]).ok_or(libc::EXDEV)?;
            todo.extend(names(&to, &[]).into_iter().rev().map(<[u8]>::to_vec));
            here.clear();
            stat = Some(stat_of(files, b"")?.ok_or(libc::EIO)?);
        }
        Ok(FoundPath { path: here, stat })
    }
}

/// Whether a path has to be taken apart before it can be compared.
fn has_detours(path: &[u8]) -> bool {
    let mut names = path.split(|&byte| byte == b'/').skip(1);
    names.any(|name| matches!(name, b"" | b"." | b".."))
}

/// Returns the names of a path, without those that mean nothing, and without those that `..` leads back from. It does not lead back from
/// `floor`.
fn names<'a>(path: &'a [u8], floor: &[&[u8]]) -> Vec<&'a [u8]> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in path.split(|&byte| byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." if names == floor => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names
}

fn stat_of(files: &Files, path: &[u8]) -> Result<Option<Stat>, c_int> {
    match files.stat(path) {
        Ok(stat) => Ok(Some(stat)),
        Err(FileError::NotFound(_)) => Ok(None),
        Err(error) => Err(error.errno()),
    }
}

/// Returns the directory from which a relative path leads on.
fn current_of(caller: Caller, dir: c_int) -> Option<Vec<u8>> {
    let link = match dir {
        libc::AT_FDCWD => format!("/proc/{}/cwd", caller.number()),
        dir => format!("/proc/{}/fd/{dir}", caller.number()),
    };
    fs::read_link(link).ok().map(PathBuf::into_os_string).map(OsStringExt::into_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_name_by_name() {
        let prefix = StorePrefix::new(b"/terrace/");
        let behind = |path: &[u8]| prefix.behind_prefix(path);
        assert_eq!(behind(b"/terrace"), Some(b"".to_vec()));
        assert_eq!(behind(b"/terrace/a/b"), Some(b"a/b".to_vec()));
        assert_eq!(behind(b"//terrace/./a//b/../c"), Some(b"a/c".to_vec()));
        assert_eq!(behind(b"/tmp/../terrace/a"), Some(b"a".to_vec()));
        assert_eq!(behind(b"/terrace/../a"), Some(b"a".to_vec()));
        assert_eq!(behind(b"/other/../../a"), None);
        assert_eq!(behind(b"/terraces/a"), None);
        assert_eq!(behind(b"/"), None);
    }
}
