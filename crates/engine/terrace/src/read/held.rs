//! Chunks that open files hold: a small read near the one before it copies memory, and looks up nothing.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_catalog::{Extent, Moment, Object};

use super::cache::Cache;

/// A verified chunk of the cache that an open file holds, with the range of an object that it was at a moment of the catalog.
///
/// A frame never changes, so a chunk stays right for ever; the moment tells whether the object still consists of this frame here.
pub(crate) struct HeldChunk {
    bytes: Arc<[u8]>,
    /// The offset in the object of the first of these bytes.
    start: u64,
    /// The part of the object that is in these bytes.
    visible: Range<u64>,
    moment: Moment,
    /// The number of bytes that were read from it and not yet counted as read from the object.
    uncounted_bytes: u64,
    account: HeldAccount,
}

/// The bytes that all held chunks have. They stay in memory when the cache drops them.
#[derive(Clone, Default)]
pub(crate) struct HeldAccount(Arc<AtomicU64>);

impl HeldChunk {
    /// Takes the chunk with these bytes of an object from the cache, if one extent and one chunk have them all, and the held chunks are not
    /// more than the cache may have. `moment` was read before the extents.
    pub fn take(
        cache: &Cache,
        account: &HeldAccount,
        moment: Moment,
        (object, extents): (&Object, &[Extent]),
        range: Range<u64>,
    ) -> Option<HeldChunk> {
        let [extent] = extents else { return None };
        if range.is_empty() || range.start < extent.offset || extent.end() < range.end || object.length < range.end {
            return None;
        }
        let (at, bytes) = cache.find(extent, (range.start - extent.frame_offset()) as u32)?;
        let start = extent.frame_offset() + u64::from(at);
        let end = (start + bytes.len() as u64).min(extent.end()).min(object.length);
        let visible = start.max(extent.offset)..end;
        if visible.end < range.end || !account.add(bytes.len() as u64, cache.capacity()) {
            return None;
        }
        Some(HeldChunk { bytes, start, visible, moment, uncounted_bytes: 0, account: account.clone() })
    }

    /// Returns the bytes from `offset` on, if it has as many and the object still has them at this moment.
    pub fn lend(&self, moment: Moment, offset: u64, length: usize) -> Option<(Arc<[u8]>, Range<usize>)> {
        let end = offset.checked_add(length as u64)?;
        if moment != self.moment || offset < self.visible.start || self.visible.end < end {
            return None;
        }
        Some((self.bytes.clone(), (offset - self.start) as usize..(end - self.start) as usize))
    }

    /// Counts bytes that were read from it. Returns a range of the object that now counts as read: the whole chunk, whenever as many bytes were
    /// read.
    pub fn count(&mut self, length: usize) -> Option<Range<u64>> {
        self.uncounted_bytes += length as u64;
        let whole = self.visible.end - self.visible.start;
        (self.uncounted_bytes >= whole).then(|| {
            self.uncounted_bytes -= whole;
            self.visible.clone()
        })
    }

    /// Returns the range of the object that counts as read when the chunk is not held any more.
    pub fn count_rest(&self) -> Range<u64> {
        self.visible.start..self.visible.start + self.uncounted_bytes
    }
}

impl Drop for HeldChunk {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

impl HeldAccount {
    /// Adds bytes, unless there would be more than `most`. Relaxed: the number orders nothing.
    fn add(&self, length: u64, most: u64) -> bool {
        let added = self.0.fetch_add(length, Ordering::Relaxed) + length <= most;
        if !added {
            self.0.fetch_sub(length, Ordering::Relaxed);
        }
        added
    }
}

#[cfg(test)]
mod tests {
    use crate::files::{File, Owner};
    use crate::store::LOOKUP_COUNT;
    use crate::{Config, Files, Store};

    const REQUEST_BYTES: usize = 4096;
    const FILE_BYTES: usize = 1 << 20;
    /// The bytes of a chunk of raw bytes.
    const CHUNK_BYTES: usize = 64 << 10;

    /// Reads all of a file in short requests, and returns the number of look-ups.
    fn read_all(file: &File, expected: &[u8]) -> u64 {
        let before = LOOKUP_COUNT.get();
        for (at, part) in expected.chunks(REQUEST_BYTES).enumerate() {
            let mut out = [0; REQUEST_BYTES];
            assert_eq!(file.read_at((at * REQUEST_BYTES) as u64, &mut out).expect("reads"), part.len());
            assert!(out == part);
        }
        LOOKUP_COUNT.get() - before
    }

    #[test]
    fn short_reads_again_through_one_handle_look_up_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let text = format!(
            "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'only'\nkind = 'directory'\ntargets = ['{}']\n",
            dir.path().join("tier").display()
        );
        let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "test").expect("parses"));
        let store = store.expect("a store");
        // A sync mark of the background is a change.
        let _lock = store.engine.locks.wait_for_mover().expect("the lock");
        let files = Files::new(&store).expect("its files");
        let noise: Vec<u8> = (0..FILE_BYTES as u32).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        let file = files.create(b"f", 0o644, Owner { uid: 0, gid: 0 }, true).expect("a file");
        file.write_at(0, &noise).expect("writes");
        file.flush().expect("writes");
        let requests = (FILE_BYTES / REQUEST_BYTES) as u64;
        let first = read_all(&file, &noise);
        assert!(first < requests / 4, "{first} look-ups for {requests} reads");
        let again = read_all(&file, &noise);
        assert!(again <= (FILE_BYTES / CHUNK_BYTES) as u64, "{again} look-ups for {requests} reads");
        // One place of the file, again and again.
        let before = LOOKUP_COUNT.get();
        for _ in 0..1000 {
            file.read_at(70_000, &mut [0; REQUEST_BYTES]).expect("reads");
        }
        assert!(LOOKUP_COUNT.get() - before <= 1);
        // A change of anything is looked at once, and then not again.
        files.create(b"other", 0o644, Owner { uid: 0, gid: 0 }, true).expect("a file");
        let before = LOOKUP_COUNT.get();
        for _ in 0..1000 {
            file.read_at(70_000, &mut [0; REQUEST_BYTES]).expect("reads");
        }
        assert!((1..=2).contains(&(LOOKUP_COUNT.get() - before)));
        // What was read is counted, as if each read had been by itself.
        drop(file);
        let score = store_score(&files);
        assert!(score > 4.0, "{score}");
    }

    /// Returns how often the file's bytes were read, with less weight for reads long ago.
    fn store_score(files: &Files) -> f64 {
        files.store().engine.hotness.score(b"f", 0, FILE_BYTES as u64)
    }
}
