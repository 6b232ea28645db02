//! Measuring, as far as it is worth it and earned.

use super::{Predictor, Stream};
use crate::analyze::Histogram;
use crate::candidates::{ALL, LZ4, NONE};
use crate::model::{Class, Evidence, eligible, fits};
use crate::probe::{LARGE, SMALL, sample, thread_seconds};
use terrace_cost::{Expected, Objective};

/// How far the size that lz4 makes of a sample may move before a stream counts as changed.
const MOVED: f64 = 0.15;
/// The share of the cost of storing bytes as they are that a candidate's own time may take.
const PRUNE: f64 = 0.9;
/// How much more than that before anything is measured.
const DOUBT: f64 = 3.0;
/// Candidates that are run on the large sample: the best so far,
const FINALISTS: usize = 5;
/// and more where that takes less than such a part of what is earned.
const MORE_FINALISTS: usize = 8;
const AMPLE: f64 = 16.0;
/// Runs on the large sample for one block, at most: each may change who is among the best.
const FINALS: usize = 12;
/// The share of printable bytes that text has.
const TEXT: f64 = 0.97;
/// Bytes that are encoded at a time.
pub const PIECE: usize = 256 << 10;

/// One block, studied for one objective.
pub struct Study<'a> {
    predictor: &'a mut Predictor,
    block: &'a [u8],
    objective: &'a Objective,
    /// The thread's time at which all that was earned is spent.
    until: f64,
    /// Whether the small and the large sample were taken.
    sampled: [bool; 2],
}

/// What the bytes are that came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// As those before.
    Same,
    /// Others than those before; it is known which, or they are new.
    Other,
    /// Others than were measured, and looking at them was not earned.
    Unknown,
}

impl<'a> Study<'a> {
    /// Studies a block of a stream. Whether anything new was learned of it.
    pub fn of(predictor: &'a mut Predictor, stream: &mut Stream, block: &'a [u8], objective: &'a Objective) -> bool {
        let start = thread_seconds();
        let earned = stream.earned(0, objective);
        let mut study = Study { predictor, block, objective, until: start + earned, sampled: [false; 2] };
        let mut found = Found::Same;
        if !stream.known(stream.class()).evidence.is_empty() {
            found = study.check(stream);
        }
        let known = stream.known(stream.class());
        let mut changed = found == Found::Other;
        if found != Found::Unknown && study.deepen(&mut known.evidence) {
            study.predictor.model.learn_from_probes(&known.evidence);
            changed = true;
        }
        stream.spent += thread_seconds() - start;
        changed
    }

    /// Compares what lz4 does now with what it did. Where that has moved, goes on with another kind of bytes of which the same is
    /// known, or with a new one, of which that is all that is known until more is earned.
    fn check(&mut self, stream: &mut Stream) -> Found {
        let class = stream.class();
        let known = stream.known(class);
        let stale = known.stale;
        let unsure = if stale { Found::Unknown } else { Found::Same };
        let mut probes = vec![LZ4, ALL[known.chosen].filter];
        probes.dedup();
        probes.retain(|at| known.evidence.small[*at].is_some());
        if !self.affords(self.effort(&probes)) {
            return unsure;
        }
        let mut now = Evidence::none(known.evidence.class);
        for at in &probes {
            self.probe(*at, &mut now, false);
        }
        let alike = |before: &Evidence| {
            let moved = |at: &usize| {
                let stored = [&now, before].map(|evidence| evidence.small[*at].map(|expected| expected.stored));
                if let [Some(now), Some(before)] = stored { (now / before).ln().abs() } else { 0.0 }
            };
            probes.iter().all(|at| moved(at) <= MOVED)
        };
        if !stale && alike(&known.evidence) {
            return Found::Same;
        }
        if stream.turn_to(class, |known| !known.stale && alike(&known.evidence)) {
            return Found::Other;
        }
        stream.add(class, now);
        Found::Other
    }

    /// Runs what is worth running and not yet run: filters, then the other candidates, then the best on more bytes.
    fn deepen(&mut self, evidence: &mut Evidence) -> bool {
        if !(0..ALL.len()).any(|at| at != NONE && self.is_fast(at, evidence)) {
            return false;
        }
        let mut changed = self.try_probe(LZ4, evidence, false);
        if evidence.is_empty() {
            return changed;
        }
        for at in (0..ALL.len()).filter(|at| ALL[*at].is_filter()) {
            if evidence.class.allows(ALL[at].width()) && self.is_fast(at, evidence) {
                changed |= self.try_probe(at, evidence, false);
            }
        }
        let contenders = self.contenders(evidence);
        for at in self.ranked(&contenders, evidence) {
            if ALL[at].stand_in.is_none() {
                changed |= self.try_probe(at, evidence, false);
            }
        }
        for _ in 0..FINALS {
            let mut best = self.ranked(&contenders, evidence);
            best.retain(|at| eligible(*at, evidence));
            best.truncate(MORE_FINALISTS);
            let ample = |at: usize| self.affords(AMPLE * self.predictor.model.effort(at, true));
            let last = |(rank, at): &(usize, usize)| evidence.large[*at].is_none() && (*rank < FINALISTS || ample(*at));
            let left: Vec<_> = best.into_iter().enumerate().filter(last).collect();
            if !left.iter().any(|(_, at)| self.try_probe(*at, evidence, true)) {
                break;
            }
            changed = true;
        }
        changed
    }

