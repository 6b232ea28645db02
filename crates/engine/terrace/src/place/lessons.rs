//! The lessons that the store has learned about each stream of bytes. A stream is a series of keys, or the files of one folder
//! with one ending.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix_futex_sync::{Mutex, MutexGuard};
use terrace_codec::{Element, Encoding};
use terrace_cost::Weights;
use terrace_cost::{Costs, Expected};
use terrace_format::frame::Coded;
use terrace_plan::policy::Policy;
use terrace_predict::analyze::Elements;
use terrace_predict::{Aim, Outcome, Pace, Predictor, Stream, StudiedStream, series, weigh};
use terrace_system::replace;

use super::memory::{self, Memories, REMEMBERED_FILE};
use super::{MIN_EXPECTED_READS, UNKNOWN_ENCODING_COST};
use crate::devices::{LEARNED_FILE, Tiers};

/// The number of streams that are remembered.
const MAX_STREAMS: usize = 1024;
/// The weight of the last outcome of an encoding that a rule names, and the change of its ratio that makes a new plan.
const NEWEST_OUTCOME_WEIGHT: f64 = 0.3;
const PINNED_RATIO_STEP: f64 = 0.02;
/// The number of bytes that a process decodes before it learns from decoding.
const DECODED_BYTES_PER_LESSON: u64 = 4 << 20;
/// Waits for a busy predictor take at most this fraction of the transfer time.
const MAX_PREDICTOR_WAIT_FRACTION: f64 = 0.1;
/// Extents that are shorter than this are surveyed together with others of their stream.
pub(super) const SHORT_EXTENT_BYTES: usize = 64 << 10;
/// The number of short extents of a stream that are surveyed.
const SURVEYED_EXTENTS: u32 = 16;
/// The time between two attempts to get a busy predictor.
const PREDICTOR_POLL_INTERVAL: Duration = Duration::from_micros(100);

/// The lessons that the store has learned about each stream.
///
/// Lock order: the predictor, then one stream. The map of streams is a leaf.
pub(crate) struct Lessons {
    /// Held for one lookup or insertion.
    streams: Mutex<HashMap<u64, Arc<Mutex<StreamLessons>>>>,
    /// Loaded from the store's directory when first needed. Held while bytes are studied, which takes longer than many
    /// writes. So most callers wait for it for a limited time, or do without.
    predictor: OnceLock<Mutex<Predictor>>,
    /// The stored streams, read when first needed.
    memories: OnceLock<Memories>,
    dir: PathBuf,
    /// The number of bytes that were decoded. Relaxed: a mere count.
    decoded: AtomicU64,
}

/// A stream, the encoding that a rule names for it, and the survey of its short extents.
pub(crate) struct StreamLessons {
    studied: StudiedStream,
    pinned: Option<Pinned>,
    survey: Option<Survey>,
}

/// The survey of a stream's short extents. They are alike, and a survey of each would take far longer than moving it.
struct Survey {
    stream: Stream,
    /// The weights for which it was made.
    weights: [Weights; 2],
    /// The number of extents that were surveyed.
    extents: u32,
    expected: Vec<(Encoding, Expected)>,
}

/// The encoding that a rule names, and its results so far.
struct Pinned {
    encoding: Encoding,
    expected: Expected,
    costs: Arc<Costs>,
    /// The ratio of stored to raw bytes for which `costs` was computed.
    stored: f64,
}

impl Pinned {
    fn new(encoding: Encoding, expected: Expected) -> Pinned {
        Pinned { encoding, expected, costs: Arc::new(Costs::only(encoding, &expected)), stored: expected.stored }
    }
}

impl StreamLessons {
    /// Returns whether no bytes of the stream were seen yet.
    pub fn is_new(&self) -> bool {
        self.studied.is_new()
    }

    /// Returns the expected cost of each encoding on its next bytes.
    pub fn costs(&self) -> &Arc<Costs> {
        self.studied.costs()
    }

