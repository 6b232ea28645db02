//! Encodes chunks for transfer: a letter lists its chunks and then holds their bytes in the same order.

use crate::chunk::{Chunk, Hash};
use crate::exchange::Letter;
use crate::{Error, Result};

/// Length of the field that holds the number of names.
const COUNT_FIELD_BYTES: usize = 4;
/// Length of a name: the chunk's hash and its length.
const CHUNK_NAME_BYTES: usize = Hash::LENGTH_BYTES + 4;

/// Encodes the head of a letter with these chunks.
pub fn head<'a>(chunks: impl ExactSizeIterator<Item = &'a Chunk<'a>>) -> Vec<u8> {
    let mut head = Vec::with_capacity(COUNT_FIELD_BYTES + chunks.len() * CHUNK_NAME_BYTES);
    head.extend((chunks.len() as u32).to_le_bytes());
    for chunk in chunks {
        head.extend(chunk.hash.0);
        head.extend((chunk.bytes.len() as u32).to_le_bytes());
    }
    head
}

/// Returns a letter with this head and these chunks.
pub fn letter<'a>(to: u32, head: &'a [u8], chunks: impl Iterator<Item = &'a Chunk<'a>>) -> Letter<'a> {
    Letter { to, parts: std::iter::once(head).chain(chunks.map(|chunk| chunk.bytes)).collect() }
}

/// Decodes a letter as its bytes arrive.
#[derive(Default)]
pub struct Opened {
    /// Received bytes that are not decoded yet.
    waiting: Vec<u8>,
    /// The names of chunks that are still to come, the next one last; `None` until the head is complete.
    names: Option<Vec<(Hash, u32)>>,
}

impl Opened {
    /// Takes the next bytes of the letter and passes each chunk that they complete to `whole`.
    pub fn add(&mut self, mut bytes: &[u8], whole: &mut dyn FnMut(Hash, &[u8]) -> Result<()>) -> Result<()> {
        if self.names.is_none() {
            self.waiting.extend_from_slice(bytes);
            let Some(head) = self.decode_head()? else { return Ok(()) };
            let rest = self.waiting.split_off(head);
            self.waiting.clear();
            return self.add(&rest, whole);
        }
        let names = self.names.get_or_insert_default();
        while let Some((hash, length)) = names.last().copied() {
            let missing = (length as usize).saturating_sub(self.waiting.len());
            if bytes.len() < missing {
                self.waiting.extend_from_slice(bytes);
                return Ok(());
            }
            let (now, later) = bytes.split_at(missing);
            if self.waiting.is_empty() {
                whole(hash, now)?;
            } else {
                self.waiting.extend_from_slice(now);
                whole(hash, &self.waiting)?;
                self.waiting.clear();
            }
            names.pop();
            bytes = later;
        }
        match bytes.is_empty() {
            true => Ok(()),
            false => Err(Error::damaged("a letter of chunks", format!("{} bytes too many", bytes.len()))),
        }
    }

    /// Decodes the head, if it is complete, and returns its length.
    fn decode_head(&mut self) -> Result<Option<usize>> {
        let Some((count, names)) = self.waiting.split_first_chunk::<COUNT_FIELD_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*count) as usize * CHUNK_NAME_BYTES;
        let Some(names) = names.get(..length) else { return Ok(None) };
        let name = |name: &[u8]| {
            let (hash, length) = name.split_first_chunk()?;
            Some((Hash(*hash), u32::from_le_bytes(length.try_into().ok()?)))
        };
        let names: Option<Vec<_>> = names.chunks_exact(CHUNK_NAME_BYTES).rev().map(name).collect();
        self.names = Some(names.ok_or_else(|| Error::damaged("a letter of chunks", "its names are cut off"))?);
        Ok(Some(COUNT_FIELD_BYTES + length))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn chunks_survive_any_cut_of_a_letter(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..10),
            cuts in prop::collection::vec(1usize..60, 1..50),
        ) {
            let chunks: Vec<Chunk<'_>> = chunks.iter().map(|bytes| Chunk { hash: Hash::of(bytes), bytes }).collect();
            let head = head(chunks.iter());
            let whole = letter(0, &head, chunks.iter()).parts.concat();
            let (mut opened, mut out) = (Opened::default(), Vec::new());
            let mut rest = &whole[..];
            for cut in cuts.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*cut));
                opened.add(now, &mut |hash, bytes| {
                    out.push((hash, bytes.to_vec()));
                    Ok(())
                }).expect("whole");
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(out, chunks.iter().map(|c| (c.hash, c.bytes.to_vec())).collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_can_be_received(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Opened::default().add(&bytes, &mut |_, _| Ok(()));
        }
    }
}
