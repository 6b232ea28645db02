//! Which encoding for which bytes on which tier: what the predictor expects to be the least time to write and read back.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use terrace_codec::{Element, Encoding};
use terrace_plan::policy::Weights;
use terrace_predict::analyze::Elements;
use terrace_predict::{Choice, Objective, Outcome, Predictor, Stream, Tier, thread_seconds};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Wish;
use super::append::append_to;
use crate::catalog::Replica;
use crate::frame::Identity;
use crate::store::Device;

/// Shorter extents are not worth a thought: the stream's last choice serves.
const WORTH: usize = 8 << 10;
/// To devices that take so many bytes in a second nothing is gained by encoding.
const FAST: f64 = 1e9;
/// Unless hardly anything but the bytes stored matters: the ratio has at least this weight.
const DENSE: f64 = 0.8;
/// How often what is written is taken to be read.
const READS: f64 = 1.0;
/// Streams remembered.
const STREAMS: usize = 1024;

/// What was learned of each stream: files of one folder and ending, on one tier.
pub(crate) struct Choices {
    streams: Mutex<HashMap<Name, Arc<Mutex<Known>>>>,
    /// Made when first needed, from what is kept in the store's directory.
    predictor: OnceLock<Mutex<Predictor>>,
    kept: PathBuf,
}

/// A stream's name, hashed, and the tier.
type Name = (u64, usize);

/// A stream, and what was chosen for it last.
struct Known {
    stream: Stream,
    choice: Option<Choice>,
}

/// Chooses for one stream of extents.
pub(crate) struct Chooser<'a> {
    choices: &'a Choices,
    stream: u64,
    element: Option<Element>,
}

/// A rate in steps of 10 %: each change of what is known of a device makes the predictor think again.
fn step(rate: f64) -> f64 {
    1.1f64.powf(rate.max(1.0).ln().div_euclid(1.1f64.ln()))
}

impl Choices {
    /// For the store in `dir`.
    pub fn new(dir: &Path) -> Choices {
        Choices { streams: Mutex::default(), predictor: OnceLock::new(), kept: dir.join("predictor.json") }
    }

    /// For the bytes of `key`, whose element type may be known.
    pub fn of(&self, key: &[u8], element: Option<Element>) -> Chooser<'_> {
        let folder = key.iter().rposition(|&b| b == b'/').map_or(&[][..], |at| &key[..at]);
        let ending =
            key.iter().rposition(|&b| b == b'.').filter(|&at| at > folder.len()).map_or(&[][..], |at| &key[at..]);
        let seed = element.map_or(0, |e| e as u64 + 1);
        let stream = xxh3_64_with_seed(ending, xxh3_64_with_seed(folder, seed));
        Chooser { choices: self, stream, element }
    }

    fn predictor(&self) -> &Mutex<Predictor> {
        self.predictor.get_or_init(|| {
            let kept = fs::read_to_string(&self.kept).ok();
            Mutex::new(kept.and_then(|text| Predictor::load(&text).ok()).unwrap_or_default())
        })
    }

    /// Keeps what was learned. It is only ever a help: where that fails, it is learned again.
    pub fn keep(&self) {
        if let Some(predictor) = self.predictor.get() {
            let new = self.kept.with_extension(format!("new-{}", std::process::id()));
            let _ = fs::write(&new, predictor.lock().save()).and_then(|()| fs::rename(&new, &self.kept));
        }
    }
}

impl Chooser<'_> {
    /// Chooses how to encode an extent, and appends a replica of it.
    pub fn append(&self, device: &Device, identity: Identity, raw: &[u8], wish: &Wish) -> io::Result<Replica> {
        let weights = wish.weights(identity.replica).filter(|w| w.ratio > DENSE || device.writing.rate() < FAST);
        let Some(weights) = weights else { return append_to(device, identity, Encoding::NONE, raw) };
        let known = self.known(device);
        let choice = self.choose(&mut known.lock(), raw, device, weights);
        let Some(choice) = choice else { return append_to(device, identity, Encoding::NONE, raw) };
        if raw.len() < WORTH {
            return append_to(device, identity, choice.encoding, raw);
        }
        let start = thread_seconds();
        let replica = append_to(device, identity, choice.encoding, raw)?;
        if replica.encoding == choice.encoding && choice.encoding != Encoding::NONE {
            // Of the thread's time, appending to a file is little beside encoding.
            let encode = Some(thread_seconds() - start);
            let stored = Some(replica.stored as usize);
            let outcome = Outcome { bytes: raw.len(), stored, encode, decode: None };
            self.choices.predictor().lock().feedback(&mut known.lock().stream, &choice, &outcome);
        }
        Ok(replica)
    }

    fn known(&self, device: &Device) -> Arc<Mutex<Known>> {
        let mut streams = self.choices.streams.lock();
        if streams.len() > STREAMS {
            streams.clear();
        }
        let new = || {
            let stream = match self.element {
                Some(element) => Stream::new().with_elements(Elements::of(element)),
                None => Stream::new(),
            };
            Arc::new(Mutex::new(Known { stream, choice: None }))
        };
        streams.entry((self.stream, device.tier)).or_insert_with(new).clone()
    }

    /// What the predictor chooses; what was chosen before where it is busy with another stream.
    fn choose(&self, known: &mut Known, raw: &[u8], device: &Device, weights: Weights) -> Option<Choice> {
        if raw.len() >= WORTH
            && let Some(mut predictor) = self.choices.predictor().try_lock()
        {
            let tier = Tier { write: step(device.writing.rate()), read: step(device.reading.rate()), latency: 0.0 };
            let Weights { compress: encode, decompress: decode, ratio: stored } = weights;
            let weights = terrace_predict::Weights { encode, decode, stored };
            let objective = Objective { weights, tier, reads: READS };
            known.choice = Some(predictor.choose(&mut known.stream, raw, &objective));
        }
        known.choice
    }
}
