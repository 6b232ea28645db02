//! What was learned of encodings: how far probes are off, how fast encodings are.
//!
//! Sizes and speeds are predicted as logarithms, and times in terms of the machine's own speed, so that what one
//! machine learned is of use on another.

mod evidence;
mod median;
mod record;
mod regression;
mod saved;

pub use evidence::{CLASSES, Class, Evidence};
pub use record::{Compared, Record};
pub use saved::{LoadError, profiled};

use std::collections::BTreeMap;

use terrace_codec::{CodecId, Element};

use median::Median;
use regression::{INPUTS, Regression};

use crate::candidates::{ALL, LZ4, NONE};
use terrace_cost::Expected;

use crate::ProfiledTier;

/// What a predicted size stands on, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Its own probe of the large sample.
    Large,
    /// Its own probe of the small sample.
    Small,
    /// The stand-in's probe of the small sample.
    StandIn,
    /// The filter's probe of the small sample.
    Filter,
    /// What it usually does to bytes of this class.
    Class(Class),
}

/// What a prediction was made from: what is needed to learn from how it turned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Basis {
    /// What the size stands on.
    pub source: Source,
    /// The logarithm of the size there.
    log: f64,
    /// Times to encode and decode the large sample.
    times: Option<(f64, f64)>,
    inputs: [f64; INPUTS],
}

/// What was learned of one candidate.
#[derive(Clone, Debug, Default)]
struct Entry {
    /// What to add to the logarithm of the size on the large sample, to get the whole's.
    large: Median,
    /// The same for the small sample.
    small: Median,
    /// The same for the stand-in's.
    stand_in: Median,
    /// The same for the filter's.
    filter: Median,
    /// What to add to the logarithms of the times on the large sample.
    encode: Median,
    /// The same for decoding.
    decode: Median,
    /// Logarithms of sizes, by class.
    classes: [Median; CLASSES],
    /// Logarithms of times to encode and to decode.
    times: Regression,
    /// Seconds that a small and a large probe take, on a machine of speed 1; 0 is not known.
    effort: [f64; 2],
}

/// What was learned.
#[derive(Clone, Debug)]
pub struct Model {
    /// Seconds for a byte that this machine takes for the reference work.
    machine: f64,
    entries: Vec<Entry>,
    /// How predictions turned out.
    pub record: Record,
    /// How quick tiers are, by name, as a profiler found.
    pub tiers: BTreeMap<String, ProfiledTier>,
}

/// The least size and time whose logarithm is taken.
const LEAST: f64 = 1e-6;
/// The share of bytes of a class that shrink at least as much as is guessed: what does not shrink costs most.
const CAUTION: f64 = 0.75;
/// Seconds that a probe takes, as far as nothing is known of it.
const UNKNOWN_EFFORT: f64 = 1e-3;

impl Model {
    /// One that knows nothing, on a machine of this many seconds for a byte of the reference work.
    pub fn new(machine: f64) -> Self {
        Model {
            machine,
            entries: ALL.iter().map(|_| Entry::default()).collect(),
            record: Record::default(),
            tiers: BTreeMap::new(),
        }
    }

    /// Seconds for a byte that this machine takes for the reference work.
    pub fn machine(&self) -> f64 {
        self.machine
    }

    /// What a candidate is expected to do to bytes of which this is known, and on what that stands.
    pub fn expect(&self, at: usize, evidence: &Evidence) -> (Expected, Basis) {
        let entry = &self.entries[at];
        let (source, log) = source(at, evidence);
        let log_stored = (log + entry.correction(source).value() * weight(source, log)).min(0.0);
        let inputs = self.inputs(at, evidence, log_stored);
        let times = evidence.large[at].map(|probe| (probe.encode, probe.decode)).filter(|times| times.0 > 0.0);
        let basis = Basis { source, log, times, inputs };
        if at == NONE {
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
            // What does not shrink is stored raw.
            decode: if stored < 1.0 { measured(back, &entry.decode, decode) } else { 0.0 },
        };
        // What it did to blocks says more than what it does to samples.
        let real = evidence.real[at].unwrap_or(Expected { stored, encode: 0.0, decode: 0.0 });
        let known = |real: f64, expected: f64| if real > 0.0 { real } else { expected };
        let (encode, decode) = (known(real.encode, expected.encode), known(real.decode, expected.decode));
        (Expected { stored: real.stored, encode, decode }, basis)
    }

    /// The same of bytes of which only the size is known that a candidate made of each.
    pub fn expect_of_size(&self, at: usize, stored: f64) -> (Expected, Basis) {
        let evidence = Evidence::none(Class::Unknown);
        let (_, basis) = self.expect(at, &evidence);
        let inputs = self.inputs(at, &evidence, stored.clamp(LEAST, 1.0).ln());
        let [encode, decode] =
            self.entries[at].times.predict(&inputs).map(|log| self.machine * log.clamp(-12.0, 12.0).exp());
        (Expected { stored, encode, decode }, Basis { inputs, ..basis })
    }

