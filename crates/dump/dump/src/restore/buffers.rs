//! Buffers that are filled with chunks as these arrive.

use std::collections::BTreeMap;

use crate::Lost;
use crate::chunk::{ByHash, Hash};
use crate::manifest::{Complete, Held, Manifest, Position};

/// The buffers of some ranks.
pub struct Buffers {
    buffers: BTreeMap<u32, Vec<Vec<u8>>>,
    manifests: BTreeMap<u32, Manifest>,
    /// The positions of each chunk that has not arrived.
    places: ByHash<Vec<(u32, Position)>>,
    /// Ranges that are lost because their rank's manifest is.
    lost: Vec<Lost>,
}

impl Buffers {
    /// Allocates the buffers of the wanted ranks, for the manifests that are left.
    pub fn new(wanted: &[u32], complete: &Complete, manifests: BTreeMap<u32, Manifest>) -> Buffers {
        let mut places: ByHash<Vec<(u32, Position)>> = ByHash::default();
        let (mut buffers, mut lost) = (BTreeMap::new(), Vec::new());
        for rank in wanted {
            let lengths = complete.buffers.get(*rank as usize).map_or(&[][..], Vec::as_slice);
            let manifest = manifests.get(rank);
            for position in manifest.and_then(|manifest| manifest.positions().ok()).into_iter().flatten() {
                if let Some(held) = manifest.and_then(|manifest| manifest.chunks.get(position.chunk as usize)) {
                    places.entry(held.hash).or_default().push((*rank, position));
                }
            }
            if manifest.is_none() {
                lost.extend(Lost::all_of(complete, *rank));
            }
            buffers.insert(*rank, lengths.iter().map(|length| vec![0; *length as usize]).collect());
        }
        Buffers { buffers, manifests, places, lost }
    }

    /// Returns the chunks that the buffers consist of.
    pub fn chunks(&self) -> impl Iterator<Item = &Held> {
        self.manifests.values().flat_map(|manifest| &manifest.chunks)
    }

    /// Copies a chunk to all its positions.
    pub fn fill(&mut self, hash: &Hash, bytes: &[u8]) {
        for (rank, at) in self.places.remove(hash).unwrap_or_default() {
            let buffer = self.buffers.get_mut(&rank).and_then(|buffers| buffers.get_mut(at.buffer as usize));
            let place = buffer.and_then(|buffer| buffer.get_mut(at.start as usize..at.start as usize + bytes.len()));
            if let Some(place) = place {
                place.copy_from_slice(bytes);
            }
        }
    }

    /// Returns the buffers and the lost ranges.
    pub fn finish(self) -> (BTreeMap<u32, Vec<Vec<u8>>>, Vec<Lost>) {
        let lost = self.places.values().flatten().map(|(rank, at)| Lost::of(*rank, *at)).chain(self.lost);
        let ranges = Lost::join(lost.collect());
        (self.buffers, ranges)
    }
}
