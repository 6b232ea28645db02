//! The learned model of encodings: the errors of probes, and the speeds of encodings.
//!
//! Sizes and speeds are predicted as logarithms, and times relative to the machine's own speed, so that a model from
//! one machine is useful on another.

mod evidence;
mod median;
mod record;
mod regression;
mod saved;

pub use evidence::{CLASS_COUNT, Class, Evidence};
pub use record::{Compared, Record};
pub use saved::{LoadError, profiled};

use std::collections::BTreeMap;

use terrace_codec::{CodecId, Element, Encoding};

use median::Median;
use regression::{REGRESSION_INPUTS, Regression};

use crate::candidates::{ALL_CANDIDATES, LZ4_INDEX, NONE_INDEX};
use terrace_cost::Expected;

use crate::ProfiledTier;

/// The basis of a predicted size, most reliable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The candidate's own probe of the large sample.
    Large,
    /// The candidate's own probe of the small sample.
    Small,
    /// The stand-in's probe of the small sample.
    StandIn,
    /// The filter's probe of the small sample.
    Filter,
    /// The usual result on bytes of this class.
    Class(Class),
}

/// The basis of a prediction, which is needed to learn from the outcome.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Basis {
    /// The basis of the size.
    pub source: Source,
    /// The logarithm of the size in that source.
    log: f64,
    /// The times to encode and decode the large sample.
    times: Option<(f64, f64)>,
    inputs: [f64; REGRESSION_INPUTS],
}

/// The learned model of one candidate.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// Added to the logarithm of the large sample's size to predict that of the whole.
    large: Median,
    /// Added to that of the small sample.
    small: Median,
    /// Added to that of the stand-in's small sample.
    stand_in: Median,
    /// Added to that of the filter's small sample.
    filter: Median,
    /// Added to the logarithm of the encoding time per byte of the large sample to predict that of the whole.
    encode: Median,
    /// The same for decoding.
    decode: Median,
    /// The logarithms of sizes, by class.
    classes: [Median; CLASS_COUNT],
    /// The logarithms of the times to encode and to decode.
    times: Regression,
    /// The duration of a small and a large probe, in bytes of reference work that are done meanwhile; 0 if unknown.
    effort: [f64; 2],
}

/// The learned model of all candidates.
#[derive(Clone, Debug)]
pub struct Model {
    /// The seconds per byte that this machine takes for the reference work.
    machine: f64,
    entries: Vec<Entry>,
    /// The predictions and their outcomes.
    pub record: Record,
    /// The speeds of tiers by name, as a profiler measured them.
    pub tiers: BTreeMap<String, ProfiledTier>,
}

/// The minimum size and time whose logarithm is taken.
const MIN_LOG_ARGUMENT: f64 = 1e-6;
/// The size predicted for a class is this quantile of the observed sizes. It is above the median, because bytes that do
/// not shrink cost most.
const SHRINKING_QUANTILE: f64 = 0.75;
/// The assumed duration of a probe in seconds, until one is measured.
const DEFAULT_PROBE_SECONDS: f64 = 1e-3;

impl Model {
    /// Creates an untrained model on a machine that takes `machine` seconds per byte for the reference work.
    pub fn new(machine: f64) -> Self {
        Model {
            machine,
            entries: ALL_CANDIDATES.iter().map(|_| Entry::default()).collect(),
            record: Record::default(),
            tiers: BTreeMap::new(),
        }
    }

    /// Returns the seconds per byte that this machine takes for the reference work.
    pub fn machine(&self) -> f64 {
        self.machine
    }

