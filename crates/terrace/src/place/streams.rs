//! What was learned of each stream of bytes: files of one folder and ending.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use terrace_codec::{Element, Encoding};
use terrace_plan::cost::{Costs, Expected};
use terrace_plan::policy::{Policy as Wanted, Weights};
use terrace_predict::analyze::Elements;
use terrace_predict::{Choice, Objective, Outcome, Predictor, Stream, Tier};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{DENSE, READS, USUAL};
use crate::frame::Coded;
use crate::store::{Device, Tiers};

/// Where a store keeps what was learned.
pub(crate) const LEARNED: &str = "predictor.json";
/// Streams remembered.
const STREAMS: usize = 1024;
/// After so many outcomes, what is expected is worked out again.
const OUTCOMES: u32 = 8;
/// How much the last outcome of an encoding that a rule names counts, and the step in which its ratio is taken in.
const NEWEST: f64 = 0.3;
const STEP: f64 = 0.02;
/// Bytes that a process decodes before it learns from that.
const READ: u64 = 4 << 20;
/// Where hardly anything but the bytes stored matters, effort is earned as for a device that moves so many of them in a
/// second: what is dear then is space, not time.
const ARCHIVE: f64 = 1e7;

/// What was learned of each stream.
pub(crate) struct Streams {
    streams: Mutex<HashMap<u64, Arc<Mutex<Known>>>>,
    /// Made when first needed, from what is kept in the store's directory.
    predictor: OnceLock<Mutex<Predictor>>,
    kept: PathBuf,
    /// Bytes that were decoded.
    decoded: AtomicU64,
}

/// A stream, and what is expected of each encoding on what comes next.
pub(crate) struct Known {
    stream: Stream,
    choices: Vec<Choice>,
    pub costs: Arc<Costs>,
    /// Outcomes since `costs` was made.
    outcomes: u32,
    pinned: Option<Pinned>,
}

/// The encoding that a rule names, and what it did to the bytes so far.
struct Pinned {
    encoding: Encoding,
    expected: Expected,
    /// Made for about this ratio.
    costs: Arc<Costs>,
    ratio: f64,
}

impl Pinned {
    fn new(encoding: Encoding, expected: Expected) -> Pinned {
        Pinned { encoding, expected, costs: Arc::new(Costs::only(encoding, &expected)), ratio: expected.ratio }
    }
}

impl Known {
    /// What is expected of the encoding that a rule names: until it was used, that it shrinks nothing.
    pub fn pinned(&mut self, encoding: Encoding) -> &Arc<Costs> {
        let held = self.pinned.take().filter(|held| held.encoding == encoding);
        &self.pinned.insert(held.unwrap_or_else(|| Pinned::new(encoding, USUAL))).costs
    }

    /// Learns from what the encoding that a rule names did.
    fn learn_pinned(&mut self, encoding: Encoding, encoded: Coded) {
        let Coded { raw, stored, seconds } = encoded;
        let Some(held) = self.pinned.as_mut().filter(|held| held.encoding == encoding && stored > 0) else { return };
        let (ratio, compress) = (raw as f64 / stored as f64, raw as f64 / seconds);
        let first = held.expected == USUAL;
        let measured = Expected { compress, decompress: f64::NAN, ratio };
        held.expected = held.expected.learn(&measured, if first { 1.0 } else { NEWEST });
        // What hardly differs makes no plan worth another thought.
        if (held.expected.ratio / held.ratio - 1.0).abs() > STEP {
            *held = Pinned::new(encoding, held.expected);
        }
    }
}

impl Streams {
    /// For the store in `dir`.
    pub fn new(dir: &Path) -> Streams {
        Streams {
            streams: Mutex::default(),
            predictor: OnceLock::new(),
            kept: dir.join(LEARNED),
            decoded: AtomicU64::new(0),
        }
    }

    /// The stream that the bytes of `key` belong to; their elements' type may be known.
    pub fn of(&self, key: &[u8], element: Option<Element>) -> Arc<Mutex<Known>> {
        let folder = key.iter().rposition(|&b| b == b'/').map_or(&[][..], |at| &key[..at]);
        let ending =
            key.iter().rposition(|&b| b == b'.').filter(|&at| at > folder.len()).map_or(&[][..], |at| &key[at..]);
        let seed = element.map_or(0, |e| e as u64 + 1);
        let name = xxh3_64_with_seed(ending, xxh3_64_with_seed(folder, seed));
        let mut streams = self.streams.lock();
        if streams.len() > STREAMS {
            streams.clear();
        }
        let new = || {
            let (stream, costs) = (new_stream(element), Arc::new(Costs::new([])));
            Arc::new(Mutex::new(Known { stream, choices: Vec::new(), costs, outcomes: 0, pinned: None }))
        };
        streams.entry(name).or_insert_with(new).clone()
    }

