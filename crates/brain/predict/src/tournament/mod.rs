//! The staged tournament, and learning from how its choices turned out.

mod memory;
mod profile;
mod report;
mod stream;
mod study;

use std::mem;

use terrace_codec::Encoding;

use crate::candidates::{ALL, NONE, position};
use crate::model::{Basis, Class, Evidence, LoadError, Model, Source, eligible};
use crate::probe::{Bench, machine, thread_seconds};
pub use memory::Memory;
pub use report::{Report, ReportRow};
pub use stream::Stream;
use study::Study;
use terrace_cost::{Expected, Objective};

/// What was chosen for a block, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// What to encode it with.
    pub encoding: Encoding,
    /// What that is expected to do, for each raw byte.
    pub expected: Expected,
    /// By what share it is to be taken for dearer than that, as it was guessed from little.
    doubt: f64,
    at: usize,
    class: Class,
    kind: u32,
    basis: Basis,
}

impl Choice {
    /// What it is expected to do, made worse by how little is known of it: of many guesses the best is likely to be too good. What
    /// choices are to be weighed with.
    pub fn weighed(&self) -> Expected {
        let Expected { stored, encode, decode } = self.expected;
        let dearer = 1.0 + self.doubt;
        Expected { stored: stored * dearer, encode: encode * dearer, decode: decode * dearer }
    }
}

/// How a choice turned out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Raw bytes encoded.
    pub bytes: usize,
    /// Bytes stored, if they were encoded just now.
    pub stored: Option<usize>,
    /// Seconds of thread time to encode them.
    pub encode: Option<f64>,
    /// Seconds of thread time to decode them.
    pub decode: Option<f64>,
}

/// Chooses encodings by trying them on samples, as far as the time that takes is earned, and learns from what comes out.
/// One for each thread, or behind a lock.
pub struct Predictor {
    model: Model,
    bench: Bench,
    samples: [Vec<u8>; 2],
}

/// What a new predictor knows: of made-up data on some machine.
const SEED: &str = include_str!("../seed.json");

/// How far what really comes out may move before a stream counts as changed.
const REALISED_MOVED: f64 = 0.10;

/// How much dearer than expected a choice may turn out before it is thought over.
const SURPRISE: f64 = 0.03;

/// By what share a candidate is taken for dearer than expected that was not run on the large sample: by what it was guessed from,
/// its own run on the small sample, its stand-in's, or less.
const DOUBT: [f64; 3] = [0.04, 0.08, 0.12];

impl Default for Predictor {
    fn default() -> Self {
        let machine = machine();
        Predictor::with(Model::from_json(SEED, machine).unwrap_or_else(|_| Model::new(machine)))
    }
}

impl Predictor {
    /// One that knows nothing yet.
    pub fn ignorant() -> Self {
        Predictor::with(Model::new(machine()))
    }

    /// From what [`Predictor::save`] made, on this machine or another: speeds are rescaled.
    ///
    /// # Errors
    /// Where the text is something else.
    pub fn load(json: &str) -> Result<Self, LoadError> {
        Ok(Predictor::with(Model::from_json(json, machine())?))
    }

    /// What it has learned, as JSON.
    pub fn save(&self) -> String {
        self.model.to_json()
    }

    fn with(model: Model) -> Self {
        Predictor { model, bench: Bench::default(), samples: Default::default() }
    }

