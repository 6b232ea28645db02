//! The keys of a dataset's objects.

use terrace_views::model::Replica;

use crate::{Error, Result};

/// The folder that holds all datasets.
pub const DATASETS_FOLDER: &str = "datasets";
/// The name of the object that holds a declaration. It cannot collide with a replica's name: no such name begins with a
/// dot.
pub const DECLARATION_NAME: &str = ".declaration";
const MAX_NAME_BYTES: usize = 200;

/// Checks that a name is valid for a dataset or for a replica's file.
pub fn check_name(name: &str) -> Result<()> {
    let reason = match name {
        "" => Some("it is empty"),
        name if name.starts_with('.') => Some("it begins with a dot"),
        name if name.contains(['/', '\0']) => Some("it contains a slash or a zero byte"),
        name if name.len() > MAX_NAME_BYTES => Some("it is longer than 200 bytes"),
        _ => None,
    };
    match reason {
        Some(reason) => Err(Error::BadName { name: name.to_owned(), reason }),
        None => Ok(()),
    }
}

/// Returns the folder of a dataset.
pub fn dataset_folder(dataset: &str) -> String {
    format!("{DATASETS_FOLDER}/{dataset}")
}

/// Returns the name of the dataset in whose folder a key is.
pub fn dataset_of(key: &[u8]) -> Option<&str> {
    let mut names = key.split(|byte| *byte == b'/');
    let folder = names.next().filter(|first| *first == DATASETS_FOLDER.as_bytes());
    std::str::from_utf8(folder.and(names.next())?).ok()
}

/// Returns the key of a dataset's declaration.
pub fn declaration_key(dataset: &str) -> Vec<u8> {
    format!("{DATASETS_FOLDER}/{dataset}/{DECLARATION_NAME}").into_bytes()
}

/// Returns the name of a replica's file or, if the replica has several files, of their folder.
pub fn file_name(replica: &Replica) -> &str {
    replica.file.as_deref().unwrap_or(&replica.name)
}

/// Returns the key of a replica's file, or the folder of its files.
pub fn replica_key(dataset: &str, replica: &Replica) -> String {
    format!("{DATASETS_FOLDER}/{dataset}/{}", file_name(replica))
}

/// Returns the key of one file of a replica. If the replica has `several` files, their keys end in their numbers.
pub fn file_key(dataset: &str, of: &Replica, number: usize, several: bool) -> Vec<u8> {
    let key = replica_key(dataset, of);
    if several { format!("{key}/{number}").into_bytes() } else { key.into_bytes() }
}
