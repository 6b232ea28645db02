//! The staged tournament between encodings, and learning from its outcomes.

mod memory;
mod profile;
mod report;
mod stream;
mod study;

use std::mem;

use study::Study;
use terrace_codec::Encoding;
use terrace_cost::{Expected, Objective};
use terrace_system::clock::thread_seconds;

use crate::candidates::{ALL_CANDIDATES, NONE_INDEX, position};
use crate::model::{Basis, Class, Evidence, LoadError, Model, Source, eligible};
use crate::probe::{Bench, measure_machine};

pub use memory::Memory;
pub use report::{Report, ReportRow};
pub use stream::Stream;

/// The choice for a block, and its basis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The encoding.
    pub encoding: Encoding,
    /// The expected result per raw byte.
    pub expected: Expected,
    /// The share by which the expected cost is increased for comparisons, because it is estimated from little evidence.
    doubt: f64,
    at: usize,
    class: Class,
    kind: u32,
    basis: Basis,
}

impl Choice {
    /// Returns the expected result, increased by its uncertainty. Choices should be compared by this: the best of many
    /// estimates is likely to be too optimistic.
    pub fn weighed(&self) -> Expected {
        let Expected { stored, encode, decode } = self.expected;
        let dearer = 1.0 + self.doubt;
        Expected { stored: stored * dearer, encode: encode * dearer, decode: decode * dearer }
    }
}

/// The outcome of a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The number of raw bytes encoded.
    pub bytes: usize,
    /// The number of stored bytes, if the bytes were encoded just now.
    pub stored: Option<usize>,
    /// The thread time to encode them, in seconds.
    pub encode: Option<f64>,
    /// The thread time to decode them, in seconds.
    pub decode: Option<f64>,
}

/// Chooses encodings by trying them on samples, as far as the time budget allows, and learns from the outcomes. Each
/// thread needs its own predictor, or a lock around it.
///
/// ```
/// use terrace_codec::{Encoding, Scratch, encode};
/// use terrace_cost::{Objective, TargetRates};
/// use terrace_predict::{Outcome, Predictor, Stream};
///
/// // A slow target, at 1 MB/s, from which the bytes are read once.
/// let objective = Objective::time(TargetRates::from_speeds(1e6, 1e6, 0.0), 1.0);
/// let block: Vec<u8> = (0..1 << 18).flat_map(|n: u32| (n / 7).to_le_bytes()).collect();
/// let (mut predictor, mut stream) = (Predictor::default(), Stream::new());
/// let choice = predictor.choose(&mut stream, &block, &objective);
/// assert_ne!(choice.encoding, Encoding::NONE);
///
/// let mut stored = Vec::new();
/// encode(choice.encoding, &block, &mut stored, &mut Scratch::default())?;
/// let outcome = Outcome { bytes: block.len(), stored: Some(stored.len()), encode: None, decode: None };
/// predictor.feedback(&mut stream, &choice, &outcome);
/// # Ok::<(), terrace_codec::Error>(())
/// ```
pub struct Predictor {
    model: Model,
    bench: Bench,
    samples: [Vec<u8>; 2],
}

/// The model of a new predictor, trained on synthetic data on some machine.
const SEED_MODEL_JSON: &str = include_str!("../seed.json");

/// The change of the realised size above which a stream counts as changed.
const MAX_REALISED_SIZE_CHANGE: f64 = 0.10;

/// A choice that costs more than expected by more than this share is reconsidered.
const MAX_EXPECTED_COST_EXCESS: f64 = 0.03;

/// The shares by which the expected cost of a candidate is increased that did not run on the large sample: if the
/// estimate is from its own run on the small sample, from its stand-in's run, or from less.
const UNCERTAINTY_SURCHARGES: [f64; 3] = [0.04, 0.08, 0.12];

impl Default for Predictor {
    fn default() -> Self {
        let machine = measure_machine();
        Predictor::from_model(Model::from_json(SEED_MODEL_JSON, machine).unwrap_or_else(|_| Model::new(machine)))
    }
}

impl Predictor {
    /// Creates an untrained predictor.
    pub fn ignorant() -> Self {
        Predictor::from_model(Model::new(measure_machine()))
    }

