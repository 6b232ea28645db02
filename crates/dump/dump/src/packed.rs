//! Finds and reads chunks in packs.

use std::collections::BTreeMap;

use terrace::Store;

use crate::Result;
use crate::chunk::{ByHash, Hash};
use crate::manifest::{Index, Place};

/// Chunks of a pack that are at most this far apart are read at once, including the bytes between them.
const MAX_READ_GAP_BYTES: u32 = 64 << 10;
/// One read spans at most this many bytes, unless a single chunk is longer.
const MAX_JOINT_READ_BYTES: u32 = 4 << 20;

/// Fills a slice with the bytes of a pack, which its key names, from an offset on.
pub type ReadPack<'r> = dyn Fn(&str, u32, &mut [u8]) -> Result<()> + 'r;

/// The chunks of a store and their places in packs.
#[derive(Clone, Default)]
pub struct Packed {
    packs: Vec<String>,
    places: ByHash<Place>,
}

impl Packed {
    /// Adds the chunks of an index for which `wanted` returns true.
    pub fn add(&mut self, index: Index, wanted: impl Fn(&Hash) -> bool) {
        let first = self.packs.len() as u32;
        self.packs.extend(index.packs);
        let wanted = index.chunks.into_iter().filter(|(hash, _)| wanted(hash));
        self.places.extend(wanted.map(|(hash, place)| (hash, Place { pack: place.pack + first, ..place })));
    }

    /// Returns whether the place of this chunk is known.
    pub fn has(&self, hash: &Hash) -> bool {
        self.places.contains_key(hash)
    }

    /// Returns the length of a chunk, if its place is known.
    pub fn length_of(&self, hash: &Hash) -> Option<u32> {
        self.places.get(hash).map(|place| place.length)
    }

    /// Returns the pack that has a chunk, if its place is known.
    pub fn pack_of(&self, hash: &Hash) -> Option<&String> {
        self.packs.get(self.places.get(hash)?.pack as usize)
    }

    /// Builds an index of these chunks. Leaves out chunks whose place is unknown.
    pub fn index(&self, chunks: impl Iterator<Item = Hash>) -> Index {
        let mut index = Index::default();
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        for hash in chunks {
            let Some(place) = self.places.get(&hash) else { continue };
            let Some(key) = self.packs.get(place.pack as usize) else { continue };
            let pack = *numbers.entry(place.pack).or_insert_with(|| {
                index.packs.push(key.clone());
                index.packs.len() as u32 - 1
            });
            index.chunks.push((hash, Place { pack, ..*place }));
        }
        index
    }

    /// Reads chunks of a store. See [`Packed::read_by`].
    pub fn read(
        &self,
        store: &Store,
        wanted: &[Hash],
        whole: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.read_by(&|key, offset, out| Ok(read_from_pack(store, key, offset, out)?), wanted, whole)
    }

    /// Reads chunks in the order of their places and passes each intact one to `whole`, as its number in `wanted` and
    /// its bytes. Chunks that are unreadable or have a wrong hash are left out.
    pub fn read_by(
        &self,
        read: &ReadPack<'_>,
        wanted: &[Hash],
        whole: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let place = |(number, hash)| self.places.get(hash).map(|place| (*place, number));
        let mut places: Vec<(Place, usize)> = wanted.iter().enumerate().filter_map(place).collect();
        places.sort_unstable();
        let mut bytes = Vec::new();
        let mut unreadable = BTreeMap::new();
        let mut rest = &places[..];
        while let Some((first, _)) = rest.first() {
            let count = count_joint_reads(rest);
            let (now, later) = rest.split_at(count);
            rest = later;
            let end =
                now.iter().map(|(place, _)| place.offset.saturating_add(place.length)).max().unwrap_or(first.offset);
            bytes.resize((end - first.offset) as usize, 0);
            let Some(key) = self.packs.get(first.pack as usize) else { continue };
            if read(key, first.offset, &mut bytes).is_err() {
                // Read each chunk alone, so that one damaged chunk does not make its neighbours unavailable.
                for (place, number) in now {
                    let mut alone = vec![0; place.length as usize];
                    match read(key, place.offset, &mut alone) {
                        Ok(()) if Hash::of(&alone) == wanted[*number] => whole(*number, &alone)?,
                        // The chunk is left out.
                        Ok(()) => {}
                        Err(error) => unreadable.entry(key).or_insert_with(|| (0, error)).0 += 1,
                    }
                }
                continue;
            }
            for (place, number) in now {
                let start = (place.offset - first.offset) as usize;
                let chunk = &bytes[start..start + place.length as usize];
                if Hash::of(chunk) == wanted[*number] {
                    whole(*number, chunk)?;
                }
            }
        }
        for (key, (chunks, error)) in unreadable {
            tracing::warn!("{chunks} of the chunks in {key} cannot be read: {error}");
        }
        Ok(())
    }
}

/// Returns how many of these places, which are sorted, are read by one call.
fn count_joint_reads(places: &[(Place, usize)]) -> usize {
    let Some((first, _)) = places.first() else { return 0 };
    let follows = |pair: &&[(Place, usize)]| {
        let (before, next) = (pair[0].0, pair[1].0);
        next.pack == first.pack
            && next.offset <= before.offset.saturating_add(before.length).saturating_add(MAX_READ_GAP_BYTES)
            && next.offset.saturating_add(next.length)
                <= first.offset.saturating_add(MAX_JOINT_READ_BYTES.max(first.length))
    };
    1 + places.windows(2).take_while(follows).count()
}

/// Fills `out` from a pack.
fn read_from_pack(store: &Store, key: &str, offset: u32, out: &mut [u8]) -> terrace::Result<()> {
    let read = store.read_at(key.as_bytes(), u64::from(offset), out)?;
    // A pack that is shorter than its index says fails each chunk's hash.
    out[read..].fill(0);
    Ok(())
}
