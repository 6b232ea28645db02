//! Under which keys a dump's objects lie in a store.
//!
//! ```text
//! dumps/NAME/complete/VERSION        the dump exists
//! dumps/NAME/manifest/VERSION/RANK   of which chunks a rank's buffers are made
//! dumps/NAME/index/VERSION/RANK      what of this store the dump needs, and in which packs it is
//! dumps/NAME/packs/VERSION/PACK      chunks in a row
//! ```

use terrace::Store;

use crate::{Error, Result};

/// What is kept of a dump.
#[derive(Clone, Copy)]
pub enum Part {
    /// That it exists.
    Complete,
    /// What buffers are made of.
    Manifest,
    /// Where chunks are.
    Index,
    /// Chunks.
    Packs,
}

/// Objects listed at a time.
const PAGE: usize = 1024;

/// # Errors
/// [`Error::Refused`] where no dump can have the name.
pub fn check(name: &str) -> Result<()> {
    match name.contains('/') || terrace::key::check(name.as_bytes()).is_err() || name.len() > 255 {
        true => Err(Error::Refused(format!("{name:?} cannot be a dump's name; it is one component of a path"))),
        false => Ok(()),
    }
}

/// All of a part of a dump's versions.
pub fn all(name: &str, part: Part) -> String {
    let part = match part {
        Part::Complete => "complete",
        Part::Manifest => "manifest",
        Part::Index => "index",
        Part::Packs => "packs",
    };
    format!("dumps/{name}/{part}")
}

/// A part of a version.
pub fn version(name: &str, part: Part, version: u32) -> String {
    format!("{}/{version:010}", all(name, part))
}

/// A rank's share of a part of a version.
pub fn share(name: &str, part: Part, version: u32, rank: u32) -> String {
    format!("{}/{rank}", self::version(name, part, version))
}

/// What comes after the last `/` of a key, as a number.
pub fn number(key: &str) -> Option<u32> {
    key.rsplit('/').next()?.parse().ok()
}

/// The version that a key of any part belongs to.
pub fn version_of(key: &str) -> Option<u32> {
    key.split('/').nth(3)?.parse().ok()
}

/// All keys below a prefix.
pub fn below(store: &Store, prefix: &str) -> Result<Vec<String>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    loop {
        let page = store.list(prefix.as_bytes(), keys.last().map(Vec::as_slice), PAGE)?;
        let more = page.len() == PAGE;
        keys.extend(page.into_iter().map(|(key, _)| key));
        if !more {
            return Ok(keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect());
        }
    }
}
