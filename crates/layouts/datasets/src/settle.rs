//! Updates replicas: rebuilds the bytes that a file lacks from the other replicas, whatever their layout.

use std::ops::Range;
use std::sync::Arc;

use crate::attempt::{Attempt, AttemptError};
use crate::attempt::{EXCLUSIVE_AFTER_ATTEMPTS, attempts};
use crate::loaded::{Loaded, Projection};
use crate::shared::Shared;
use crate::sources::Sources;
use crate::state::State;
use crate::stored::StoredFile;
use crate::stored_parts::KnownParts;
use crate::writer::Writer;
use crate::{Error, Result};

/// One update commits at most this many bytes.
const UPDATE_STEP_BYTES: u64 = 4 << 20;
/// In an owed range longer than this, only the parts that other replicas store are rebuilt: the rest may be one large
/// hole of zeros, and writing it would cost its full length.
const MAX_DENSE_UPDATE_BYTES: u64 = 64 << 20;
/// The store verifies checksums of chunks of this size, so a part that cannot be rebuilt is skipped with this
/// granularity.
const VERIFIED_CHUNK_BYTES: usize = 64 << 10;

/// The outcome of one update step.
enum UpdateOutcome {
    /// A part was updated.
    Updated,
    /// No source has all of the part that ends at this byte, so the next step begins there.
    Skipped(u64),
    /// Nothing is left to do for the file.
    Done,
}

impl Shared {
    /// Rebuilds owed bytes in the files of all replicas for which `which` returns true. Bytes that no other replica has
    /// are left as they are, or become zeros with `accept_loss`.
    pub fn update_replicas(&self, which: &mut dyn FnMut(usize) -> bool, accept_loss: bool) -> Result<()> {
        self.update_replicas_from(&mut KnownParts::default(), which, accept_loss)
    }

    /// Does the same as [`Shared::update_replicas`], with what is known of the parts that sources store.
    pub fn update_replicas_from(
        &self,
        known: &mut KnownParts,
        which: &mut dyn FnMut(usize) -> bool,
        accept_loss: bool,
    ) -> Result<()> {
        let (mut file, mut from, mut failures, mut bad) = (0, 0, 0, Vec::new());
        let mut left = attempts();
        loop {
            let alone = self.changing.write();
            let tried = self.try_load().and_then(|(loaded, mut state)| {
                state.mark_unreadable(&bad);
                let Some(stored) = loaded.files.get(file) else { return Ok(None) };
                match which(stored.replica) {
                    true => self.update_file_step(&loaded, &state, known, (file, from), accept_loss).map(Some),
                    false => Ok(Some(UpdateOutcome::Done)),
                }
            });
            drop(alone);
            if tried.is_ok() {
                (failures, left) = (0, attempts());
            }
            match tried {
                Ok(None) => return Ok(()),
                Ok(Some(UpdateOutcome::Updated)) => {}
                Ok(Some(UpdateOutcome::Skipped(end))) => from = end,
                Ok(Some(UpdateOutcome::Done)) => (file, from) = (file + 1, 0),
                Err(AttemptError::Changed) => failures += 1,
                Err(AttemptError::Damaged { file, bytes, .. }) => {
                    failures += 1;
                    if self.mark_damaged(file, bytes.clone())?.is_none() || failures > EXCLUSIVE_AFTER_ATTEMPTS {
                        bad.push((file, bytes));
                    }
                }
                Err(AttemptError::Failed(error)) => return Err(error),
            }
            if left.next().is_none() {
                return Err(Error::Busy(self.name.clone()));
            }
        }
    }

    /// Rebuilds the first part that a file lacks at or after byte `from`.
    fn update_file_step(
        &self,
        loaded: &Arc<Loaded>,
        state: &State,
        known: &mut KnownParts,
        (file, from): (usize, u64),
        accept_loss: bool,
    ) -> Attempt<UpdateOutcome> {
        let Some(stored) = loaded.files.get(file) else { return Ok(UpdateOutcome::Done) };
        let mut writer = Writer::new(self, loaded, state);
        let Some(object) = state.object(file) else {
            writer.create_file(file)?;
            writer.commit()?;
            return Ok(UpdateOutcome::Updated);
        };
        let Some(owed) = state.owed(file).and_then(|owed| owed.first_from(from)) else {
            return Ok(UpdateOutcome::Done);
        };
        let projection = Projection::File(file);
        let sources = Sources::of(loaded, state, projection);
        let step = UpdateStep { shared: self, loaded, state, file, stored, sources, accept_loss };
        if !step.has_sources() {
            tracing::warn!(file = loaded.describe_projection(projection), "no other replica has all of what it lacks");
            return Ok(UpdateOutcome::Done);
        }
        let (skipped, part) = step.choose_part(known, &owed)?;
        writer.update_owed(file, |owed| owed.remove(skipped));
        let is_complete = if part.is_empty() {
            true
        } else if part.start < stored.layout.head.len() as u64 {
            step.write_head(&mut writer, &part)?;
            true
        } else {
            step.write_gathered(&mut writer, &part)?
        };
        writer.update_owed(file, |owed| {
            if owed.first().is_some_and(|rest| rest.start >= stored.length()) {
                *owed = Default::default();
            }
        });
        writer.require_unchanged(step.sources.files(loaded));
        if object.length != stored.length() {
            writer.set_length(file);
        }
        terrace::fail::point("dataset:settled");
        writer.commit()?;
        if !is_complete {
            tracing::warn!(file = loaded.describe_projection(projection), bytes = ?part, "no other replica has all of what it lacks");
            return Ok(UpdateOutcome::Skipped(part.end));
        }
        Ok(UpdateOutcome::Updated)
    }
}