    /// Chooses for the next block of a stream.
    pub fn choose(&mut self, stream: &mut Stream, block: &[u8], objective: &Objective) -> Choice {
        let learned = self.study(stream, block, objective);
        let class = stream.class();
        // Thinking, too, must be paid for, but where it is known to be wrong.
        let earned = stream.earned(0, objective) > 0.0;
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

    /// Studies the next block of a stream for an objective, as far as that is earned; whether what is expected changed by
    /// it, or by how the last choice turned out. For a planner, which then chooses by itself among what is [`expected`](Predictor::expected). Takes the
    /// place of [`Predictor::choose`].
    pub fn study(&mut self, stream: &mut Stream, block: &[u8], objective: &Objective) -> bool {
        let before = (stream.class(), stream.spent);
        let start = thread_seconds();
        stream.see(block, stream.earned(block.len(), objective));
        stream.spent += thread_seconds() - start;
        let learned = stream.earned(0, objective) > 0.0 && Study::of(self, stream, block, objective);
        let record = &mut self.model.record;
        record.spent += stream.spent - before.1;
        record.transfer += objective.transfer(block.len() as u64);
        stream.objective = Some(*objective);
        let surprised = mem::take(&mut stream.known(stream.class()).surprised);
        learned || surprised || stream.class() != before.0
    }

    /// What is expected of every candidate on bytes such as the last of a stream, as far as enough is known of them.
    pub fn expected(&self, stream: &Stream) -> Vec<Choice> {
        let class = stream.class();
        let nothing = Evidence::none(class);
        let (kind, evidence) = stream.known_now().map_or((0, &nothing), |known| (known.kind, &known.evidence));
        (0..ALL.len()).filter(|at| eligible(*at, evidence)).map(|at| self.choice(at, class, kind, evidence)).collect()
    }

    /// Learns from how a choice turned out, at once or when the bytes are read again.
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
        if choice.at == NONE {
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
            known.surprised |=
                objective.is_some_and(|o| cost(&o, &now) > (1.0 + SURPRISE) * cost(&o, &choice.expected));
            match known.realised {
                Some((at, before)) if at == choice.at => {
                    known.stale |= (stored / before).ln().abs() > REALISED_MOVED;
                }
                _ => known.realised = Some((choice.at, stored)),
            }
        }
    }

    /// Learns how long it took to decode a piece whose choice is long forgotten: when it is read.
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
            _ if at == NONE || evidence.real[at].is_some() => 0.0,
            Source::Large => 0.0,
            Source::Small => DOUBT[0],
            Source::StandIn => DOUBT[1],
            Source::Filter | Source::Class(_) => DOUBT[2],
        };
        Choice { encoding: ALL[at].encoding, expected, doubt, at, class, kind, basis }
    }

    /// The cheapest candidate among those of which enough is known.
    fn best(&self, evidence: &Evidence, objective: &Objective, bytes: usize) -> usize {
        let cost = |at: usize| {
            let choice = self.choice(at, evidence.class, 0, evidence);
            objective.cost(&choice.weighed(), bytes)
        };
        let all = (0..ALL.len()).filter(|at| eligible(*at, evidence)).map(|at| (at, cost(at)));
        all.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(NONE, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::made;
    use terrace_cost::TargetRates;

    fn slow() -> Objective {
        Objective::time(TargetRates::from_speeds(1e6, 1e6, 0.0), 1.0)
    }

    #[test]
    fn what_turned_out_dearer_is_expected_anew_at_once() {
        let (mut predictor, mut stream) = (Predictor::default(), Stream::new().with_length(1 << 20));
        let block = made(4, 1 << 20, 7).0;
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
    fn what_was_guessed_from_less_counts_as_dearer() {
        let (mut predictor, mut stream) = (Predictor::default(), Stream::new().with_length(1 << 30));
        predictor.study(&mut stream, &made(4, 1 << 20, 7).0, &slow());
        let known = stream.known_now().expect("studied");
        let choices = predictor.expected(&stream);
        let doubts = |large: bool| {
            let of = choices.iter().filter(move |choice| known.evidence.large[choice.at].is_some() == large);
            of.filter(|choice| choice.at != NONE).map(|choice| choice.weighed().stored / choice.expected.stored - 1.0)
        };
        assert!(doubts(true).all(|doubt| doubt == 0.0) && doubts(true).count() > 3);
        assert!(doubts(false).all(|doubt| doubt > 0.03) && doubts(false).count() > 3);
    }
}
