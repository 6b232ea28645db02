//! Bringing replicas up to date: what a file lacks is made of the other replicas, whatever their layout is.

use std::ops::Range;

use terrace_views::convert::{Plan, Stored};

use crate::dataset::{ATTEMPTS, PATIENT, Shared};
use crate::loaded::{Loaded, Seen};
use crate::read::{Attempt, Trouble};
use crate::sources::Sources;
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
    /// Nobody has all of the part before this byte.
    Left(u64),
    /// There is nothing left to do.
    Done,
}

impl Shared {
    /// Makes what files lack whose replicas `which` is true of. What no other replica has is left as it is, unless `accept_loss`
    /// says that it is to be zeros.
    pub fn settle(&self, which: &mut dyn FnMut(usize) -> bool, accept_loss: bool) -> Result<()> {
        let (mut file, mut from, mut failures, mut bad) = (0, 0, 0, Vec::new());
        loop {
            let alone = self.changing.write();
            let tried = self.look().and_then(|(loaded, mut state)| {
                state.avoid(&bad);
                let Some(stored) = loaded.files.get(file) else { return Ok(None) };
                match which(stored.replica) {
                    true => self.settle_step(&loaded, &state, file, from, accept_loss).map(Some),
                    false => Ok(Some(Step::Done)),
                }
            });
            drop(alone);
            match tried {
                Ok(None) => return Ok(()),
                Ok(Some(Step::Made)) => failures = 0,
                Ok(Some(Step::Left(end))) => (failures, from) = (0, end),
                Ok(Some(Step::Done)) => (file, from) = (file + 1, 0),
                Err(Trouble::Changed) => failures += 1,
                Err(Trouble::Damaged { file, bytes, .. }) => {
                    failures += 1;
                    if self.damaged(file, bytes.clone())?.is_none() || failures > PATIENT {
                        bad.push((file, bytes));
                    }
                }
                Err(Trouble::Failed(error)) => return Err(error),
            }
            if failures > ATTEMPTS {
                return Err(Error::Busy(self.name.clone()));
            }
        }
    }

    /// Makes the first part from a byte on that a file lacks.
    fn settle_step(&self, loaded: &Loaded, state: &State, file: usize, from: u64, accept_loss: bool) -> Attempt<Step> {
        let Some(stored) = loaded.files.get(file) else { return Ok(Step::Done) };
        let mut writer = Writer::new(self, loaded, state);
        let Some(object) = state.object(file) else {
            writer.make(file)?;
            writer.commit()?;
            return Ok(Step::Made);
        };
        let Some(owed) = state.owed(file).and_then(|owed| owed.first_from(from)) else { return Ok(Step::Done) };
        let bytes = owed.start..owed.end.min(stored.length());
        let seen = Seen::File(file);
        let sources = Sources::of(loaded, state, seen);
        let vast = |source| state.vast(source, loaded, LONG);
        if !accept_loss && (!sources.all || !sources.current && sources.files(loaded).any(vast)) {
            tracing::warn!(file = loaded.words(seen), "no other replica has all of what it lacks");
            return Ok(Step::Done);
        }
        let plan = loaded.reading(&self.store, seen, &sources.used)?;
        let head = &stored.layout.head;
        let in_head = bytes.start < head.len() as u64;
        let (skipped, part) = match bytes.end.saturating_sub(bytes.start) {
            0 => (owed.clone(), owed.end..owed.end),
            _ if in_head => (owed.start..owed.start, bytes.start..bytes.end.min(head.len() as u64)),
            length if length <= LONG => (owed.start..owed.start, bytes.start..bytes.end.min(bytes.start + STEP)),
            _ => match self.first_stored(loaded, state, file, &sources.used, bytes.clone())? {
                Some(part) => (owed.start..part.start, part.start..part.end.min(part.start + STEP)),
                None => (owed.clone(), owed.end..owed.end),
            },
        };
        writer.owe_anew(file, |owed| owed.remove(skipped));
        let mut left = false;
        if in_head {
            // The declaration says all of it.
            writer.store(file, part.start, head.get(part.start as usize..part.end as usize).unwrap_or_default())?;
            writer.owe_anew(file, |owed| owed.remove(part.clone()));
        } else if !part.is_empty() {
            let mut out = vec![0; (part.end - part.start) as usize];
            // What no other replica has stays as it is, if it can be read.
            for (at, chunk) in (part.start..).step_by(CHUNK).zip(out.chunks_mut(CHUNK)) {
                match self.fetch(loaded, state, file, at, chunk) {
                    Err(Trouble::Damaged { .. }) => chunk.fill(0),
                    done => done?,
                }
            }
            let missing = self.gather(loaded, state, (seen, &sources, &plan), part.start, &mut out, true)?;
            let missing = missing.filter(|_| !accept_loss);
            for (number, chunk) in out.chunks(if missing.is_some() { CHUNK } else { STEP as usize }).enumerate() {
                let lacks = |missing: &Vec<bool>| missing.chunks(CHUNK).nth(number).is_some_and(|m| m.contains(&true));
                if missing.as_ref().is_some_and(lacks) {
                    left = true;
                    continue;
                }
                let at = part.start + (number * CHUNK) as u64;
                writer.store(file, at, chunk)?;
                writer.owe_anew(file, |owed| owed.remove(at..at + chunk.len() as u64));
            }
        }
        writer.owe_anew(file, |owed| {
            if owed.first().is_some_and(|rest| rest.start >= stored.length()) {
                *owed = Default::default();
            }
        });
        writer.unchanged(sources.files(loaded));
        if object.length != stored.length() {
            writer.set_length(file);
        }
        terrace::fail::point("dataset:settled");
        writer.commit()?;
        if left {
            tracing::warn!(file = loaded.words(seen), bytes = ?part, "no other replica has all of what it lacks");
            return Ok(Step::Left(part.end));
        }
        Ok(Step::Made)
    }

    /// The first bytes of a file that sources have or lack something for; the rest is zero in them.
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
            runs.extend(state.lacked(number).filter(|lacked| lacked.start < plan.length()));
            for run in runs {
                let run = run.start..run.end.min(plan.length());
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
