//! Lists the entries directly below a directory, whether the directory is an object itself or only a part of longer keys.

use std::ops::Bound;

use terrace_format::Object;

use super::{Catalog, decode, keys};
use crate::Result;

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The last component of its key.
    pub name: Vec<u8>,
    /// The object of that key. `None` for a directory that exists only as a part of longer keys.
    pub object: Option<Object>,
}

impl Catalog {
    /// Returns up to `limit` names directly below `folder` (empty: the root), starting at the position `from` (empty: the
    /// beginning), and the position of the next page, or `None` at the end. Deeper keys are skipped without being read.
    pub fn children(&self, folder: &[u8], from: &[u8], limit: usize) -> Result<(Vec<Child>, Option<Vec<u8>>)> {
        let inside = inside(folder);
        let env = self.env()?;
        let txn = env.read_txn()?;
        let mut at = keys::object(if from.is_empty() { &inside } else { from });
        let mut found = Vec::new();
        loop {
            let next = env.records.range(&txn, &(Bound::Included(at.as_slice()), Bound::Unbounded))?.next();
            let Some((record, value)) = next.transpose()? else { return Ok((found, None)) };
            let key = record.strip_prefix(&[keys::OBJECT_LETTER]).filter(|key| key.starts_with(&inside));
            let Some(key) = key else { return Ok((found, None)) };
            if found.len() == limit {
                return Ok((found, Some(key.to_vec())));
            }
            let rest = &key[inside.len()..];
            match rest.iter().position(|&byte| byte == b'/') {
                None => {
                    found.push(Child { name: rest.to_vec(), object: Some(decode(value, "an object's record")?) });
                    at = keys::object(key);
                    at.push(0);
                }
                Some(end) => {
                    let own = &key[..inside.len() + end];
                    if env.records.get(&txn, &keys::object(own))?.is_none() {
                        found.push(Child { name: rest[..end].to_vec(), object: None });
                    }
                    // Behind all keys that begin with `own/`.
                    at = keys::object(own);
                    at.push(b'/' + 1);
                }
            }
        }
    }

    /// Returns whether any key is below `folder`.
    pub fn holds_any(&self, folder: &[u8]) -> Result<bool> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let start = keys::object(&inside(folder));
        let next = env.records.get_greater_than_or_equal_to(&txn, &start)?;
        Ok(next.is_some_and(|(found, _)| found.starts_with(&start)))
    }
}

/// The prefix of all keys below a folder.
fn inside(folder: &[u8]) -> Vec<u8> {
    match folder {
        b"" => Vec::new(),
        _ => [folder, b"/"].concat(),
    }
}