/// One step of the update of a file.
struct UpdateStep<'a> {
    shared: &'a Shared,
    loaded: &'a Arc<Loaded>,
    state: &'a State,
    file: usize,
    stored: &'a StoredFile,
    /// The replicas that the file may be rebuilt from.
    sources: Sources,
    accept_loss: bool,
}

impl UpdateStep<'_> {
    /// Returns whether the sources cover the file, and can be read in steps of bounded size. A loss that is accepted needs none.
    fn has_sources(&self) -> bool {
        let Sources { all, current, .. } = self.sources;
        let vast = |source| self.state.lacks_more_than(source, self.loaded, MAX_DENSE_UPDATE_BYTES);
        self.accept_loss || all && (current || !self.sources.files(self.loaded).any(vast))
    }

    /// Chooses the part of an owed range that this step rebuilds. Returns before it the range that needs no bytes, because it is a hole
    /// in the sources, too, or because it is behind the file's end.
    fn choose_part(&self, known: &mut KnownParts, owed: &Range<u64>) -> Attempt<(Range<u64>, Range<u64>)> {
        let (start, end) = (owed.start, owed.end.min(self.stored.length()));
        let head_end = self.stored.layout.head.len() as u64;
        let nothing = start..start;
        Ok(match end.saturating_sub(start) {
            0 => (owed.clone(), owed.end..owed.end),
            _ if start < head_end => (nothing, start..end.min(head_end)),
            length if length <= MAX_DENSE_UPDATE_BYTES => (nothing, start..end.min(start + UPDATE_STEP_BYTES)),
            _ => {
                let wanted = (self.file, self.sources.used.as_slice());
                match known.find_first(&self.shared.store, self.loaded, self.state, wanted, start..end)? {
                    Some(part) => (start..part.start, part.start..part.end.min(part.start + UPDATE_STEP_BYTES)),
                    None => (owed.clone(), owed.end..owed.end),
                }
            }
        })
    }

    /// Writes a part of the file's head. The declaration alone determines it, so no source is needed.
    fn write_head(&self, writer: &mut Writer<'_>, part: &Range<u64>) -> Attempt<()> {
        let head = self.stored.layout.head.get(part.start as usize..part.end as usize).unwrap_or_default();
        writer.write_file(self.file, part.start, head)?;
        writer.update_owed(self.file, |owed| owed.remove(part.clone()));
        Ok(())
    }

    /// Writes a part of the file from its sources. Returns false if the sources lack some of it, which stays owed.
    fn write_gathered(&self, writer: &mut Writer<'_>, part: &Range<u64>) -> Attempt<bool> {
        let UpdateStep { shared, loaded, state, file, ref sources, accept_loss, .. } = *self;
        let projection = Projection::File(file);
        let plan = loaded.read_plan(&shared.store, projection, &sources.used)?;
        let mut out = vec![0; (part.end - part.start) as usize];
        // Begin with the file's own bytes, so that readable bytes that no other replica has are kept.
        for (at, chunk) in (part.start..).step_by(VERIFIED_CHUNK_BYTES).zip(out.chunks_mut(VERIFIED_CHUNK_BYTES)) {
            match shared.fetch_bytes(loaded, state, file, at, chunk) {
                Err(AttemptError::Damaged { .. }) => chunk.fill(0),
                done => done?,
            }
        }
        let missing = shared.gather(loaded, state, (projection, sources, &plan), part.start, &mut out, true)?;
        let missing = missing.filter(|_| !accept_loss);
        let chunk_bytes = if missing.is_some() { VERIFIED_CHUNK_BYTES } else { UPDATE_STEP_BYTES as usize };
        let mut is_complete = true;
        for (number, chunk) in out.chunks(chunk_bytes).enumerate() {
            let lacks =
                |missing: &Vec<bool>| missing.chunks(chunk_bytes).nth(number).is_some_and(|m| m.contains(&true));
            if missing.as_ref().is_some_and(lacks) {
                is_complete = false;
                continue;
            }
            let at = part.start + (number * chunk_bytes) as u64;
            writer.write_file(file, at, chunk)?;
            writer.update_owed(file, |owed| owed.remove(at..at + chunk.len() as u64));
        }
        Ok(is_complete)
    }
}