    /// Returns the expected cost of the encoding that a rule names. Before its first use, it is expected to shrink nothing.
    pub fn pinned(&mut self, encoding: Encoding) -> &Arc<Costs> {
        let held = self.pinned.take().filter(|held| held.encoding == encoding);
        &self.pinned.insert(held.unwrap_or_else(|| Pinned::new(encoding, UNKNOWN_ENCODING_COST))).costs
    }

    /// Learns from the results of the encoding that a rule names.
    fn learn_pinned(&mut self, encoding: Encoding, encoded: Coded) {
        let Coded { raw, stored, seconds } = encoded;
        let Some(held) = self.pinned.as_mut().filter(|held| held.encoding == encoding && stored > 0) else { return };
        let first = held.expected == UNKNOWN_ENCODING_COST;
        let measured = Expected { stored: stored as f64 / raw as f64, encode: seconds / raw as f64, decode: f64::NAN };
        held.expected = held.expected.learn(&measured, if first { 1.0 } else { NEWEST_OUTCOME_WEIGHT });
        // A small difference is not worth a new plan.
        if (held.stored / held.expected.stored - 1.0).abs() > PINNED_RATIO_STEP {
            *held = Pinned::new(encoding, held.expected);
        }
    }
}

impl Lessons {
    /// Creates the lessons of the store in `dir`.
    pub fn new(dir: &Path) -> Lessons {
        Lessons {
            streams: Mutex::default(),
            predictor: OnceLock::new(),
            memories: OnceLock::new(),
            dir: dir.to_owned(),
            decoded: AtomicU64::new(0),
        }
    }

    /// Returns the stream to which the bytes of `key` belong. `element` is the type of their elements, if known.
    pub fn of(&self, key: &[u8], element: Option<Element>) -> Arc<Mutex<StreamLessons>> {
        let name = series(key, element.map_or(0, |e| e as u64 + 1));
        if let Some(known) = self.streams.lock().get(&name) {
            return known.clone();
        }
        // The map is not locked here, because `known` may have to wait for the predictor.
        let known = Arc::new(Mutex::new(self.known(name, element)));
        let mut streams = self.streams.lock();
        if streams.len() > MAX_STREAMS {
            streams.clear();
        }
        streams.entry(name).or_insert(known).clone()
    }

    /// Returns what is known about a stream that is new to this process.
    fn known(&self, name: u64, element: Option<Element>) -> StreamLessons {
        let memories = self.memories.get_or_init(|| memory::read(&self.dir.join(REMEMBERED_FILE)));
        let studied = match memories.iter().find(|(other, _)| *other == name) {
            // Nothing else is locked: the new stream is not shared yet.
            Some((_, memory)) => StudiedStream::recall(element, &self.predictor().lock(), memory),
            None => StudiedStream::new(element),
        };
        StreamLessons { studied, pinned: None, survey: None }
    }

    /// Studies bytes of a stream, which are at a place of a file. Returns whether the expected costs changed. Studies
    /// nothing if the predictor is busy for longer than the wait is worth.
    pub fn study(&self, known: &Mutex<StreamLessons>, at: (u64, u64), raw: &[u8], aim: &Aim) -> bool {
        // If stored bytes are what matters, waiting for the predictor costs less than storing raw bytes.
        let moved = aim.slowest_objective().unwrap_or_else(|| aim.objective());
        let worth = Duration::from_secs_f64(MAX_PREDICTOR_WAIT_FRACTION * raw.len() as f64 * moved.target.write);
        let free = if aim.dense { Some(self.predictor().lock()) } else { self.predictor_within(worth) };
        let Some(mut predictor) = free else { return false };
        // After the predictor: see `Lessons`.
        known.lock().studied.study(&mut predictor, at, raw, aim)
    }

    /// Returns the expected cost of every encoding that suits one of the tiers. Spends as much time on the survey as it
    /// needs.
    pub fn survey(
        &self,
        raw: &[u8],
        element: Option<Element>,
        tiers: &Tiers,
        wanted: &Policy,
    ) -> Vec<(Encoding, Expected)> {
        self.survey_next(&mut new_stream(element).with_length(u64::MAX), raw, tiers, wanted)
    }