    /// Studies bytes of a stream, which lie at a place of a file, for a device. Whether what is expected changed; not where the predictor is busy
    /// with another stream.
    pub fn study(
        &self,
        known: &Mutex<Known>,
        (file, place): (u64, u64),
        raw: &[u8],
        device: &Device,
        weights: &Weights,
        reads: f64,
    ) -> bool {
        let Some(mut predictor) = self.predictor().try_lock() else { return false };
        let mut known = known.lock();
        known.stream.at(file, place);
        let learned = predictor.study(&mut known.stream, raw, &objective(device, weights, reads));
        if !learned && known.outcomes < OUTCOMES {
            return false;
        }
        known.outcomes = 0;
        known.choices = predictor.expected(&known.stream);
        known.costs = Arc::new(Costs::new(expected(&known.choices)));
        true
    }

    /// What is expected of every encoding that may serve on one of the tiers, whatever it takes to find out.
    pub fn survey(
        &self,
        raw: &[u8],
        element: Option<Element>,
        tiers: &Tiers,
        wanted: &Wanted,
    ) -> Vec<(Encoding, Expected)> {
        let mut stream = new_stream(element).with_length(u64::MAX);
        let mut predictor = self.predictor().lock();
        for device in &tiers.devices {
            for (weights, reads) in [(&wanted.first, READS), (&wanted.rest, 0.0)] {
                predictor.study(&mut stream, raw, &objective(device, weights, reads));
            }
        }
        expected(&predictor.expected(&stream)).collect()
    }

    /// Learns from how an encoding turned out.
    pub fn learn(&self, known: &Mutex<Known>, encoding: Encoding, encoded: Coded) {
        let mut held = known.lock();
        held.learn_pinned(encoding, encoded);
        if held.choices.is_empty() {
            return;
        }
        drop(held);
        let mut predictor = self.predictor().lock();
        let mut known = known.lock();
        let Some(choice) = known.choices.iter().find(|choice| choice.encoding == encoding).copied() else { return };
        let Coded { raw, stored, seconds } = encoded;
        let outcome = Outcome { bytes: raw, stored: Some(stored), encode: Some(seconds), decode: None };
        predictor.feedback(&mut known.stream, &choice, &outcome);
        known.outcomes += 1;
    }

    /// Learns from how long it took to decode what was read; not from the first bytes of a process, which would have to
    /// wait for what is kept, and not where the predictor is busy.
    pub fn decoded(&self, encoding: Encoding, decoded: Coded) {
        let Coded { raw, stored, seconds } = decoded;
        if raw == 0 || self.decoded.fetch_add(raw as u64, Ordering::Relaxed) < READ {
            return;
        }
        if let Some(mut predictor) = self.predictor().try_lock() {
            predictor.decoded(encoding, raw, stored, seconds);
        }
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

fn new_stream(element: Option<Element>) -> Stream {
    match element {
        Some(element) => Stream::new().with_elements(Elements::of(element)),
        None => Stream::new(),
    }
}

/// What is expected, as the planner takes it.
fn expected(choices: &[Choice]) -> impl Iterator<Item = (Encoding, Expected)> {
    choices.iter().map(|choice| {
        let of = choice.expected;
        (choice.encoding, Expected { compress: 1.0 / of.encode, decompress: 1.0 / of.decode, ratio: of.ratio() })
    })
}

/// What the planner's cost model makes small, in the predictor's terms: there the ratio needs no weight of its own, and
/// reads count as often as decoding has weight.
fn objective(device: &Device, weights: &Weights, reads: f64) -> Objective {
    let slow = if weights.ratio > DENSE { ARCHIVE } else { f64::INFINITY };
    let rate = |rate: f64| step(rate.min(slow));
    let tier = Tier { write: rate(device.writing.rate()), read: rate(device.reading.rate()), latency: 0.0 };
    let encode = 3.0 * weights.compress;
    let weights_of_time = terrace_predict::Weights { encode, decode: 1.0, stored: 1.0 };
    Objective { weights: weights_of_time, tier, reads: 3.0 * weights.decompress * reads }
}

/// A rate in steps of 10 %: each change of what is known of a device makes the predictor think again.
fn step(rate: f64) -> f64 {
    1.1f64.powf(rate.max(1.0).ln().div_euclid(1.1f64.ln()))
}
