//! [`StudiedStream`]: a stream, and the expected cost of each encoding on its next bytes.

use std::sync::Arc;

use terrace_codec::{Element, Encoding};
use terrace_cost::{Costs, Expected};

use crate::aim::Aim;
use crate::analyze::Elements;
use crate::tournament::{Choice, Memory, Outcome, Predictor, Stream};

/// The expectation is computed again after this number of outcomes.
const OUTCOMES_PER_UPDATE: u32 = 8;

/// A stream, and the expected cost of each encoding on its next bytes, for a planner.
pub struct StudiedStream {
    stream: Stream,
    choices: Vec<Choice>,
    costs: Arc<Costs>,
    /// The number of outcomes since `costs` was computed.
    outcomes: u32,
}

impl StudiedStream {
    /// Creates a stream about which nothing is known except the type of its elements. Only raw storage is expected to make sense.
    pub fn new(element: Option<Element>) -> StudiedStream {
        let stream = element.map_or_else(Stream::new, |element| Stream::new().with_elements(Elements::of(element)));
        StudiedStream { stream, choices: Vec::new(), costs: Arc::new(Costs::new([])), outcomes: 0 }
    }

    /// Creates a stream that goes on where another process left it.
    pub fn recall(element: Option<Element>, predictor: &Predictor, memory: &Memory) -> StudiedStream {
        let mut new = StudiedStream::new(element);
        predictor.recall(&mut new.stream, memory);
        new.choices = predictor.expected(&new.stream);
        new.costs = Arc::new(Costs::new(weigh(&new.choices)));
        new
    }

    /// Returns the part of its state to save.
    pub fn remember(&self, predictor: &Predictor) -> Memory {
        predictor.remember(&self.stream)
    }

    /// Returns whether no bytes of the stream were seen yet.
    pub fn is_new(&self) -> bool {
        self.stream.is_new()
    }

    /// Returns whether nothing is expected of any encoding.
    pub fn is_unknown(&self) -> bool {
        self.choices.is_empty()
    }

    /// Returns the expected cost of each encoding on the next bytes.
    pub fn costs(&self) -> &Arc<Costs> {
        &self.costs
    }

    /// Studies bytes of the stream, which are at a place of a file. Returns whether the expected costs changed.
    pub fn study(&mut self, predictor: &mut Predictor, (file, place): (u64, u64), raw: &[u8], aim: &Aim) -> bool {
        if let Some(objective) = aim.slowest_objective().filter(|_| self.is_new()) {
            self.stream.lend(raw.len() as u64, &objective);
        }
        self.stream.at(file, place);
        let learned = predictor.study(&mut self.stream, raw, &aim.objective());
        if !learned && self.outcomes < OUTCOMES_PER_UPDATE {
            return false;
        }
        self.outcomes = 0;
        self.choices = predictor.expected(&self.stream);
        self.costs = Arc::new(Costs::new(weigh(&self.choices)).steady(&self.costs));
        true
    }

    /// Learns from the result of an encoding.
    pub fn learn(&mut self, predictor: &mut Predictor, encoding: Encoding, outcome: &Outcome) {
        let Some(choice) = self.choices.iter().find(|choice| choice.encoding == encoding).copied() else { return };
        predictor.feedback(&mut self.stream, &choice, outcome);
        self.outcomes += 1;
    }
}

/// Converts choices to the planner's form.
pub fn weigh(choices: &[Choice]) -> impl Iterator<Item = (Encoding, Expected)> {
    choices.iter().map(|choice| (choice.encoding, choice.weighed()))
}