    /// Like [`Lessons::survey`], for an extent of a stream. Only the first few short extents of each stream are surveyed.
    pub fn survey_extent(
        &self,
        known: &Mutex<StreamLessons>,
        raw: &[u8],
        tiers: &Tiers,
        wanted: &Policy,
    ) -> Vec<(Encoding, Expected)> {
        if raw.len() >= SHORT_EXTENT_BYTES {
            return self.survey(raw, None, tiers, wanted);
        }
        let weights = [wanted.first, wanted.rest];
        let (mut stream, mut extents) = (new_stream(None).with_length(u64::MAX), 0);
        // Released before `survey_next` takes the predictor.
        if let Some(survey) = known.lock().survey.as_ref().filter(|survey| survey.weights == weights) {
            if survey.extents >= SURVEYED_EXTENTS {
                return survey.expected.clone();
            }
            (stream, extents) = (survey.stream.clone(), survey.extents);
        }
        let expected = self.survey_next(&mut stream, raw, tiers, wanted);
        let survey = Survey { stream, weights, extents: extents + 1, expected: expected.clone() };
        // Two threads may have surveyed at the same time. The later result stays, and one extent more is surveyed.
        known.lock().survey = Some(survey);
        expected
    }

    /// Studies the next bytes of a stream for all devices, for the first replica and for the others.
    fn survey_next(
        &self,
        stream: &mut Stream,
        raw: &[u8],
        tiers: &Tiers,
        wanted: &Policy,
    ) -> Vec<(Encoding, Expected)> {
        // No stream is locked: `stream` is the caller's copy.
        let mut predictor = self.predictor().lock();
        for device in &tiers.devices {
            for (weights, reads) in [(&wanted.first, MIN_EXPECTED_READS), (&wanted.rest, 0.0)] {
                let pace = Pace { write: device.writing.rate(), read: device.reading.rate() };
                let aim = Aim::new(pace, *weights, reads, wanted.budget.is_some());
                predictor.study(stream, raw, &aim.objective());
            }
        }
        weigh(&predictor.expected(stream)).collect()
    }

    /// Learns from the result of an encoding.
    pub fn learn(&self, known: &Mutex<StreamLessons>, encoding: Encoding, encoded: Coded) {
        if encoded.raw == 0 {
            // Another replica has learned from these bytes.
            return;
        }
        let mut held = known.lock();
        held.learn_pinned(encoding, encoded);
        if held.studied.is_unknown() {
            return;
        }
        // Released and taken again after the predictor, because of the lock order of `Lessons`.
        drop(held);
        let mut predictor = self.predictor().lock();
        let Coded { raw, stored, seconds } = encoded;
        let outcome = Outcome { bytes: raw, stored: Some(stored), encode: Some(seconds), decode: None };
        known.lock().studied.learn(&mut predictor, encoding, &outcome);
    }

    /// Learns from the time that decoding took. The first bytes of a process are ignored, because they would have to wait
    /// until the predictor is loaded, and nothing is learned while the predictor is busy.
    pub fn decoded(&self, encoding: Encoding, decoded: Coded) {
        let Coded { raw, stored, seconds } = decoded;
        if raw == 0 || self.decoded.fetch_add(raw as u64, Ordering::Relaxed) < DECODED_BYTES_PER_LESSON {
            return;
        }
        // Tried only: a read does not wait for the predictor, and a lost lesson does no harm.
        if let Some(mut predictor) = self.predictor().try_lock() {
            predictor.decoded(encoding, raw, stored, seconds);
        }
    }

