//! Which encoding for which bytes on which tier: by trying each on a sample.

use std::time::Instant;

use terrace_codec::{self as codec, CodecId, Element, Encoding, Transform};

use crate::store::Tier;

/// The sample that is tried: enough to tell, little against a block.
const SAMPLE: usize = 16 << 10;
/// A choice serves this many blocks of a stream.
const BLOCKS: u32 = 16;
/// Shorter extents are not worth a trial; the stream's last choice, or none, serves.
const WORTH: usize = 8 << 10;
/// On tiers this fast, in bytes per second, no encoding earns its time.
const TOO_FAST: f64 = 2e9;

/// The choices for one stream of extents, one for each tier.
pub(crate) struct Chooser {
    element: Option<Element>,
    chosen: Vec<(usize, Encoding, u32)>,
}

impl Chooser {
    /// For bytes whose element type may be known.
    pub fn new(element: Option<Element>) -> Chooser {
        Chooser { element, chosen: Vec::new() }
    }

    /// The encoding with the least time to write and read back once on the tier, measured on a sample of `raw`.
    pub fn choose(&mut self, raw: &[u8], level: usize, tier: &Tier) -> Encoding {
        if tier.speed.1 >= TOO_FAST || raw.len() < WORTH {
            return Encoding::NONE;
        }
        if let Some((_, encoding, left)) = self.chosen.iter_mut().find(|(l, _, left)| *l == level && *left > 0) {
            *left -= 1;
            return *encoding;
        }
        let best = self.trial(raw, tier);
        self.chosen.retain(|(l, ..)| *l != level);
        self.chosen.push((level, best, BLOCKS - 1));
        best
    }

    fn trial(&self, raw: &[u8], tier: &Tier) -> Encoding {
        let middle = (raw.len().saturating_sub(SAMPLE) / 2) & !31;
        let sample = &raw[middle..raw.len().min(middle + SAMPLE)];
        let io = |bytes: usize| bytes as f64 / tier.speed.1 + bytes as f64 / tier.speed.0;
        let mut best = (io(sample.len()), Encoding::NONE);
        let (mut scratch, mut stored, mut back) = (codec::Scratch::default(), Vec::new(), vec![0; sample.len()]);
        for encoding in self.candidates() {
            // The first run warms caches and contexts.
            let warm = codec::encode(encoding, sample, &mut stored, &mut scratch);
            if !matches!(warm, Ok(Some(_))) {
                continue;
            }
            let start = Instant::now();
            let Ok(Some(length)) = codec::encode(encoding, sample, &mut stored, &mut scratch) else { continue };
            if codec::decode(encoding, &stored, &mut back, &mut scratch).is_err() {
                continue;
            }
            let cost = start.elapsed().as_secs_f64() + io(length);
            if cost < best.0 {
                best = (cost, encoding);
            }
        }
        best.1
    }

    fn candidates(&self) -> Vec<Encoding> {
        let codecs = [(CodecId::Lz4, 0), (CodecId::Zstd, 1), (CodecId::Zstd, 3)];
        let with = |transform, element| codecs.map(|(codec, level)| Encoding { transform, element, codec, level });
        let mut all = with(Transform::None, Element::Bytes).to_vec();
        if let Some(element) = self.element {
            all.extend(with(Transform::Shuffle, element));
        }
        all
    }
}