    /// Returns the expected result of a candidate on bytes with this evidence, and the basis of the expectation.
    pub fn expect(&self, at: usize, evidence: &Evidence) -> (Expected, Basis) {
        let entry = &self.entries[at];
        let (source, log) = nearest_source(at, evidence);
        let log_stored = (log + entry.correction(source).value() * correction_weight(source, log)).min(0.0);
        let inputs = self.inputs(at, evidence, log_stored);
        let times = evidence.large[at].map(|probe| (probe.encode, probe.decode)).filter(|times| times.0 > 0.0);
        let basis = Basis { source, log, times, inputs };
        if at == NONE_INDEX {
            return (Expected::NONE, basis);
        }
        let [encode, decode] = entry.times.predict(&inputs).map(|log| self.machine * log.clamp(-12.0, 12.0).exp());
        let measured = |time: f64, correction: &Median, predicted: f64| {
            if time > 0.0 { time * correction.value().exp() } else { predicted }
        };
        let (there, back) = times.unwrap_or_default();
        let stored = log_stored.exp();
        let expected = Expected {
            stored,
            encode: measured(there, &entry.encode, encode),
            // Bytes that do not shrink are stored raw.
            decode: if stored < 1.0 { measured(back, &entry.decode, decode) } else { 0.0 },
        };
        // Results on blocks are more reliable than results on samples.
        let real = evidence.real[at].unwrap_or(Expected { stored, encode: 0.0, decode: 0.0 });
        let known = |real: f64, expected: f64| if real > 0.0 { real } else { expected };
        let (encode, decode) = (known(real.encode, expected.encode), known(real.decode, expected.decode));
        (Expected { stored: real.stored, encode, decode }, basis)
    }

    /// Returns the expected result of a candidate if only its stored size per byte is known.
    pub fn expect_of_size(&self, at: usize, stored: f64) -> (Expected, Basis) {
        let evidence = Evidence::none(Class::Unknown);
        let (_, basis) = self.expect(at, &evidence);
        let inputs = self.inputs(at, &evidence, stored.clamp(MIN_LOG_ARGUMENT, 1.0).ln());
        let [encode, decode] =
            self.entries[at].times.predict(&inputs).map(|log| self.machine * log.clamp(-12.0, 12.0).exp());
        (Expected { stored, encode, decode }, Basis { inputs, ..basis })
    }

    /// Learns from the outcome of a candidate; a value of None was not measured.
    pub fn learn(&mut self, at: usize, basis: &Basis, stored: Option<f64>, encode: Option<f64>, decode: Option<f64>) {
        let machine = self.machine;
        let entry = &mut self.entries[at];
        if at == NONE_INDEX {
            return;
        }
        // If the bytes hardly shrank, the error says nothing about other bytes.
        if let Some(stored) = stored.filter(|_| correction_weight(basis.source, basis.log) > 0.5) {
            let off = stored.clamp(MIN_LOG_ARGUMENT, 1.0).ln() - basis.log;
            match basis.source {
                Source::Large => entry.large.learn(off),
                Source::Small => entry.small.learn(off),
                Source::StandIn => entry.stand_in.learn(off),
                Source::Filter => entry.filter.learn(off),
                Source::Class(class) => entry.classes[class as usize].learn_toward(off, SHRINKING_QUANTILE),
            }
        }
        let log = |time: f64| (time.max(MIN_LOG_ARGUMENT * machine) / machine).ln();
        let times = [encode, decode].map(|time| time.filter(|t| *t > 0.0));
        entry.times.learn(&basis.inputs, times.map(|time| time.map(log)));
        if let Some((there, back)) = basis.times {
            let [encode, decode] = times;
            encode.iter().for_each(|time| entry.encode.learn((time / there).ln()));
            decode.iter().filter(|_| back > 0.0).for_each(|time| entry.decode.learn((time / back).ln()));
        }
    }

    /// Learns the errors of small probes from large probes, and the usual results of the class from all probes.
    pub fn learn_from_probes(&mut self, evidence: &Evidence) {
        for at in 0..ALL_CANDIDATES.len() {
            if let Some(large) = evidence.large[at] {
                let (expected, _) = self.expect(at, evidence);
                let without = Evidence { large: [None; _], real: [None; _], ..evidence.clone() };
                let (_, basis) = self.expect(at, &without);
                let decode = Some(expected.decode).filter(|_| large.decode > 0.0);
                if !matches!(basis.source, Source::Class(_)) {
                    self.learn(at, &basis, Some(expected.stored), Some(expected.encode), decode);
                }
            }
            if evidence.small[at].is_some() {
                let stored = self.expect(at, evidence).0.stored;
                self.entries[at].classes[evidence.class as usize]
                    .learn_toward(stored.max(MIN_LOG_ARGUMENT).ln(), SHRINKING_QUANTILE);
            }
        }
    }

    /// Returns the expected duration of a probe of the small or the large sample, in seconds.
    pub fn effort(&self, at: usize, large: bool) -> f64 {
        match self.entries[at].effort[usize::from(large)] {
            0.0 => DEFAULT_PROBE_SECONDS,
            effort => effort * self.machine,
        }
    }

