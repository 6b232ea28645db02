//! [`Streams`]: what was learned about each stream of bytes.

use std::collections::HashMap;

use terrace_codec::Element;
use terrace_predict::{Memory, Predictor, StudiedStream, series};

/// The number of streams that are remembered; the least recently used one is forgotten first.
const MAX_STREAMS: usize = 1024;

/// The remembered streams, by the hash that `name_stream` returns.
#[derive(Default)]
pub(crate) struct Streams {
    /// Used streams, each with the value of `uses` at its last use.
    known: HashMap<u64, (u64, StudiedStream)>,
    /// Saved streams that have not been used yet.
    saved: HashMap<u64, Memory>,
    /// The number of uses so far.
    uses: u64,
}

/// The saved parts of streams, by the same hash.
pub(crate) type Memories = Vec<(u64, Memory)>;

impl Streams {
    /// Takes saved streams.
    pub fn recall(memories: Memories) -> Streams {
        Streams { saved: memories.into_iter().take(MAX_STREAMS).collect(), ..Streams::default() }
    }

    /// Returns the stream to which the bytes of a key belong, or a new one.
    pub fn of(&mut self, key: &str, element: Option<Element>, predictor: &Predictor) -> &mut StudiedStream {
        let name = name_stream(key, element);
        if self.known.len() >= MAX_STREAMS && !self.known.contains_key(&name) {
            let oldest = self.known.iter().min_by_key(|(_, (used, _))| *used).map(|(name, _)| *name);
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        self.uses += 1;
        let saved = &mut self.saved;
        let (used, stream) = self.known.entry(name).or_insert_with(|| match saved.remove(&name) {
            Some(memory) => (0, StudiedStream::recall(element, predictor, &memory)),
            None => (0, StudiedStream::new(element)),
        });
        *used = self.uses;
        stream
    }

    /// Returns the stream of a key, if it is known.
    pub fn find(&mut self, key: &str, element: Option<Element>) -> Option<&mut StudiedStream> {
        self.known.get_mut(&name_stream(key, element)).map(|(_, stream)| stream)
    }

    /// Returns the number of streams.
    pub fn count(&self) -> usize {
        self.known.len() + self.saved.len()
    }

    /// Returns the parts of the streams to save: the most recently used stream first, and those that were not used last.
    pub fn remember(&self, predictor: &Predictor) -> Memories {
        let mut known: Vec<_> = self.known.iter().collect();
        known.sort_by_key(|(_, (used, _))| std::cmp::Reverse(*used));
        let known = known.into_iter().map(|(name, (_, stream))| (*name, stream.remember(predictor)));
        let mut saved: Vec<_> = self.saved.iter().map(|(name, memory)| (*name, memory.clone())).collect();
        saved.sort_by_key(|(name, _)| *name);
        known.chain(saved).filter(|(_, memory)| !memory.is_empty()).take(MAX_STREAMS).collect()
    }
}

/// Returns the hash that identifies the stream of a key with elements of this type.
fn name_stream(key: &str, element: Option<Element>) -> u64 {
    series(key.as_bytes(), element.map_or(0, |element| element as u64 + 1))
}