    /// Creates a predictor from the result of [`Predictor::save`] on this machine or another; speeds are rescaled.
    ///
    /// # Errors
    /// An error if the text is not a saved predictor.
    pub fn load(json: &str) -> Result<Self, LoadError> {
        Ok(Predictor::from_model(Model::from_json(json, measure_machine())?))
    }

    /// Returns the learned model as JSON.
    pub fn save(&self) -> String {
        self.model.to_json()
    }

    fn from_model(model: Model) -> Self {
        Predictor { model, bench: Bench::default(), samples: Default::default() }
    }

    /// Chooses for the next block of a stream.
    pub fn choose(&mut self, stream: &mut Stream, block: &[u8], objective: &Objective) -> Choice {
        let learned = self.study(stream, block, objective);
        let class = stream.class();
        // Choosing also needs budget, unless the last choice is known to be wrong.
        let earned = stream.remaining_budget(0, objective) > 0.0;
        let known = stream.known(class);
        if learned || earned && known.decided != Some(*objective) {
            let start = thread_seconds();
            known.chosen = self.best(&known.evidence, objective, block.len());
            known.decided = Some(*objective);
            let took = thread_seconds() - start;
            stream.spent += took;
            self.model.record.spent += took;
        }
        let known = stream.known(class);
        self.choice(known.chosen, class, known.kind, &known.evidence)
    }

    /// Studies the next block of a stream for an objective, as far as the budget allows. Returns whether the
    /// expectations changed, by the study or by the outcome of the last choice. A planner uses this instead of
    /// [`Predictor::choose`], and then chooses itself among the [`expected`](Predictor::expected) results.
    pub fn study(&mut self, stream: &mut Stream, block: &[u8], objective: &Objective) -> bool {
        let before = (stream.class(), stream.spent);
        let start = thread_seconds();
        stream.add_block(block, stream.remaining_budget(block.len(), objective));
        stream.spent += thread_seconds() - start;
        let learned = stream.remaining_budget(0, objective) > 0.0 && Study::run(self, stream, block, objective);
        let record = &mut self.model.record;
        record.spent += stream.spent - before.1;
        record.transfer += objective.transfer(block.len() as u64);
        stream.objective = Some(*objective);
        let surprised = mem::take(&mut stream.known(stream.class()).surprised);
        learned || surprised || stream.class() != before.0
    }

    /// Returns the expected result of every candidate on bytes like the last block of a stream, for candidates with
    /// enough evidence.
    pub fn expected(&self, stream: &Stream) -> Vec<Choice> {
        let class = stream.class();
        let nothing = Evidence::none(class);
        let (kind, evidence) = stream.known_now().map_or((0, &nothing), |known| (known.kind, &known.evidence));
        (0..ALL_CANDIDATES.len())
            .filter(|at| eligible(*at, evidence))
            .map(|at| self.choice(at, class, kind, evidence))
            .collect()
    }

    /// Learns from the outcome of a choice, at once or when the bytes are read again.
    pub fn feedback(&mut self, stream: &mut Stream, choice: &Choice, outcome: &Outcome) {
        let bytes = outcome.bytes as f64;
        if outcome.bytes == 0 {
            return;
        }
        if outcome.stored.is_some() {
            self.model.record.tallies[choice.at].chosen += 1;
        }
        let objective = stream.objective;
        if let Some(known) = stream.known_of(choice.class, choice.kind) {
            known.chosen = choice.at;
        }
        if choice.at == NONE_INDEX {
            return;
        }
        let stored = outcome.stored.map(|stored| stored as f64 / bytes);
        let each = |seconds: Option<f64>| seconds.map(|seconds| seconds / bytes);
        let (encode, decode) = (each(outcome.encode), each(outcome.decode));
        self.model.record.compare(choice.at, &choice.expected, bytes, [stored, encode, decode]);
        self.model.learn(choice.at, &choice.basis, stored, encode, decode);
        if let Some((stored, known)) = stored.zip(stream.known_of(choice.class, choice.kind)) {
            let real = Expected { stored, encode: encode.unwrap_or(0.0), decode: decode.unwrap_or(0.0) };
            known.evidence.realise(choice.at, real);
            let cost = |objective: &Objective, expected| objective.cost(expected, outcome.bytes);
            let now = self.model.expect(choice.at, &known.evidence).0;
            known.surprised |= objective
                .is_some_and(|o| cost(&o, &now) > (1.0 + MAX_EXPECTED_COST_EXCESS) * cost(&o, &choice.expected));
            match known.realised {
                Some((at, before)) if at == choice.at => {
                    known.stale |= (stored / before).ln().abs() > MAX_REALISED_SIZE_CHANGE;
                }
                _ => known.realised = Some((choice.at, stored)),
            }
        }
    }

