//! The mark of the store's directory that uses a target: a directory, or one on a service.
//!
//! A store that is made again from a bucket has the id of the lost one, and names the same blobs and segments. The mark tells the two directories
//! apart, so that the lost one changes nothing if it comes back.

use std::fmt::Display;
use std::io;
use std::path::Path;

use terrace_system::{read_regular, replace_durably};

/// The file of a store's directory with its mark.
pub const OWNER_FILE: &str = "owner";
/// The file or blob of a target with the mark of the store's directory that uses it.
pub const TARGET_OWNER_FILE: &str = "terrace-owner";

/// The mark of a store's directory, as a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerMark(String);

impl OwnerMark {
    /// The mark of a new directory on `host`. It takes the place of the directory with the mark `before`, and of those before that.
    pub fn new(host: &str, number: u64, before: Option<&OwnerMark>) -> OwnerMark {
        let mut text = format!("host {host}\nowner {number:016x}\n");
        let numbers = before.into_iter().flat_map(|mark| mark.values("owner").chain(mark.values("before")));
        numbers.for_each(|number| text.push_str(&format!("before {number}\n")));
        OwnerMark(text)
    }

    /// The mark with these bytes, which may be damaged: then it is that of no directory.
    pub fn read(bytes: &[u8]) -> OwnerMark {
        OwnerMark(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Reads the mark in a store's directory. None where several directories may use a target.
    ///
    /// # Errors
    /// If a file is there that cannot be read.
    pub fn of_home(home: &Path) -> io::Result<Option<OwnerMark>> {
        OwnerMark::read_file(&home.join(OWNER_FILE))
    }

    /// Reads the mark of the directory that uses the target in the directory `root`. None if no mark is there.
    ///
    /// # Errors
    /// If a file is there that cannot be read.
    pub fn of_target(root: &Path) -> io::Result<Option<OwnerMark>> {
        OwnerMark::read_file(&root.join(TARGET_OWNER_FILE))
    }

    fn read_file(path: &Path) -> io::Result<Option<OwnerMark>> {
        match read_regular(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(io::Error::new(e.kind(), format!("reading {}: {e}", path.display()))),
            Ok(mark) => Ok(Some(OwnerMark::read(&mark))),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        self.0.clone().into_bytes()
    }

    /// The machine of the directory.
    pub fn host(&self) -> &str {
        self.values("host").next().unwrap_or("another machine")
    }

    /// Returns whether it was written to its end.
    pub fn is_whole(&self) -> bool {
        self.values("owner").any(|number| number.len() == 16) && self.0.ends_with('\n')
    }

    /// Returns whether this directory may replace a mark that was found: one of a directory in whose place it is, or its own one that was not
    /// written to its end.
    pub fn may_replace(&self, found: &OwnerMark) -> bool {
        let is_cut = found.0.len() < self.0.len() && self.0.starts_with(&found.0);
        is_cut || found.values("owner").any(|number| self.values("before").any(|before| before == number))
    }

    /// The error of a store's directory for a target that the directory with this mark uses. `mark` says where that is.
    pub(crate) fn refuse(&self, target: impl Display, mark: &str) -> io::Error {
        let reason = format!(
            "{target} is used by another directory of this store, on {}, such as one that `terrace rebuild --from` has made; use that one, and delete this one by `rm -r`: `terrace destroy` would empty the targets that the other one has not opened yet. If the other one is gone for good, remove {mark}",
            self.host()
        );
        io::Error::new(io::ErrorKind::NotConnected, reason)
    }

    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.lines().filter_map(move |line| line.strip_prefix(name)?.strip_prefix(' '))
    }
}

/// Checks that the store's directory `home` is the one that uses the target in the directory `root`, or may replace that.
///
/// # Errors
/// `NotConnected` if another directory of the store uses it.
pub fn check_owner(home: &Path, root: &Path) -> io::Result<()> {
    owner_to_note(home, root).map(drop)
}

/// Takes the target in the directory `root` for the store's directory `home`, unless another directory of the store uses it. The caller
/// prevents that two directories do this at the same time.
///
/// # Errors
/// `NotConnected` if another directory of the store uses it.
pub(crate) fn take_owner(home: &Path, root: &Path) -> io::Result<()> {
    let Some(own) = owner_to_note(home, root)? else { return Ok(()) };
    // Durable: otherwise a power cut would give the target back to a directory that this one has replaced. A full or read-only target keeps
    // the mark that it has, and is marked by a later opener.
    if let Err(error) = replace_durably(&root.join(TARGET_OWNER_FILE), own.bytes()) {
        tracing::debug!(target = %root.display(), %error, "could not note on this target which directory uses it");
    }
    Ok(())
}

/// Returns the mark that is to be written on the target. None if it is there, or if several directories may use the target.
fn owner_to_note(home: &Path, root: &Path) -> io::Result<Option<OwnerMark>> {
    let (own, found) = (OwnerMark::of_home(home)?, OwnerMark::of_target(root)?);
    match found {
        Some(found) if own.as_ref() == Some(&found) => Ok(None),
        // A directory without a mark was written again by hand, or comes from before there were marks: nobody knows whether it is the newer.
        Some(found) if !own.as_ref().is_some_and(|own| own.may_replace(&found)) => {
            Err(found.refuse(root.display(), &format!("the file {}", root.join(TARGET_OWNER_FILE).display())))
        }
        _ => Ok(own),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_replaces_the_marks_of_those_before_it_only() {
        let first = OwnerMark::new("a", 1, None);
        let second = OwnerMark::new("b", 2, Some(&first));
        let third = OwnerMark::new("c", 3, Some(&second));
        assert!(third.may_replace(&first) && third.may_replace(&second) && second.may_replace(&first));
        assert!(!first.may_replace(&second) && !second.may_replace(&third) && !second.may_replace(&second));
        let other = OwnerMark::new("a", 4, None);
        assert!(!third.may_replace(&other) && !other.may_replace(&third));
        let text = third.bytes();
        for end in 0..text.len() {
            let cut = OwnerMark::read(&text[..end]);
            assert!(third.may_replace(&cut), "its own, cut at {end}");
            assert!(!other.may_replace(&cut) || end <= "host ".len(), "another's, cut at {end}");
        }
        assert_eq!((OwnerMark::read(&text), third.host()), (third.clone(), "c"));
        assert!(third.is_whole() && !OwnerMark::read(b"host a\nowner 00").is_whole());
    }
}