    /// Candidates that may win: fast enough, and of the width whose filter works best.
    fn contenders(&self, evidence: &Evidence) -> Vec<usize> {
        let all = (0..ALL.len()).filter(|at| *at != NONE && fits(*at, evidence));
        all.filter(|at| self.is_fast(*at, evidence)).collect()
    }

    /// By what they are expected to cost, the cheapest first.
    fn ranked(&self, candidates: &[usize], evidence: &Evidence) -> Vec<usize> {
        let cost = |at: usize| self.objective.cost(&self.predictor.model.expect(at, evidence).0, self.block.len());
        let mut ranked: Vec<(usize, f64)> = candidates.iter().map(|at| (*at, cost(*at))).collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked.into_iter().map(|(at, _)| at).collect()
    }

    /// Whether a candidate's own time leaves room for a gain.
    fn is_fast(&self, at: usize, evidence: &Evidence) -> bool {
        let expected = self.predictor.model.expect(at, evidence).0;
        let bytes = self.block.len();
        // What shrinks well is fast, too, and that is known only of what was tried.
        let doubt = if evidence.is_empty() { DOUBT } else { 1.0 };
        self.objective.work(&expected, bytes) < doubt * PRUNE * self.objective.cost(&Expected::NONE, bytes)
    }

    fn effort(&self, probes: &[usize]) -> f64 {
        probes.iter().map(|at| self.predictor.model.effort(*at, false)).sum()
    }

    fn affords(&self, seconds: f64) -> bool {
        thread_seconds() + seconds <= self.until
    }

    /// Runs a candidate on a sample, unless it was run already or that is too dear.
    fn try_probe(&mut self, at: usize, evidence: &mut Evidence, large: bool) -> bool {
        let done = if large { &evidence.large } else { &evidence.small };
        if done[at].is_some() || !self.affords(self.predictor.model.effort(at, large)) {
            return false;
        }
        self.probe(at, evidence, large);
        true
    }

    fn probe(&mut self, at: usize, evidence: &mut Evidence, large: bool) {
        let Predictor { model, bench, samples } = &mut *self.predictor;
        let sampled = &mut samples[usize::from(large)];
        if !self.sampled[usize::from(large)] {
            sample(self.block, if large { LARGE } else { SMALL }, sampled);
            self.sampled[usize::from(large)] = true;
        }
        if evidence.is_empty() {
            let Histogram { entropy, printable } = Histogram::of(sampled);
            evidence.entropy = Some(entropy);
            evidence.printable = printable;
            if evidence.class == Class::Unknown && printable > TEXT {
                evidence.class = Class::Text;
            }
        }
        let start = thread_seconds();
        let whole = self.block.len().min(PIECE) as u32;
        let both = large && self.objective.reads_back();
        // What fails here would fail on the block too: it is never worth choosing.
        let failed = Expected { stored: 1.0, encode: 1.0, decode: 1.0 };
        let probe = bench.run(ALL[at].encoding, sampled, whole, both).unwrap_or(failed);
        model.learn_effort(at, large, thread_seconds() - start);
        let measured = if large { &mut evidence.large } else { &mut evidence.small };
        measured[at] = Some(probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::made;
    use terrace_cost::TargetRates;

    #[test]
    fn kinds_of_bytes_that_come_by_turns_are_known_again() {
        let slow = Objective::time(TargetRates::from_speeds(1e6, 1e6, 0.0), 1.0);
        let [sparse, field] = [1, 4].map(|kind| made(kind, 1 << 20, 7).0);
        let (mut predictor, mut stream) = (Predictor::default(), Stream::new().with_length(1 << 30));
        let mut turn = |block: &[u8]| {
            predictor.choose(&mut stream, block, &slow);
            stream.known(stream.class()).kind
        };
        let first = [turn(&sparse), turn(&field)];
        assert_ne!(first[0], first[1], "they are of different kinds");
        for _ in 0..3 {
            assert_eq!([turn(&sparse), turn(&field)], first);
        }
    }

    #[test]
    fn the_kind_that_has_not_come_for_longest_is_forgotten() {
        let (mut stream, class) = (Stream::new(), Class::Unknown);
        let first = stream.known(class).kind;
        stream.add(class, Evidence::none(class));
        assert!(stream.turn_to(class, |known| known.kind == first));
        (0..7).for_each(|_| stream.add(class, Evidence::none(class)));
        assert!(stream.known_of(class, first).is_some() && stream.known_of(class, first + 1).is_none());
    }
}
