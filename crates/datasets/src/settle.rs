//! Bringing replicas up to date: what a file lacks is made of the other replicas, whatever their layout is.

use std::ops::Range;

use terrace_views::convert::{Plan, Stored};

use crate::dataset::{ATTEMPTS, Shared};
use crate::loaded::{Loaded, Seen};
use crate::read::{Attempt, Trouble};
use crate::state::State;
use crate::writer::Writer;
use crate::{Error, Result};

/// What is made at once.
const STEP: u64 = 4 << 20;
/// Of more than this, only what is stored elsewhere is made: the rest may be one great hole.
const LONG: u64 = 64 << 20;
/// Stored parts less than this apart are one.
const NEAR: u64 = 1 << 20;
/// What the store verifies at once.
const CHUNK: usize = 64 << 10;

/// What has become of a step.
enum Step {
    /// A part was made.
    Made,
    /// There is nothing left to do.
    Done,
}

impl Shared {
    /// Makes what files lack whose replicas `which` is true of. What no other replica has is left as it is, unless `accept_loss`
    /// says that it is to be zeros.
    pub fn settle(&self, which: &mut dyn FnMut(usize) -> bool, accept_loss: bool) -> Result<()> {
        let (mut file, mut failures, mut bad) = (0, 0, Vec::new());
        loop {
            let alone = self.changing.write();
            let tried = self.look().and_then(|(loaded, state)| {
                let Some(stored) = loaded.files.get(file) else { return Ok(None) };
                match which(stored.replica) {
                    true => self.settle_step(&loaded, &state, file, &bad, accept_loss).map(Some),
                    false => Ok(Some(Step::Done)),
                }
            });
            drop(alone);
            match tried {
                Ok(None) => return Ok(()),
                Ok(Some(Step::Made)) => failures = 0,
                Ok(Some(Step::Done)) => file += 1,
                Err(Trouble::Changed) => failures += 1,
                Err(Trouble::Damaged { file, bytes, why }) => {
                    failures += 1;
                    bad.push((self.damaged(file, bytes)?, why));
                }
                Err(Trouble::Failed(error)) => return Err(error),
            }
            if failures > ATTEMPTS {
                return Err(Error::Busy(self.name.clone()));
            }
        }
    }

    /// Makes the first part that a file lacks.
    fn settle_step(
        &self,
        loaded: &Loaded,
        state: &State,
        file: usize,
        bad: &[(usize, String)],
        accept_loss: bool,
    ) -> Attempt<Step> {
        let Some(stored) = loaded.files.get(file) else { return Ok(Step::Done) };
        let mut writer = Writer::new(self, loaded, state);
        let Some(object) = state.object(file) else {
            writer.make(file)?;
            writer.commit()?;
            return Ok(Step::Made);
        };
        let Some(owed) = state.owed(file).and_then(|owed| owed.first()) else { return Ok(Step::Done) };
        let bytes = owed.start..owed.end.min(stored.length());
        let used = self.sources(loaded, state, file, bad);
        if !accept_loss && !loaded.has_all(Seen::File(file), &used) {
            tracing::warn!(file = loaded.words(Seen::File(file)), "no other replica has all of what it lacks");
            return Ok(Step::Done);
        }
        let plan = loaded.reading(&self.store, Seen::File(file), &used)?;
        let head = &stored.layout.head;
        let in_head = bytes.start < head.len() as u64;
        let (skipped, part) = match bytes.end.saturating_sub(bytes.start) {
            0 => (owed.clone(), owed.end..owed.end),
            _ if in_head => (owed.start..owed.start, bytes.start..bytes.end.min(head.len() as u64)),
            length if length <= LONG => (owed.start..owed.start, bytes.start..bytes.end.min(bytes.start + STEP)),
            _ => match self.first_stored(loaded, state, file, &used, bytes.clone())? {
                Some(part) => (owed.start..part.start, part.start..part.end.min(part.start + STEP)),
                None => (owed.clone(), owed.end..owed.end),
            },
        };
        let mut out = vec![0; (part.end - part.start) as usize];
        if in_head {
            // The declaration says all of it.
            writer.store(file, part.start, head.get(part.start as usize..part.end as usize).unwrap_or_default())?;
        } else if !out.is_empty() {
            // What no other replica has stays as it is, if it can be read.
            for (at, chunk) in (part.start..).step_by(CHUNK).zip(out.chunks_mut(CHUNK)) {
                match self.fetch(loaded, state, file, at, chunk) {
                    Err(Trouble::Damaged { .. }) => chunk.fill(0),
                    done => done?,
                }
            }
            self.pull(loaded, state, &plan, part.start, &mut out, true)?;
            writer.store(file, part.start, &out)?;
        }
        writer.owe_anew(file, |owed| {
            owed.remove(skipped);
            owed.remove(part);
            if owed.first().is_some_and(|left| left.start >= bytes.end.max(stored.length())) {
                *owed = Default::default();
            }
        });
        let files =
            loaded.replicas.iter().zip(&used).filter(|(_, used)| **used).flat_map(|(replica, _)| replica.files());
        writer.unchanged(files);
        if object.length != stored.length() {
            writer.set_length(file);
        }
        terrace::fail::point("dataset:settled");
        writer.commit()?;
        Ok(Step::Made)
    }

    /// The replicas that a file is made of: those that lack nothing, and all that have something only where these have not all.
    fn sources(&self, loaded: &Loaded, state: &State, file: usize, bad: &[(usize, String)]) -> Vec<bool> {
        let own = loaded.files.get(file).map(|file| file.replica);
        let good =
            |(number, used): (usize, bool)| used && Some(number) != own && bad.iter().all(|(bad, _)| *bad != number);
        let usable = |all: Vec<bool>| -> Vec<bool> { all.into_iter().enumerate().map(good).collect() };
        let current = usable(state.current(loaded));
        match loaded.has_all(Seen::File(file), &current) {
            true => current,
            false => usable(state.present(loaded)),
        }
    }

    /// The first bytes of a file that sources have something for; the rest is zero in them.
    fn first_stored(
        &self,
        loaded: &Loaded,
        state: &State,
        file: usize,
        used: &[bool],
        within: Range<u64>,
    ) -> Attempt<Option<Range<u64>>> {
        let Some(target) = loaded.files.get(file) else { return Ok(None) };
        let stored = Stored { layout: &target.layout, first_file: 0, rate: 1.0 };
        let mut first: Option<Range<u64>> = None;
        for (number, source) in
            loaded.files.iter().enumerate().filter(|(_, source)| used.get(source.replica) == Some(&true))
        {
            let Some(object) = state.object(number) else { continue };
            let located = self.store.locate(&source.key)?;
            if located.generation != object.generation {
                return Err(Trouble::Changed);
            }
            let plan = Plan::writing(&source.layout, stored);
            let mut runs: Vec<Range<u64>> = Vec::new();
            for extent in located.extents {
                let end = (extent.offset + extent.length).min(plan.length());
                match runs.last_mut() {
                    Some(last) if extent.offset <= last.end.saturating_add(NEAR) => last.end = last.end.max(end),
                    _ if extent.offset < end => runs.push(extent.offset..end),
                    _ => {}
                }
            }
            for run in runs {
                for part in plan.touches(run.start, run.end - run.start, NEAR)? {
                    let part = part.bytes.start.max(within.start)..part.bytes.end.min(within.end);
                    if !part.is_empty() && first.as_ref().is_none_or(|first| part.start < first.start) {
                        first = Some(part);
                    }
                }
            }
        }
        Ok(first)
    }
}
