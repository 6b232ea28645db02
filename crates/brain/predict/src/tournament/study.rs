//! Measurements, as far as they are worthwhile and the budget allows.

use terrace_cost::{Expected, Objective};
use terrace_system::clock::thread_seconds;

use super::{Predictor, Stream};
use crate::analyze::Histogram;
use crate::candidates::{ALL_CANDIDATES, LZ4_INDEX, NONE_INDEX};
use crate::model::{Class, Evidence, eligible, fits};
use crate::probe::{LARGE_SAMPLE_BYTES, SMALL_SAMPLE_BYTES, take_sample};

/// The change of the logarithm of a sample's lz4 size above which a stream counts as changed.
const MAX_PROBE_SIZE_CHANGE: f64 = 0.15;
/// A candidate's own time may take at most this share of the cost of storing the bytes raw.
const MAX_TIME_SHARE_OF_RAW_COST: f64 = 0.9;
/// The factor by which that share is larger before anything is measured.
const UNMEASURED_TIME_SHARE_FACTOR: f64 = 3.0;
/// The number of best candidates that run on the large sample,
const DEFAULT_FINALISTS: usize = 5;
/// and the higher number if these runs take less than 1 / `MORE_FINALISTS_BUDGET_FACTOR` of the budget.
const MAX_FINALISTS: usize = 8;
const MORE_FINALISTS_BUDGET_FACTOR: f64 = 16.0;
/// The maximum number of runs on the large sample per block; each run may change which candidates are best.
const MAX_LARGE_PROBES_PER_BLOCK: usize = 12;
/// The minimum share of printable bytes in text.
const MIN_TEXT_BYTE_SHARE: f64 = 0.97;
/// The number of bytes encoded at a time.
pub const ENCODED_PIECE_BYTES: usize = 256 << 10;

/// The study of one block for one objective.
pub struct Study<'a> {
    predictor: &'a mut Predictor,
    block: &'a [u8],
    objective: &'a Objective,
    /// The thread time at which the budget is spent.
    until: f64,
    /// Whether the small and the large sample were taken.
    sampled: [bool; 2],
}

/// The relation of the block to the preceding ones.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    /// The block is like the preceding ones.
    Same,
    /// The block differs from the preceding ones; its kind is known or was added.
    Other,
    /// The block may differ from the measured ones, and the budget allows no measurement.
    Unknown,
}

