//! Where a dataset's objects are.

use terrace_views::model::Replica;

use crate::{Error, Result};

/// The folder of all datasets.
pub const FOLDER: &str = "datasets";
/// The name of a declaration's object. No replica's begins with a dot.
pub const DECLARATION: &str = ".declaration";
const LONGEST: usize = 200;

/// Checks that a name can be a dataset's or a replica file's.
pub fn check(name: &str) -> Result<()> {
    let reason = match name {
        "" => Some("it is empty"),
        name if name.starts_with('.') => Some("it begins with a dot"),
        name if name.contains(['/', '\0']) => Some("it contains a slash or a zero byte"),
        name if name.len() > LONGEST => Some("it is longer than 200 bytes"),
        _ => None,
    };
    match reason {
        Some(reason) => Err(Error::BadName { name: name.to_owned(), reason }),
        None => Ok(()),
    }
}

/// The folder of a dataset.
pub fn folder(dataset: &str) -> String {
    format!("{FOLDER}/{dataset}")
}

/// The key of a dataset's declaration.
pub fn declaration(dataset: &str) -> Vec<u8> {
    format!("{FOLDER}/{dataset}/{DECLARATION}").into_bytes()
}

/// The name of a replica's file or, where it has several, of their folder.
pub fn file_name(replica: &Replica) -> &str {
    replica.file.as_deref().unwrap_or(&replica.name)
}

/// The key of a replica, or the folder of its files.
pub fn replica(dataset: &str, replica: &Replica) -> String {
    format!("{FOLDER}/{dataset}/{}", file_name(replica))
}

/// The key of a replica's file; `several` are numbered.
pub fn file(dataset: &str, of: &Replica, number: usize, several: bool) -> Vec<u8> {
    let key = replica(dataset, of);
    if several { format!("{key}/{number}").into_bytes() } else { key.into_bytes() }
}