    /// Learns from the time to decode a piece that was chosen for long ago.
    pub fn decoded(&mut self, encoding: Encoding, bytes: usize, stored: usize, seconds: f64) {
        let Some(at) = position(encoding).filter(|_| bytes > 0 && stored > 0) else { return };
        let share = stored as f64 / bytes as f64;
        let each = Some(seconds / bytes as f64);
        let (expected, basis) = self.model.expect_of_size(at, share);
        self.model.record.compare(at, &expected, bytes as f64, [None, None, each]);
        self.model.learn(at, &basis, None, None, each);
    }

    fn choice(&self, at: usize, class: Class, kind: u32, evidence: &Evidence) -> Choice {
        let (expected, basis) = self.model.expect(at, evidence);
        let doubt = match basis.source {
            _ if at == NONE_INDEX || evidence.real[at].is_some() => 0.0,
            Source::Large => 0.0,
            Source::Small => UNCERTAINTY_SURCHARGES[0],
            Source::StandIn => UNCERTAINTY_SURCHARGES[1],
            Source::Filter | Source::Class(_) => UNCERTAINTY_SURCHARGES[2],
        };
        Choice { encoding: ALL_CANDIDATES[at].encoding, expected, doubt, at, class, kind, basis }
    }

    /// Returns the cheapest candidate among those with enough evidence.
    fn best(&self, evidence: &Evidence, objective: &Objective, bytes: usize) -> usize {
        let cost = |at: usize| {
            let choice = self.choice(at, evidence.class, 0, evidence);
            objective.cost(&choice.weighed(), bytes)
        };
        let all = (0..ALL_CANDIDATES.len()).filter(|at| eligible(*at, evidence)).map(|at| (at, cost(at)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(NONE_INDEX, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{MadeKind, generate};
    use terrace_cost::TargetRates;

    fn slow() -> Objective {
        Objective::time(TargetRates::from_speeds(1e6, 1e6, 0.0), 1.0)
    }

    #[test]
    fn an_encoding_that_cost_more_than_expected_is_estimated_again_at_once() {
        // So much comes that the first study measures all that it wants, even where codecs are slow.
        let (mut predictor, mut stream) = (Predictor::default(), Stream::new().with_length(1 << 30));
        let block = generate(MadeKind::FieldF64, 1 << 20, 7).0;
        let mut chosen = predictor.choose(&mut stream, &block, &slow());
        for (times, news) in [(1.0, false), (1.09, true), (1.0, false)] {
            let before = chosen.expected.stored;
            let stored = (times * before * block.len() as f64) as usize;
            let outcome = Outcome { bytes: block.len(), stored: Some(stored), encode: None, decode: None };
            predictor.feedback(&mut stream, &chosen, &outcome);
            assert_eq!(predictor.study(&mut stream, &block, &slow()), news, "{times} times what was expected");
            let all = predictor.expected(&stream);
            chosen = *all.iter().find(|choice| choice.encoding == chosen.encoding).expect("it was used");
            assert_eq!(chosen.expected.stored > 1.03 * before, news, "{chosen:?} where {before} was expected");
        }
    }

    #[test]
    fn estimates_from_less_evidence_count_as_dearer() {
        let (mut predictor, mut stream) = (Predictor::default(), Stream::new().with_length(1 << 30));
        predictor.study(&mut stream, &generate(MadeKind::FieldF64, 1 << 20, 7).0, &slow());
        let known = stream.known_now().expect("studied");
        let choices = predictor.expected(&stream);
        let doubts = |large: bool| {
            let of = choices.iter().filter(move |choice| known.evidence.large[choice.at].is_some() == large);
            of.filter(|choice| choice.at != NONE_INDEX)
                .map(|choice| choice.weighed().stored / choice.expected.stored - 1.0)
        };
        assert!(doubts(true).all(|doubt| doubt == 0.0) && doubts(true).count() > 3);
        assert!(doubts(false).all(|doubt| doubt > 0.03) && doubts(false).count() > 3);
    }
}
