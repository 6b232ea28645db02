//! Entries of directories.

use terrace::Kind;
use terrace::files::Special;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The number that the entry has, or would get.
    pub number: u64,
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// The type of a special file.
    pub special: Option<Special>,
    /// Its name.
    pub name: Vec<u8>,
}

impl Listed {
    pub(crate) fn view(number: u64, kind: Kind, name: String) -> Listed {
        Listed { number, kind, special: None, name: name.into_bytes() }
    }
}
