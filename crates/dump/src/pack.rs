//! Step 5: chunks go into packs, which are objects of the node's store.

use std::collections::BTreeMap;

use terrace::Store;

use crate::Result;
use crate::chunk::{ByHash, Hash};
use crate::manifest::{Index, Place, once};

/// A pack is stored once it holds so many bytes.
const PACK: usize = 8 << 20;
/// Chunks of a pack that are so near to each other are read at once, with what is between them.
const GAP: u32 = 64 << 10;
/// Bytes read at once.
const READ: u32 = 4 << 20;

/// Puts chunks into packs.
pub struct Packer<'a> {
    store: &'a Store,
    /// The keys of packs begin with it.
    prefix: String,
    packs: u32,
    pack: Vec<u8>,
    /// Chunks of `pack`.
    open: Vec<(Hash, Place)>,
    /// What it has taken, where each chunk is to be stored once.
    known: Option<ByHash<()>>,
    index: Index,
    /// Bytes of chunks put into packs.
    pub bytes: u64,
}

impl<'a> Packer<'a> {
    /// Packs under keys that begin with `prefix`; each chunk `once`, or as often as it comes.
    pub fn new(store: &'a Store, prefix: String, once: bool) -> Packer<'a> {
        let (pack, open, index) = (Vec::new(), Vec::new(), Index::default());
        Packer { store, prefix, packs: 0, pack, open, known: once.then(ByHash::default), index, bytes: 0 }
    }

    /// Takes a chunk.
    pub fn add(&mut self, hash: Hash, bytes: &[u8]) -> Result<()> {
        if self.known.as_mut().is_some_and(|known| known.insert(hash, ()).is_some()) {
            return Ok(());
        }
        if self.pack.len() + bytes.len() > PACK {
            self.close()?;
        }
        let (offset, length) = (self.pack.len() as u32, bytes.len() as u32);
        self.open.push((hash, Place { pack: self.packs, offset, length }));
        self.pack.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Stores what has gathered; where all of it is.
    pub fn finish(mut self) -> Result<Index> {
        self.close()?;
        Ok(self.index)
    }

    fn close(&mut self) -> Result<()> {
        if !self.pack.is_empty() {
            let key = format!("{}-{}", self.prefix, self.packs);
            self.store.put_bytes(key.as_bytes(), &self.pack, &once())?;
            self.index.packs.push(key);
            self.index.chunks.append(&mut self.open);
            self.packs += 1;
            self.pack.clear();
        }
        Ok(())
    }
}

/// Chunks of a store, and the packs that they are in.
#[derive(Default)]
pub struct Packed {
    packs: Vec<String>,
    places: ByHash<Place>,
}

impl Packed {
    /// Knows what an index knows, as far as `wanted` tells.
    pub fn add(&mut self, index: Index, wanted: impl Fn(&Hash) -> bool) {
        let first = self.packs.len() as u32;
        self.packs.extend(index.packs);
        let wanted = index.chunks.into_iter().filter(|(hash, _)| wanted(hash));
        self.places.extend(wanted.map(|(hash, place)| (hash, Place { pack: place.pack + first, ..place })));
    }

    /// Whether it knows a chunk.
    pub fn has(&self, hash: &Hash) -> bool {
        self.places.contains_key(hash)
    }

    /// An index of some chunks, as far as they are known.
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

    /// Reads chunks, in the order in which they lie, and hands out those that are whole: the number among `wanted`, the
    /// bytes. What cannot be read, or is not what it should be, is left out.
    pub fn read(
        &self,
        store: &Store,
        wanted: &[Hash],
        whole: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let place = |(number, hash)| self.places.get(hash).map(|place| (*place, number));
        let mut places: Vec<(Place, usize)> = wanted.iter().enumerate().filter_map(place).collect();
        places.sort_unstable();
        let mut bytes = Vec::new();
        let mut rest = &places[..];
        while let Some((first, _)) = rest.first() {
            let together = together(rest);
            let (now, later) = rest.split_at(together);
            rest = later;
            let end =
                now.iter().map(|(place, _)| place.offset.saturating_add(place.length)).max().unwrap_or(first.offset);
            bytes.resize((end - first.offset) as usize, 0);
            let Some(key) = self.packs.get(first.pack as usize) else { continue };
            if !fill(store, key, first.offset, &mut bytes) && together > 1 {
                // One damaged chunk is not to cost its neighbours.
                for (place, number) in now {
                    let mut alone = vec![0; place.length as usize];
                    if fill(store, key, place.offset, &mut alone) && Hash::of(&alone) == wanted[*number] {
                        whole(*number, &alone)?;
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
        Ok(())
    }
}

/// How many of the places, which are sorted, are read at once.
fn together(places: &[(Place, usize)]) -> usize {
    let Some((first, _)) = places.first() else { return 0 };
    let follows = |pair: &&[(Place, usize)]| {
        let (before, next) = (pair[0].0, pair[1].0);
        next.pack == first.pack
            && next.offset <= before.offset.saturating_add(before.length).saturating_add(GAP)
            && next.offset.saturating_add(next.length) <= first.offset.saturating_add(READ.max(first.length))
    };
    1 + places.windows(2).take_while(follows).count()
}

/// Fills `out` from a pack; false where that cannot be read.
fn fill(store: &Store, key: &str, offset: u32, out: &mut [u8]) -> bool {
    match store.read_at(key.as_bytes(), u64::from(offset), out) {
        Ok(read) => read == out.len(),
        Err(error) => {
            tracing::warn!("a part of a pack is lost here, other stores are asked: {error}");
            false
        }
    }
}
