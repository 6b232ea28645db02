//! The keys of the log's pages.

use std::collections::VecDeque;

use terrace::Store;

use crate::{Error, Result};

/// A page: the sequence of its first request, and the number of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub first: u64,
    pub count: u64,
}

impl Page {
    /// The sequence after its last request.
    pub fn end(&self) -> u64 {
        self.first + self.count
    }

    /// Its key below `folder`. The order of keys is the order of sequences.
    pub fn key(&self, folder: &[u8]) -> Vec<u8> {
        [folder, format!("/{:016x}-{:x}", self.first, self.count).as_bytes()].concat()
    }

    pub fn parse(key: &[u8], folder: &[u8]) -> Option<Page> {
        let name = std::str::from_utf8(key.strip_prefix(folder)?.strip_prefix(b"/")?).ok()?;
        let (first, count) = name.split_once('-')?;
        let (first, count) = (u64::from_str_radix(first, 16).ok()?, u64::from_str_radix(count, 16).ok()?);
        // The end of a page is a sequence, too.
        first.checked_add(count)?;
        Some(Page { first, count })
    }
}

/// A cursor that lists each page once.
#[derive(Default)]
pub struct Pages {
    last: Option<Vec<u8>>,
}

impl Pages {
    /// Lists all pages after the last one that was listed or noted.
    pub fn list_new(&mut self, store: &Store, folder: &[u8]) -> Result<Vec<Page>> {
        let mut pages = Vec::new();
        loop {
            let listed = self.list_some(store, folder, 1024)?;
            if listed.is_empty() {
                return Ok(pages);
            }
            pages.extend(listed);
        }
    }

    /// Like [`Pages::list_new`], but lists at most `limit` pages.
    pub fn list_some(&mut self, store: &Store, folder: &[u8], limit: usize) -> Result<VecDeque<Page>> {
        let listed = store.list(folder, self.last.as_deref(), limit)?;
        let parse = |key: &[u8]| {
            let what = || format!("the key {:?}", String::from_utf8_lossy(key));
            Page::parse(key, folder).ok_or_else(|| Error::damaged(what(), "it is no page of the log"))
        };
        let pages = listed.iter().map(|(key, _)| parse(key)).collect::<Result<_>>()?;
        self.last = listed.into_iter().next_back().map(|(key, _)| key).or(self.last.take());
        Ok(pages)
    }

    /// Notes the key of a page that this process has just appended, so that it is not listed.
    pub fn note_appended(&mut self, key: Vec<u8>) {
        self.last = Some(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of the first sequence and the count overflowed.
    #[test]
    fn pages_end_at_a_sequence() {
        let page = Page { first: 0x20, count: 3 };
        assert_eq!(Page::parse(&page.key(b"s"), b"s"), Some(page));
        assert_eq!(Page::parse(b"s/ffffffffffffffff-1", b"s"), None);
        assert_eq!(Page::parse(b"s/20-", b"s"), None);
    }
}