    /// Returns the predictor, unless it stays busy for longer than `limit`.
    fn predictor_within(&self, limit: Duration) -> Option<MutexGuard<'_, Predictor>> {
        let begun = Instant::now();
        loop {
            let free = self.predictor().try_lock();
            if free.is_some() || begun.elapsed() >= limit {
                return free;
            }
            thread::sleep(PREDICTOR_POLL_INTERVAL.min(limit));
        }
    }

    /// Returns the predictor that an earlier process saved, or a new one if there is none.
    fn read_learned(&self) -> Result<Predictor, String> {
        match fs::read_to_string(self.dir.join(LEARNED_FILE)) {
            Ok(text) => Predictor::load(&text).map_err(|error| error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Predictor::default()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn predictor(&self) -> &Mutex<Predictor> {
        self.predictor.get_or_init(|| {
            // An unusable file counts as empty, because it only saves learning.
            Mutex::new(self.read_learned().unwrap_or_else(|reason| {
                tracing::warn!(reason, "{LEARNED_FILE} cannot be used, so encodings are learned again");
                Predictor::default()
            }))
        })
    }

    /// Saves what was learned. Errors are ignored, because the files only save learning.
    pub fn keep(&self) {
        let Some(predictor) = self.predictor.get() else { return };
        let streams: Vec<_> = self.streams.lock().iter().map(|(name, known)| (*name, known.clone())).collect();
        // The map is no longer locked. Each stream is locked under the predictor, for one copy.
        let predictor = predictor.lock();
        let _ = replace(&self.dir.join(LEARNED_FILE), predictor.save());
        let memories = streams.iter().map(|(name, known)| (*name, known.lock().studied.remember(&predictor)));
        let memories: Memories = memories.filter(|(_, memory)| !memory.is_empty()).collect();
        if !memories.is_empty() {
            memory::keep(&self.dir.join(REMEMBERED_FILE), memories);
        }
    }
}

fn new_stream(element: Option<Element>) -> Stream {
    match element {
        Some(element) => Stream::new().with_elements(Elements::of(element)),
        None => Stream::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_take_long_to_move_wait_for_the_predictor() {
        let dir = tempfile::tempdir().expect("a folder");
        let lessons = Lessons::new(dir.path());
        let known = lessons.of(b"k", None);
        let raw: Vec<u8> = (0..1 << 20).flat_map(u32::to_le_bytes).collect();
        let weights = Weights::new(1.0, 1.0, 1.0).expect("weights");
        let studied = |rate| {
            let pace = Pace { write: rate, read: rate };
            let aim = Aim::new(pace, weights, MIN_EXPECTED_READS, false);
            lessons.study(&known, (1, 0), &raw, &aim)
        };
        let held = lessons.predictor().lock();
        assert!(!studied(1e9), "a device that takes them in no time");
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| studied(1e6));
            std::thread::sleep(Duration::from_millis(20));
            drop(held);
            assert!(slow.join().expect("studies"));
        });
    }

    /// Each of many small files was surveyed by itself, which took ten times as long as to put it: `terrace tune` of 3,000 took 8.7 s.
    #[test]
    fn short_extents_of_one_stream_are_surveyed_together() {
        let dir = tempfile::tempdir().expect("a folder");
        let text = format!(
            "[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n",
            dir.path().join("disk").display()
        );
        let config = crate::Config::parse(&text, "test").expect("a configuration");
        let store = crate::Store::init(&dir.path().join("store"), &config).expect("a store");
        let (lessons, tiers, wanted) = (&store.engine.planning.lessons, &store.engine.tiers, Policy::default());
        let raw: Vec<u8> = (0..500u32).flat_map(|number| format!("line {number}\n").into_bytes()).collect();
        let known = |key: &str| lessons.of(key.as_bytes(), None);
        let first = (0..SURVEYED_EXTENTS)
            .map(|number| lessons.survey_extent(&known(&format!("d/{number}.txt")), &raw, tiers, &wanted))
            .reduce(|_, later| later);
        assert!(
            first.as_ref().is_some_and(|first| first.iter().any(|(_, expected)| expected.ratio() > 1.5)),
            "{first:?}"
        );
        std::thread::scope(|scope| {
            // A survey waits for it.
            let held = lessons.predictor().lock();
            let (answer, answers) = std::sync::mpsc::channel();
            scope.spawn(|| {
                let answer = answer;
                answer.send(lessons.survey_extent(&known("d/99.txt"), &raw, tiers, &wanted)).expect("a listener");
            });
            let next = answers.recv_timeout(Duration::from_secs(60));
            drop(held);
            assert_eq!(next.ok(), first);
        });
    }
}
