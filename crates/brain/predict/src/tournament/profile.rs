//! Profiling: one-time training of the model, so that a new store does not start with guesses.

use std::collections::BTreeMap;

use terrace_cost::Expected;
use terrace_system::clock::thread_seconds;

use super::study::ENCODED_PIECE_BYTES;
use super::{Choice, Predictor};
use crate::ProfiledTier;
use crate::analyze::{Analysis, Content, Elements, Histogram};
use crate::candidates::{ALL_CANDIDATES, NONE_INDEX};
use crate::model::{Class, Evidence};
use crate::probe::{LARGE_SAMPLE_BYTES, SMALL_SAMPLE_BYTES, take_sample};

/// Runs that take longer than this, in seconds, are done once; others are done twice.
const MAX_REPEATED_RUN_SECONDS: f64 = 0.006;

impl Predictor {
    /// Returns the speeds of tiers by name, as profiled.
    pub fn tiers(&self) -> &BTreeMap<String, ProfiledTier> {
        &self.model.tiers
    }

    /// Stores the speed of a tier.
    pub fn keep_tier(&mut self, name: &str, tier: ProfiledTier) {
        self.model.tiers.insert(name.to_owned(), tier);
    }

    /// Runs every candidate on samples of a block and on the whole block, and learns from each run. The block should be
    /// as long as one encoded piece, 256 KiB. `elements` is the type of its elements, if known. Takes about half a
    /// second.
    ///
    /// # Errors
    /// [`terrace_codec::Error`] if a codec's library fails.
    pub fn profile(&mut self, block: &[u8], elements: Option<Elements>) -> Result<(), terrace_codec::Error> {
        let evidence = self.evidence(block, elements, true)?;
        let whole = block.len() as u32;
        let mut real = vec![Expected::NONE; ALL_CANDIDATES.len()];
        for at in (0..ALL_CANDIDATES.len()).filter(|at| *at != NONE_INDEX) {
            let encoding = ALL_CANDIDATES[at].encoding;
            let first = self.bench.run(encoding, block, whole, true)?;
            real[at] = first;
            if (first.encode + first.decode) * block.len() as f64 <= MAX_REPEATED_RUN_SECONDS {
                let again = self.bench.run(encoding, block, whole, true)?;
                real[at].encode = first.encode.min(again.encode);
                real[at].decode = first.decode.min(again.decode);
            }
        }
        for (at, real) in real.iter().enumerate().filter(|(at, _)| *at != NONE_INDEX) {
            for less in weaken_evidence(&evidence, at) {
                let (_, basis) = self.model.expect(at, &less);
                self.model.learn(at, &basis, Some(real.stored), Some(real.encode), Some(real.decode));
            }
        }
        Ok(())
    }

    /// The expected cost of every candidate on a block after a probe of each on 8 KiB, or where `large` also on 64 KiB.
    ///
    /// # Errors
    /// [`terrace_codec::Error`] if a codec's library fails.
    pub fn survey(
        &mut self,
        block: &[u8],
        elements: Option<Elements>,
        large: bool,
    ) -> Result<Vec<Choice>, terrace_codec::Error> {
        let evidence = self.evidence(block, elements, large)?;
        Ok((0..ALL_CANDIDATES.len()).map(|at| self.choice(at, evidence.class, 0, &evidence)).collect())
    }

    /// Probes every candidate.
    fn evidence(
        &mut self,
        block: &[u8],
        elements: Option<Elements>,
        both: bool,
    ) -> Result<Evidence, terrace_codec::Error> {
        let format = Analysis::of(block, elements)?.format;
        let [mut small, mut large] = [Vec::new(), Vec::new()];
        take_sample(block, SMALL_SAMPLE_BYTES, &mut small);
        take_sample(block, LARGE_SAMPLE_BYTES, &mut large);
        let Histogram { entropy, printable } = Histogram::of(&small);
        let class = Class::of(format, elements.map(Content::Numbers));
        let mut evidence = Evidence { entropy: Some(entropy), printable, ..Evidence::none(class) };
        let whole = block.len().min(ENCODED_PIECE_BYTES) as u32;
        for at in (0..ALL_CANDIDATES.len()).filter(|at| *at != NONE_INDEX) {
            for (bytes, large) in [(&small, false), (&large, true)].into_iter().take(if both { 2 } else { 1 }) {
                let start = thread_seconds();
                let probe = self.bench.run(ALL_CANDIDATES[at].encoding, bytes, whole, large)?;
                self.model.learn_effort(at, large, thread_seconds() - start);
                let measured = if large { &mut evidence.large } else { &mut evidence.small };
                measured[at] = Some(probe);
            }
        }
        Ok(evidence)
    }
}

/// Returns copies of the evidence for a candidate, each one without the most reliable source of the preceding copy.
fn weaken_evidence(evidence: &Evidence, at: usize) -> Vec<Evidence> {
    let mut all = vec![evidence.clone()];
    let mut less = |forget: &dyn Fn(&mut Evidence)| {
        let mut next = all.last().cloned().unwrap_or_default();
        forget(&mut next);
        all.push(next);
    };
    less(&|e| e.large[at] = None);
    if !ALL_CANDIDATES[at].is_filter() {
        less(&|e| e.small[at] = None);
        if let Some(stand_in) = ALL_CANDIDATES[at].stand_in {
            less(&|e| e.small[stand_in] = None);
        }
    }
    less(&|e| *e = Evidence::none(e.class));
    all
}