    /// Learns from how a candidate turned out; a time of none was not measured.
    pub fn learn(&mut self, at: usize, basis: &Basis, stored: Option<f64>, encode: Option<f64>, decode: Option<f64>) {
        let machine = self.machine;
        let entry = &mut self.entries[at];
        if at == NONE {
            return;
        }
        // Where next to nothing shrank, how far it is off says nothing of other bytes.
        if let Some(stored) = stored.filter(|_| weight(basis.source, basis.log) > 0.5) {
            let off = stored.clamp(LEAST, 1.0).ln() - basis.log;
            match basis.source {
                Source::Large => entry.large.learn(off),
                Source::Small => entry.small.learn(off),
                Source::StandIn => entry.stand_in.learn(off),
                Source::Filter => entry.filter.learn(off),
                Source::Class(class) => entry.classes[class as usize].learn_toward(off, CAUTION),
            }
        }
        let log = |time: f64| (time.max(LEAST * machine) / machine).ln();
        let times = [encode, decode].map(|time| time.filter(|t| *t > 0.0));
        entry.times.learn(&basis.inputs, times.map(|time| time.map(log)));
        if let Some((there, back)) = basis.times {
            let [encode, decode] = times;
            encode.iter().for_each(|time| entry.encode.learn((time / there).ln()));
            decode.iter().filter(|_| back > 0.0).for_each(|time| entry.decode.learn((time / back).ln()));
        }
    }

    /// Learns from a large probe what small ones are worth; and from all probes what is usual in this class.
    pub fn learn_from_probes(&mut self, evidence: &Evidence) {
        for at in 0..ALL.len() {
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
                self.entries[at].classes[evidence.class as usize].learn_toward(stored.max(LEAST).ln(), CAUTION);
            }
        }
    }

    /// Seconds that a probe of the small sample, or the large one, takes.
    pub fn effort(&self, at: usize, large: bool) -> f64 {
        match self.entries[at].effort[usize::from(large)] {
            0.0 => UNKNOWN_EFFORT,
            effort => effort * self.machine,
        }
    }

    /// Learns how long a probe took.
    pub fn learn_effort(&mut self, at: usize, large: bool, seconds: f64) {
        let effort = &mut self.entries[at].effort[usize::from(large)];
        let now = seconds / self.machine;
        *effort = if *effort == 0.0 { now } else { *effort + 0.1 * (now.min(4.0 * *effort) - *effort) };
    }

    fn inputs(&self, at: usize, evidence: &Evidence, log_stored: f64) -> [f64; INPUTS] {
        let Some(entropy) = evidence.entropy else {
            return [1.0, log_stored, 0.0, 0.0, 0.0, 0.0];
        };
        let time = |at: usize| {
            let time = evidence.small[at].map_or(0.0, |probe| probe.encode);
            if time > 0.0 { (time / self.machine).ln() } else { 0.0 }
        };
        [1.0, log_stored, entropy / 8.0 - 0.7, evidence.printable - 0.4, time(LZ4), time(ALL[at].filter)]
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

/// Whether a candidate may win: something was measured that tells of it, and no filter of another width worked better;
/// or nothing was measured of any, and it seldom does harm.
pub fn eligible(at: usize, evidence: &Evidence) -> bool {
    let told = !matches!(source(at, evidence).0, Source::Class(_));
    let plain = ALL[at].encoding.element == Element::Bytes;
    let guess =
        evidence.is_empty() && (plain || evidence.class != Class::Unknown && ALL[at].encoding.codec != CodecId::Pco);
    at == NONE || (told || guess) && fits(at, evidence)
}

/// Whether a candidate's width is that whose filter worked best of all with the same transform.
pub fn fits(at: usize, evidence: &Evidence) -> bool {
    let candidate = &ALL[at];
    if !evidence.class.allows(candidate.width()) {
        return false;
    }
    // Decimals stored as floats look narrow to lz4, so pco is tried on either width.
    if candidate.encoding.codec == CodecId::Pco && candidate.width() > 2 {
        return true;
    }
    let stored = |at: usize| evidence.small[at].map_or(f64::INFINITY, |probe| probe.stored);
    let transform = ALL[candidate.filter].encoding.transform;
    let others = (0..ALL.len()).filter(|at| ALL[*at].is_filter() && ALL[*at].encoding.transform == transform);
    others.min_by(|a, b| stored(*a).total_cmp(&stored(*b))) == Some(candidate.filter)
}

/// The nearest probe, and the logarithm of its size.
fn source(at: usize, evidence: &Evidence) -> (Source, f64) {
    let candidate = &ALL[at];
    let small = |at: usize| evidence.small[at];
    let probes = [
        (Source::Large, evidence.large[at]),
        (Source::Small, small(at)),
        (Source::StandIn, candidate.stand_in.and_then(small)),
        (Source::Filter, small(candidate.filter)),
    ];
    let nearest = probes.into_iter().find_map(|(source, probe)| Some((source, probe?)));
    match nearest {
        Some((source, probe)) => (source, probe.stored.max(LEAST).ln()),
        None => (Source::Class(evidence.class), 0.0),
    }
}

/// How much of a correction applies: none of it to what did not shrink on the sample, for it will not on the whole.
fn weight(source: Source, log: f64) -> f64 {
    match source {
        Source::Class(_) => 1.0,
        _ => (-log / 0.2).clamp(0.0, 1.0),
    }
}
