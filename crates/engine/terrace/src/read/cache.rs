//! A cache of decoded and verified bytes for small reads.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::Weighter;
use quick_cache::sync::Cache as Lru;
use terrace_catalog::Extent;
use terrace_codec::Encoding;
use terrace_format::frame::{SUB_BLOCK_CODED, SUB_BLOCK_RAW, sub_block_len};

/// Identifies a chunk of a frame, which is as long as a sub-block: the frame's write, its offset in the object, and the
/// offset of the chunk's first raw byte in the frame. Frames never change, and no two writes of a store have the same
/// number.
type Key = (u64, u64, u32);

#[derive(Clone)]
struct Length;

impl Weighter<Key, Arc<[u8]>> for Length {
    fn weight(&self, _: &Key, bytes: &Arc<[u8]>) -> u64 {
        bytes.len() as u64
    }
}

/// When a chunk that is not cached is put into the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// When it is read, because reading it again takes long.
    AtOnce,
    /// When it is read again soon. Most chunks are not, and reading one takes hardly longer than caching it.
    WhenReadAgain,
}

/// The cached chunks of one process.
pub struct Cache {
    chunks: Option<Lru<Key, Arc<[u8]>, Length>>,
    /// Hashes of chunks that were read and not cached, as many as there are chunks in the cache. Relaxed: a lost one costs a read.
    read: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Cache {
    /// Creates a cache for `capacity` bytes. A capacity of 0 caches nothing.
    pub fn new(capacity: u64) -> Cache {
        let most = capacity / u64::from(sub_block_len(Encoding::NONE));
        let chunks = (most > 0).then(|| Lru::with_weighter(most as usize, capacity, Length));
        Cache { chunks, read: (0..most).map(|_| AtomicU64::new(0)).collect(), hasher: RandomState::new() }
    }

    /// Returns the most bytes of all chunks.
    pub fn capacity(&self) -> u64 {
        self.chunks.as_ref().map_or(0, Lru::capacity)
    }

    /// Returns the cached chunk with the frame's raw byte `at`, and the offset of the chunk in the frame.
    pub fn find(&self, extent: &Extent, at: u32) -> Option<(u32, Arc<[u8]>)> {
        let (write, frame) = extent.frame();
        // Which of the two lengths it has depends on the replica that it was read from.
        [SUB_BLOCK_RAW, SUB_BLOCK_CODED].into_iter().find_map(|size| {
            let start = at / size * size;
            let chunk = self.chunks.as_ref()?.get(&(write, frame, start))?;
            (chunk.len() > (at - start) as usize).then_some((start, chunk))
        })
    }

    /// Notes that a chunk was read, and returns whether it was noted before.
    fn was_read(&self, name: Key) -> bool {
        let hash = self.hasher.hash_one(name);
        let slot = self.read.get(hash as usize % self.read.len().max(1));
        slot.is_some_and(|slot| slot.swap(hash, Ordering::Relaxed) == hash)
    }

    /// Returns whether a read of this length goes through the cache: one that is shorter than a chunk.
    pub fn takes(&self, length: usize, encoding: Encoding) -> bool {
        self.chunks.is_some() && length < sub_block_len(encoding) as usize
    }

    /// Fills `out` from the frame's raw byte `skip` on. Missing chunks come from `read`, which fills its buffer from the
    /// given raw byte on: one chunk, or the rest of the frame if the chunk before is cached, because the frame is then read
    /// in order. Without a capacity, all bytes come from `read`.
    pub fn fill(
        &self,
        extent: &Extent,
        encoding: Encoding,
        caching: Caching,
        skip: u32,
        out: &mut [u8],
        mut read: impl FnMut(u32, &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let size = sub_block_len(encoding);
        let Some(chunks) = &self.chunks else { return read(skip, out) };
        let (write, frame) = extent.frame();
        let mut done = 0;
        while done < out.len() {
            let at = skip + done as u32;
            let (start, from) = (at / size * size, at % size);
            // A chunk from a replica with shorter sub-blocks may end before `from`.
            let chunk = match chunks.get(&(write, frame, start)).filter(|chunk| chunk.len() > from as usize) {
                Some(chunk) => chunk,
                None if caching == Caching::WhenReadAgain && !self.was_read((write, frame, start)) => {
                    let take = ((size - from) as usize).min(out.len() - done);
                    read(at, &mut out[done..done + take])?;
                    done += take;
                    continue;
                }
                None => {
                    let in_order = start >= size && chunks.peek(&(write, frame, start - size)).is_some();
                    let end = if in_order { extent.raw_len } else { extent.raw_len.min(start + size) };
                    let mut raw = vec![0; end.saturating_sub(start) as usize];
                    read(start, &mut raw)?;
                    for (later, bytes) in (start..).step_by(size as usize).zip(raw.chunks(size as usize)) {
                        chunks.insert((write, frame, later), bytes.into());
                    }
                    raw.truncate(size as usize);
                    raw.into()
                }
            };
            let have = chunk.get(from as usize..).filter(|have| !have.is_empty()).ok_or(io::ErrorKind::InvalidData)?;
            let take = have.len().min(out.len() - done);
            out[done..done + take].copy_from_slice(&have[..take]);
            done += take;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extent(length: u32, write: u64) -> Extent {
        Extent { offset: 0, length, skip: 0, raw_len: length, write, replicas: Default::default(), source: None }
    }

    proptest! {
        #[test]
        fn any_reads_get_the_frames_bytes(
            raw_len in 1u32..(1 << 20), capacity in prop_oneof![Just(0u64), Just(1 << 20), Just(64 << 20)],
            reads in prop::collection::vec((any::<prop::sample::Index>(), 0usize..300_000), 1..20),
        ) {
            let frames: Vec<Vec<u8>> = (0..3u32).map(|f| (0..raw_len).map(|i| (i.wrapping_mul(f + 3) >> 5) as u8).collect()).collect();
            let cache = Cache::new(capacity);
            for (at, (start, length)) in reads.iter().enumerate() {
                let frame = &frames[at % 3];
                let extent = extent(raw_len, at as u64 % 3);
                let start = start.index(raw_len as usize);
                let mut out = vec![0; (*length).min(raw_len as usize - start)];
                let encoding = if at % 2 == 0 { Encoding::NONE } else { "lz4".parse().expect("an encoding") };
                let caching = if at % 5 < 2 { Caching::AtOnce } else { Caching::WhenReadAgain };
                cache.fill(&extent, encoding, caching, start as u32, &mut out, |from, into| {
                    into.copy_from_slice(&frame[from as usize..from as usize + into.len()]);
                    Ok(())
                }).expect("fills");
                prop_assert!(out == frame[start..start + out.len()]);
            }
        }
    }

    #[test]
    fn a_frame_that_is_read_in_order_is_fetched_in_two_pieces() {
        let extent = extent(1 << 20, 1);
        let cache = Cache::new(64 << 20);
        let mut fetched = Vec::new();
        for at in (0..1 << 20).step_by(4096) {
            let read = cache.fill(
                &extent,
                "lz4".parse().expect("an encoding"),
                Caching::AtOnce,
                at,
                &mut [0; 4096],
                |from, into| {
                    fetched.push((from, into.len()));
                    Ok(())
                },
            );
            read.expect("fills");
        }
        assert_eq!(fetched, [(0, 256 << 10), (256 << 10, 768 << 10)]);
    }

    #[test]
    fn a_chunk_that_is_cheap_to_read_is_cached_when_it_is_read_again() {
        let extent = extent(1 << 20, 1);
        let cache = Cache::new(64 << 20);
        let mut read = Vec::new();
        for at in [4096, 8192, 12288, 70_000, 4096] {
            let fill = |from: u32, into: &mut [u8]| {
                read.push((from, into.len()));
                Ok(())
            };
            cache.fill(&extent, Encoding::NONE, Caching::WhenReadAgain, at, &mut [0; 100], fill).expect("fills");
        }
        assert_eq!(read, [(4096, 100), (0, 64 << 10), (70_000, 100)]);
    }
}
