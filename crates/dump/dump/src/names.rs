//! The keys of a dump's objects in a store.
//!
//! ```text
//! dumps/NAME/complete/VERSION        the dump exists
//! dumps/NAME/manifest/VERSION/RANK   the chunks that make up a rank's buffers
//! dumps/NAME/index/VERSION/RANK      the chunks of this store that the dump needs, and the packs that hold them
//! dumps/NAME/packs/VERSION/PACK      chunks in a row
//! ```

use terrace::Store;

use crate::chunk::Hash;
use crate::{Error, Result};

/// The kinds of a dump's objects.
#[derive(Clone, Copy)]
pub enum Part {
    /// The records that make versions exist.
    Complete,
    /// The manifests.
    Manifest,
    /// The indexes.
    Index,
    /// The packs of chunks.
    Packs,
    /// The records of ranks; only in archives.
    Ranks,
    /// The files of jobs that change the dump; only in archives.
    Claims,
}

/// Number of objects that one call to the store lists.
const LIST_PAGE_KEYS: usize = 1024;

/// # Errors
/// [`Error::Refused`] if the name is invalid.
pub fn check_name(name: &str) -> Result<()> {
    match name.contains('/') || terrace::key::check(name.as_bytes()).is_err() || name.len() > 255 {
        true => Err(Error::Refused(format!("{name:?} cannot be a dump's name; it is one component of a path"))),
        false => Ok(()),
    }
}

/// Returns the prefix of the keys of a part, for all versions.
pub fn part_prefix(name: &str, part: Part) -> String {
    let part = match part {
        Part::Complete => "complete",
        Part::Manifest => "manifest",
        Part::Index => "index",
        Part::Packs => "packs",
        Part::Ranks => "ranks",
        Part::Claims => "claims",
    };
    format!("dumps/{name}/{part}")
}

/// Returns whether a key is that of a pack.
pub fn is_pack(key: &str) -> bool {
    let mut parts = key.split('/');
    parts.next() == Some("dumps") && parts.nth(1) == Some("packs") && parts.count() == 2
}

/// Returns the prefix of the keys of a part, for one version.
pub fn version_prefix(name: &str, part: Part, version: u32) -> String {
    format!("{}/{version:010}", part_prefix(name, part))
}

/// Returns the key of a rank's object of a part and version.
pub fn rank_key(name: &str, part: Part, version: u32, rank: u32) -> String {
    format!("{}/{rank}", self::version_prefix(name, part, version))
}

/// Returns the name of a rank's record in an archive. It contains the record's hash, so that no job replaces that of another one.
pub fn record_name(name: &str, version: u32, rank: u32, record: &Hash) -> String {
    format!("{}-{record}", rank_key(name, Part::Ranks, version, rank))
}

/// Parses the last component of a key as a number.
pub fn parse_number(key: &str) -> Option<u32> {
    key.rsplit('/').next()?.parse().ok()
}

/// Returns the version that a key of any part belongs to.
pub fn version_of(key: &str) -> Option<u32> {
    key.split('/').nth(3)?.parse().ok()
}

/// Lists all keys below a prefix.
pub fn list_below(store: &Store, prefix: &str) -> Result<Vec<String>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    loop {
        let page = store.list(prefix.as_bytes(), keys.last().map(Vec::as_slice), LIST_PAGE_KEYS)?;
        let more = page.len() == LIST_PAGE_KEYS;
        keys.extend(page.into_iter().map(|(key, _)| key));
        if !more {
            return Ok(keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect());
        }
    }
}
