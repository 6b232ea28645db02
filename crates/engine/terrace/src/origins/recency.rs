//! When cached bytes of origins were last read: those that were not read for the longest time make room first.
//!
//! All processes of a store share a table of words. It is only a hint: two extents may want one word, and the later one then has it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use terrace_system::words::Words;
use xxhash_rust::xxh3::xxh3_64;

/// The number of extents whose last reads are known.
const SLOT_COUNT: usize = 1 << 16;
/// The number of words: the first one counts the reads.
const WORD_COUNT: usize = SLOT_COUNT + 1;
/// The low bits of a slot's word are the number of the read, and the others belong to the extent that has the slot.
const CLOCK_BITS: u32 = 48;

/// The last reads of extents, by their objects and offsets.
pub(crate) struct Recency {
    path: PathBuf,
    /// Opened by the first read of an origin's file. Relaxed loads and stores everywhere: the words order nothing else.
    words: OnceLock<Words<WORD_COUNT>>,
}

impl Recency {
    /// Returns the last reads of the store in `dir`.
    pub fn of(dir: &Path) -> Recency {
        Recency { path: dir.join("origin-reads"), words: OnceLock::new() }
    }

    /// Notes that the extents at these offsets of an object are read.
    pub fn touch(&self, object: u64, offsets: impl Iterator<Item = u64>) {
        let [clock, slots @ ..] = self.words().all();
        let now = (clock.fetch_add(1, Ordering::Relaxed) + 1) & ((1 << CLOCK_BITS) - 1);
        for offset in offsets {
            let (slot, tag) = slot_of(object, offset);
            slots[slot].store(tag << CLOCK_BITS | now, Ordering::Relaxed);
        }
    }

    /// Returns the number of the last read of the extent at an offset. 0 if it is not known.
    pub fn last_read(&self, object: u64, offset: u64) -> u64 {
        let [_, slots @ ..] = self.words().all();
        let (slot, tag) = slot_of(object, offset);
        let word = slots[slot].load(Ordering::Relaxed);
        if word >> CLOCK_BITS == tag { word & ((1 << CLOCK_BITS) - 1) } else { 0 }
    }

    fn words(&self) -> &Words<WORD_COUNT> {
        self.words.get_or_init(|| Words::open(&self.path))
    }
}

/// Returns the slot of an extent, and what tells it from the others that have the same slot.
fn slot_of(object: u64, offset: u64) -> (usize, u64) {
    let [first, second] = [object, offset].map(u64::to_le_bytes);
    let hash = xxh3_64(&[first, second].concat());
    ((hash % SLOT_COUNT as u64) as usize, hash >> CLOCK_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_see_which_extents_were_read_last() {
        let dir = tempfile::tempdir().expect("a folder");
        let (one, two) = (Recency::of(dir.path()), Recency::of(dir.path()));
        one.touch(1, [0, 100].into_iter());
        two.touch(2, [0].into_iter());
        one.touch(1, [0].into_iter());
        let last = |object, offset| two.last_read(object, offset);
        assert!(last(1, 100) < last(2, 0) && last(2, 0) < last(1, 0));
        assert_eq!((last(1, 50), last(3, 0)), (0, 0));
    }
}
