//! Decides whether a path leads below the prefix, and to which path of the store.

use std::ffi::c_int;

use terrace::Files;
use terrace::files::Stat;
use terrace_prefix::route::{self, LastLink, Route, behind_prefix};

use crate::descriptors::CallersFile;
use crate::memory::Caller;

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

    /// Returns the path of the store that a caller's path means. None if it leads elsewhere. Symbolic links are not resolved. `shown` returns
    /// the path of the store that a directory of the kernel's stands for.
    pub fn below(
        &self,
        caller: Caller,
        dir: c_int,
        path: &[u8],
        shown: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> Option<Vec<u8>> {
        if path.first() == Some(&b'/') {
            return self.behind(path);
        }
        let base = CallersFile::new(caller, dir).link()?;
        match shown(&base) {
            Some(directory) => {
                let whole = [self.prefix.as_slice(), b"/", &directory, b"/", path].concat();
                self.behind(&whole)
            }
            None => self.behind(&[base.as_slice(), b"/", path].concat()),
        }
    }

    /// Returns the part of an absolute path behind the prefix, without names that mean nothing. `..` does not lead above the prefix, where
    /// the kernel would find no way back to it.
    fn behind(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rest =
            |path: &[u8]| behind_prefix(&self.prefix, path).map(|rest| rest.get(1..).unwrap_or_default().to_vec());
        // The one comparison that most calls pay.
        if !has_detours(path) {
            return rest(path);
        }
        let floor = names(&self.prefix, &[]);
        rest(&names(path, &floor).iter().fold(Vec::new(), |whole, name| [whole.as_slice(), b"/", name].concat()))
    }

    /// Follows the symbolic links of a path.
    ///
    /// # Errors
    /// The number of the kernel's error; `EXDEV` for a link that leads out of the store.
    pub fn resolve(&self, files: &Files, path: &[u8], follows: bool) -> Result<FoundPath, c_int> {
        let last = if follows { LastLink::Follow } else { LastLink::Keep };
        match route::resolve(files, &self.prefix, Vec::new(), path, last) {
            Ok(Route::Below(path, stat)) => Ok(FoundPath { path, stat }),
            Ok(Route::Elsewhere(_)) => Err(libc::EXDEV),
            Err(error) => Err(error.errno()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_name_by_name() {
        let prefix = StorePrefix::new(b"/terrace/");
        let behind = |path: &[u8]| prefix.behind(path);
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