impl<'a> Study<'a> {
    /// Studies a block of a stream; returns whether the evidence changed.
    pub fn run(predictor: &'a mut Predictor, stream: &mut Stream, block: &'a [u8], objective: &'a Objective) -> bool {
        let start = thread_seconds();
        let earned = stream.remaining_budget(0, objective);
        let mut study = Study { predictor, block, objective, until: start + earned, sampled: [false; 2] };
        let mut found = Found::Same;
        if !stream.known(stream.class()).evidence.is_empty() {
            found = study.compare_with_evidence(stream);
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

    /// Compares the lz4 sizes of this block with those of the evidence. If they differ, selects another kind with
    /// matching sizes, or adds a new kind whose only evidence is these sizes until the budget allows more.
    fn compare_with_evidence(&mut self, stream: &mut Stream) -> Found {
        let class = stream.class();
        let known = stream.known(class);
        let stale = known.stale;
        let unsure = if stale { Found::Unknown } else { Found::Same };
        let mut probes = vec![LZ4_INDEX, ALL_CANDIDATES[known.chosen].filter];
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
            probes.iter().all(|at| moved(at) <= MAX_PROBE_SIZE_CHANGE)
        };
        if !stale && alike(&known.evidence) {
            return Found::Same;
        }
        if stream.select_kind(class, |known| !known.stale && alike(&known.evidence)) {
            return Found::Other;
        }
        stream.add(class, now);
        Found::Other
    }

    /// Runs the worthwhile probes that have not run yet: the filters, then the other candidates, then the best
    /// candidates on the large sample.
    fn deepen(&mut self, evidence: &mut Evidence) -> bool {
        if !(0..ALL_CANDIDATES.len()).any(|at| at != NONE_INDEX && self.is_fast(at, evidence)) {
            return false;
        }
        let mut changed = self.try_probe(LZ4_INDEX, evidence, false);
        if evidence.is_empty() {
            return changed;
        }
        for at in (0..ALL_CANDIDATES.len()).filter(|at| ALL_CANDIDATES[*at].is_filter()) {
            if evidence.class.allows(ALL_CANDIDATES[at].width()) && self.is_fast(at, evidence) {
                changed |= self.try_probe(at, evidence, false);
            }
        }
        let contenders = self.contenders(evidence);
        for at in self.ranked(&contenders, evidence) {
            if ALL_CANDIDATES[at].stand_in.is_none() {
                changed |= self.try_probe(at, evidence, false);
            }
        }
        for _ in 0..MAX_LARGE_PROBES_PER_BLOCK {
            let mut best = self.ranked(&contenders, evidence);
            best.retain(|at| eligible(*at, evidence));
            best.truncate(MAX_FINALISTS);
            let ample = |at: usize| self.affords(MORE_FINALISTS_BUDGET_FACTOR * self.predictor.model.effort(at, true));
            let last = |(rank, at): &(usize, usize)| {
                evidence.large[*at].is_none() && (*rank < DEFAULT_FINALISTS || ample(*at))
            };
            let left: Vec<_> = best.into_iter().enumerate().filter(last).collect();
            if !left.iter().any(|(_, at)| self.try_probe(*at, evidence, true)) {
                break;
            }
            changed = true;
        }
        changed
    }

    /// Returns the candidates that may be chosen: fast enough, and of the element width whose filter is best.
    fn contenders(&self, evidence: &Evidence) -> Vec<usize> {
        let all = (0..ALL_CANDIDATES.len()).filter(|at| *at != NONE_INDEX && fits(*at, evidence));
        all.filter(|at| self.is_fast(*at, evidence)).collect()
    }

    /// Sorts candidates by expected cost, cheapest first.
    fn ranked(&self, candidates: &[usize], evidence: &Evidence) -> Vec<usize> {
        let cost = |at: usize| self.objective.cost(&self.predictor.model.expect(at, evidence).0, self.block.len());
        let mut ranked: Vec<(usize, f64)> = candidates.iter().map(|at| (*at, cost(*at))).collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked.into_iter().map(|(at, _)| at).collect()
    }

    /// Returns whether a candidate is fast enough for a gain.
    fn is_fast(&self, at: usize, evidence: &Evidence) -> bool {
        let expected = self.predictor.model.expect(at, evidence).0;
        let bytes = self.block.len();
        // Encoding is faster on bytes that shrink well, which is known only for measured candidates.
        let doubt = if evidence.is_empty() { UNMEASURED_TIME_SHARE_FACTOR } else { 1.0 };
        self.objective.work(&expected, bytes)
            < doubt * MAX_TIME_SHARE_OF_RAW_COST * self.objective.cost(&Expected::NONE, bytes)
    }

    fn effort(&self, probes: &[usize]) -> f64 {
        probes.iter().map(|at| self.predictor.model.effort(*at, false)).sum()
    }

    fn affords(&self, seconds: f64) -> bool {
        thread_seconds() + seconds <= self.until
    }

    /// Runs a candidate on a sample, unless it already ran or exceeds the budget. Returns whether it ran.
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
            take_sample(self.block, if large { LARGE_SAMPLE_BYTES } else { SMALL_SAMPLE_BYTES }, sampled);
            self.sampled[usize::from(large)] = true;
        }
        if evidence.is_empty() {
            let Histogram { entropy, printable } = Histogram::of(sampled);
            evidence.entropy = Some(entropy);
            evidence.printable = printable;
            if evidence.class == Class::Unknown && printable > MIN_TEXT_BYTE_SHARE {
                evidence.class = Class::Text;
            }
        }
        let start = thread_seconds();
        let whole = self.block.len().min(ENCODED_PIECE_BYTES) as u32;
        let both = large && self.objective.reads_back();
        // A candidate that fails here would also fail on the block, so that it is recorded as never worthwhile.
        let failed = Expected { stored: 1.0, encode: 1.0, decode: 1.0 };
        let probe = bench.run(ALL_CANDIDATES[at].encoding, sampled, whole, both).unwrap_or(failed);
        model.learn_effort(at, large, thread_seconds() - start);
        let measured = if large { &mut evidence.large } else { &mut evidence.small };
        measured[at] = Some(probe);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{MadeKind, generate};
    use terrace_cost::TargetRates;

    #[test]
    fn alternating_kinds_of_bytes_are_recognised() {
        let slow = Objective::time(TargetRates::from_speeds(1e6, 1e6, 0.0), 1.0);
        let [sparse, field] = [MadeKind::Sparse, MadeKind::FieldF64].map(|kind| generate(kind, 1 << 20, 7).0);
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
    fn the_least_recent_kind_is_forgotten() {
        let (mut stream, class) = (Stream::new(), Class::Unknown);
        let first = stream.known(class).kind;
        stream.add(class, Evidence::none(class));
        assert!(stream.select_kind(class, |known| known.kind == first));
        (0..7).for_each(|_| stream.add(class, Evidence::none(class)));
        assert!(stream.known_of(class, first).is_some() && stream.known_of(class, first + 1).is_none());
    }
}
