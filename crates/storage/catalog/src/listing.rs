//! Lists the names of a key space in byte order: by prefix and delimiter, page by page.

use std::collections::BTreeSet;
use std::ops::Bound;

use terrace_format::key::{self, KeySpace};
use terrace_format::{Attributes, Kind, ORIGIN_ATTRIBUTE, Object};

use super::{Catalog, decode, keys};
use crate::Result;

/// Selects a page of the names in a key space.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameListing<'a> {
    /// List only names that begin with these bytes.
    pub prefix: &'a [u8],
    /// Names with this delimiter behind the prefix are listed once, as the common prefix up to and with the delimiter. Empty: each
    /// name is listed.
    pub delimiter: &'a [u8],
    /// List only names and common prefixes that are greater, in byte order, than this, the last of the page before.
    pub after: Option<&'a [u8]>,
    /// List at most this many names and common prefixes.
    pub limit: usize,
}

/// A page of names and common prefixes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamePage {
    /// Names with their objects, in byte order.
    pub names: Vec<(Vec<u8>, Object)>,
    /// Common prefixes, in byte order.
    pub common_prefixes: Vec<Vec<u8>>,
    /// Where the next page begins: its [`NameListing::after`]. `None` at the end.
    pub next: Option<Vec<u8>>,
    /// Records that were read for this page. Names below a common prefix are skipped, so this is about the length of the page,
    /// unless there are many directories or expired objects.
    pub records_read: usize,
}

impl NamePage {
    fn length(&self) -> usize {
        self.names.len() + self.common_prefixes.len()
    }

    /// The greatest name or common prefix.
    fn last(&self) -> Option<Vec<u8>> {
        self.names.last().map(|(name, _)| name).max(self.common_prefixes.last()).cloned()
    }
}

impl NameListing<'_> {
    /// The common prefix that stands for a name; `None` if the name is listed itself.
    fn common_prefix<'n>(&self, name: &'n [u8]) -> Option<&'n [u8]> {
        let rest = name.strip_prefix(self.prefix)?;
        let mut places = rest.windows(self.delimiter.len().max(1));
        let at = places.position(|bytes| bytes == self.delimiter)?;
        Some(&name[..self.prefix.len() + at + self.delimiter.len()])
    }

    /// Returns whether an object is a folder of an origin, which is a common prefix even if nothing is known in it.
    fn shows_folder(&self, object: &Object) -> bool {
        let Attributes { kind, user, .. } = &object.attributes;
        *kind == Kind::Directory && self.delimiter == b"/" && user.contains_key(ORIGIN_ATTRIBUTE)
    }

    /// The common prefixes of folders that come after the start, although the folders' own names do not: `a/` comes after `a-b`.
    fn folders_before_start(&self) -> Vec<Vec<u8>> {
        let Some(after) = self.after.filter(|after| after.starts_with(self.prefix) && self.delimiter == b"/") else {
            return Vec::new();
        };
        let ends = self.prefix.len().max(1)..after.len();
        let ends = ends.filter(|end| after[*end] < b'/' && !after[self.prefix.len()..*end].contains(&b'/'));
        ends.map(|end| [&after[..end], b"/"].concat()).collect()
    }

    /// The bound of the first record; `None` if nothing can follow.
    fn start(&self, space: &KeySpace) -> Option<Bound<keys::Key>> {
        let record = |name: &[u8]| keys::object(&space.position(name));
        let Some(after) = self.after.filter(|after| *after >= self.prefix) else {
            return Some(Bound::Included(record(self.prefix)));
        };
        match self.common_prefix(after) {
            // The common prefix is not above `after`, so it was on an earlier page.
            Some(common) => Some(Bound::Included(record(&key::after_prefix(common)?))),
            None => Some(Bound::Excluded(record(after))),
        }
    }

    /// The bound behind the last record that may be listed.
    fn end(&self, space: &KeySpace) -> keys::Key {
        let after = key::after_prefix(self.prefix).map(|name| space.position(&name));
        keys::object(&after.unwrap_or_else(|| space.end()))
    }
}

impl Catalog {
    /// A page of the names of files in `space` that have not expired at `now` (nanoseconds since 1970). Directories and symbolic
    /// links are not listed, nor keys that are no escape of a name (docs/keys.md).
    pub fn list_names(&self, space: &KeySpace, listing: &NameListing<'_>, now: u64) -> Result<NamePage> {
        let mut page = NamePage::default();
        let Some(mut start) = listing.start(space).filter(|_| listing.limit > 0) else { return Ok(page) };
        let end = listing.end(space);
        let env = self.env()?;
        let txn = env.read_txn()?;
        // The common prefixes of folders of origins, in which nothing need be known yet. Other names may come before them.
        let mut folders = BTreeSet::new();
        for common in listing.folders_before_start() {
            let folder = space.position(&common[..common.len() - 1]);
            if self.object_in(&env, &txn, &folder)?.is_some_and(|object| listing.shows_folder(&object)) {
                folders.insert(common);
            }
        }
        'seek: loop {
            let bounds = (start.as_ref().map(keys::Key::as_slice), Bound::Excluded(end.as_slice()));
            for entry in env.records.range(&txn, &bounds)? {
                let (record, value) = entry?;
                page.records_read += 1;
                let Some(name) = record.get(1..).and_then(|key| space.name(key)) else { continue };
                let object: Object = decode(value, "an object's record")?;
                if listing.shows_folder(&object) {
                    let common = [&name, listing.delimiter].concat();
                    let common = listing
                        .common_prefix(&common)
                        .filter(|common| listing.after.is_none_or(|after| *common > after));
                    folders.extend(common.map(<[u8]>::to_vec));
                    continue;
                }
                while let Some(first) = folders.first().filter(|first| **first < name).cloned() {
                    folders.remove(&first);
                    if page.length() == listing.limit {
                        page.next = page.last();
                        return Ok(page);
                    }
                    let behind = key::after_prefix(&first).filter(|_| name.starts_with(&first));
                    page.common_prefixes.push(first);
                    if let Some(behind) = behind {
                        start = Bound::Included(keys::object(&space.position(&behind)));
                        continue 'seek;
                    }
                }
                if object.attributes.kind != Kind::File || object.attributes.is_expired(now) {
                    continue;
                }
                if page.length() == listing.limit {
                    page.next = page.last();
                    return Ok(page);
                }
                let Some(common) = listing.common_prefix(&name) else {
                    page.names.push((name, object));
                    continue;
                };
                page.common_prefixes.push(common.to_vec());
                let Some(behind) = key::after_prefix(common) else { return Ok(page) };
                start = Bound::Included(keys::object(&space.position(&behind)));
                continue 'seek;
            }
            for folder in folders {
                if page.length() == listing.limit {
                    page.next = page.last();
                    return Ok(page);
                }
                page.common_prefixes.push(folder);
            }
            return Ok(page);
        }
    }
}