    /// Learns from the duration of a probe.
    pub fn learn_effort(&mut self, at: usize, large: bool, seconds: f64) {
        let effort = &mut self.entries[at].effort[usize::from(large)];
        let now = seconds / self.machine;
        *effort = if *effort == 0.0 { now } else { *effort + 0.1 * (now.min(4.0 * *effort) - *effort) };
    }

    fn inputs(&self, at: usize, evidence: &Evidence, log_stored: f64) -> [f64; REGRESSION_INPUTS] {
        let Some(entropy) = evidence.entropy else {
            return [1.0, log_stored, 0.0, 0.0, 0.0, 0.0];
        };
        let time = |at: usize| {
            let time = evidence.small[at].map_or(0.0, |probe| probe.encode);
            if time > 0.0 { (time / self.machine).ln() } else { 0.0 }
        };
        [
            1.0,
            log_stored,
            entropy / 8.0 - 0.7,
            evidence.printable - 0.4,
            time(LZ4_INDEX),
            time(ALL_CANDIDATES[at].filter),
        ]
    }
}

impl Entry {
    fn correction(&self, source: Source) -> &Median {
        match source {
            Source::Large => &self.large,
            Source::Small => &self.small,
            Source::StandIn => &self.stand_in,
            Source::Filter => &self.filter,
            Source::Class(class) => &self.classes[class as usize],
        }
    }
}

/// Returns whether a candidate may be chosen. If anything was measured, a probe of the candidate, its stand-in or its filter is
/// needed, and no filter of another width may be better. If nothing was measured, neither pco nor fields may be chosen, and a transform
/// only on bytes of a known class.
pub fn eligible(at: usize, evidence: &Evidence) -> bool {
    let told = !matches!(nearest_source(at, evidence).0, Source::Class(_));
    let Encoding { element, codec, .. } = ALL_CANDIDATES[at].encoding;
    let guess = evidence.is_empty()
        && !matches!(codec, CodecId::Pco | CodecId::Fields)
        && (element == Element::Bytes || evidence.class != Class::Unknown);
    at == NONE_INDEX || (told || guess) && fits(at, evidence)
}

/// Returns whether the candidate's width is the one whose filter gave the best result with the same transform.
pub fn fits(at: usize, evidence: &Evidence) -> bool {
    let candidate = &ALL_CANDIDATES[at];
    if !evidence.class.allows(candidate.width()) {
        return false;
    }
    // On decimals stored as floats, lz4 is best with a narrow width, which says nothing about pco. So pco is tried with either width.
    if matches!(candidate.encoding.codec, CodecId::Pco | CodecId::Fields) && candidate.width() > 2 {
        return true;
    }
    let stored = |at: usize| evidence.small[at].map_or(f64::INFINITY, |probe| probe.stored);
    let transform = ALL_CANDIDATES[candidate.filter].encoding.transform;
    let others = (0..ALL_CANDIDATES.len())
        .filter(|at| ALL_CANDIDATES[*at].is_filter() && ALL_CANDIDATES[*at].encoding.transform == transform);
    others.min_by(|a, b| stored(*a).total_cmp(&stored(*b))) == Some(candidate.filter)
}

/// Returns the most reliable probe, and the logarithm of its size.
fn nearest_source(at: usize, evidence: &Evidence) -> (Source, f64) {
    let candidate = &ALL_CANDIDATES[at];
    let small = |at: usize| evidence.small[at];
    let probes = [
        (Source::Large, evidence.large[at]),
        (Source::Small, small(at)),
        (Source::StandIn, candidate.stand_in.and_then(small)),
        (Source::Filter, small(candidate.filter)),
    ];
    let nearest = probes.into_iter().find_map(|(source, probe)| Some((source, probe?)));
    match nearest {
        Some((source, probe)) => (source, probe.stored.max(MIN_LOG_ARGUMENT).ln()),
        None => (Source::Class(evidence.class), 0.0),
    }
}

/// Returns the weight of a correction: 0 if the sample did not shrink, because the whole will not shrink either.
fn correction_weight(source: Source, log: f64) -> f64 {
    match source {
        Source::Class(_) => 1.0,
        _ => (-log / 0.2).clamp(0.0, 1.0),
    }
}
