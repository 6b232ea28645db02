//! Which encoding for which bytes on which tier: by trying each on a sample.

use std::collections::HashMap;
use std::time::Instant;

use parking_lot::Mutex;
use terrace_codec::{self as codec, CodecId, Element, Encoding, Transform};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::store::Device;

/// The sample that is tried: enough to tell, little against a block.
const SAMPLE: usize = 16 << 10;
/// Shorter extents are not worth a trial; the stream's last choice, or none, serves.
const WORTH: usize = 8 << 10;
/// Of the time that a stream's bytes take to write, this share may go into trials.
const EFFORT: f64 = 0.1;
/// Seconds that a trial takes, before one was run.
const TRIAL: f64 = 1e-3;
/// Streams remembered.
const STREAMS: usize = 1024;

/// What was chosen for each stream: files of one folder and ending, on one tier.
#[derive(Default)]
pub(crate) struct Choices(Mutex<HashMap<(u64, usize), Choice>>);

#[derive(Clone, Copy)]
struct Choice {
    encoding: Encoding,
    /// Seconds that writing this stream has taken since the last trial.
    earned: f64,
    /// Seconds that the last trial took.
    trial: f64,
}

/// Chooses for one stream of extents.
pub(crate) struct Chooser<'a> {
    choices: &'a Choices,
    stream: u64,
    element: Option<Element>,
}

impl Choices {
    /// For the bytes of `key`, whose element type may be known.
    pub fn of(&self, key: &[u8], element: Option<Element>) -> Chooser<'_> {
        let folder = key.iter().rposition(|&b| b == b'/').map_or(&[][..], |at| &key[..at]);
        let ending =
            key.iter().rposition(|&b| b == b'.').filter(|&at| at > folder.len()).map_or(&[][..], |at| &key[at..]);
        let seed = element.map_or(0, |e| e as u64 + 1);
        let stream = xxh3_64_with_seed(ending, xxh3_64_with_seed(folder, seed));
        Chooser { choices: self, stream, element }
    }
}

impl Chooser<'_> {
    /// The encoding with the least time to write and read back once on the device, measured on a sample of `raw`; or
    /// what was found for the stream before, until another trial is earned.
    pub fn choose(&self, raw: &[u8], device: &Device) -> Encoding {
        let mut choices = self.choices.0.lock();
        if choices.len() > STREAMS {
            choices.clear();
        }
        let at = (self.stream, device.tier);
        let choice = choices.entry(at).or_insert(Choice { encoding: Encoding::NONE, earned: 0.0, trial: TRIAL });
        choice.earned += device.writing.time(raw.len());
        if raw.len() < WORTH || choice.earned * EFFORT < choice.trial {
            return choice.encoding;
        }
        choice.earned = 0.0;
        drop(choices);
        let start = Instant::now();
        let encoding = self.trial(raw, device);
        let trial = start.elapsed().as_secs_f64();
        self.choices.0.lock().insert(at, Choice { encoding, earned: 0.0, trial });
        encoding
    }

    fn trial(&self, raw: &[u8], device: &Device) -> Encoding {
        let middle = (raw.len().saturating_sub(SAMPLE) / 2) & !31;
        let sample = &raw[middle..raw.len().min(middle + SAMPLE)];
        let io = |bytes: usize| bytes as f64 / device.writing.rate() + bytes as f64 / device.reading.rate();
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
