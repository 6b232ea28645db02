//! Reads bytes of a view from the replicas that deliver them soonest.

use std::ops::Range;

use terrace_views::convert::{Plan, Touched};

use crate::attempt::{Attempt, AttemptError, EXCLUSIVE_AFTER_ATTEMPTS, attempts};
use crate::loaded::{Loaded, Projection};
use crate::shared::Shared;
use crate::sources::Sources;
use crate::state::State;
use crate::touch::{GATHER_PIECE_BYTES, READ_GAP_BYTES, with_gather_buffer};
use crate::{Error, Result};

impl Shared {
    /// Fills `out` with a view's bytes from `offset` on and returns the number of bytes read, which is smaller than
    /// `out` only at the view's end. The bytes are those of one moment: they contain every write through any view
    /// either completely or not at all.
    pub fn read(&self, view: &str, offset: u64, out: &mut [u8]) -> Result<usize> {
        let stride = self.accesses.foresee(view, offset, out.len() as u64);
        let length = self.read_in_series(view, Projection::View, (offset, stride), out)?;
        if let Some(loaded) = self.cached() {
            self.accesses.note(&loaded, view, offset, length as u64);
        }
        Ok(length)
    }

    /// Reads like [`Shared::read`], but the bytes of another projection of the view.
    pub fn read_projection(
        &self,
        view: &str,
        projection: impl Fn(usize) -> Projection,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize> {
        self.read_in_series(view, projection, (offset, None), out)
    }

    /// Reads like [`Shared::read_projection`], if requests at this distance are expected to follow.
    fn read_in_series(
        &self,
        view: &str,
        projection: impl Fn(usize) -> Projection,
        (offset, stride): (u64, Option<u64>),
        out: &mut [u8],
    ) -> Result<usize> {
        let (mut bad, mut why): (Vec<(usize, Range<u64>)>, Vec<String>) = Default::default();
        for attempt in attempts() {
            let alone = (attempt >= EXCLUSIVE_AFTER_ATTEMPTS).then(|| self.changing.write());
            let tried = self.try_load().and_then(|(loaded, mut state)| {
                state.mark_unreadable(&bad);
                let projection = projection(loaded.view(view)?);
                let sources = self.require_sources(&loaded, &state, projection, &why)?;
                let ways = loaded.ways(&self.store, projection, &sources.used)?;
                let length = ways.mixed.length().saturating_sub(offset).min(out.len() as u64);
                let plan = ways.nearest(offset, length, stride)?;
                let out = out.get_mut(..length as usize).unwrap_or_default();
                match self.gather(&loaded, &state, (projection, &sources, plan), offset, out, false)? {
                    None => Ok(length as usize),
                    Some(_) => Err(self.lost_error(&loaded, &state, projection, &why)),
                }
            });
            drop(alone);
            match tried {
                Ok(length) => return Ok(length),
                Err(AttemptError::Changed) => {}
                Err(AttemptError::Damaged { file, bytes, why: said }) => {
                    // Bytes that `mark_damaged` recorded as owed are rebuilt from other replicas. The rest cannot be
                    // rebuilt: only this request avoids them, because the device may come back.
                    if self.mark_damaged(file, bytes.clone())?.is_none() || attempt >= EXCLUSIVE_AFTER_ATTEMPTS {
                        bad.push((file, bytes));
                    }
                    why.push(said);
                }
                Err(AttemptError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }

    /// Returns the replicas to read a projection from, or an error if together they do not store all of it.
    pub fn require_sources(
        &self,
        loaded: &Loaded,
        state: &State,
        projection: Projection,
        why: &[String],
    ) -> Attempt<Sources> {
        let sources = Sources::of(loaded, state, projection);
        if sources.all { Ok(sources) } else { Err(self.lost_error(loaded, state, projection, why)) }
    }

    fn lost_error(&self, loaded: &Loaded, state: &State, projection: Projection, why: &[String]) -> AttemptError {
        let mut why = why.to_vec();
        for file in 0..loaded.files.len() {
            match state.owed(file) {
                None => why.push(format!("{} is gone", loaded.describe_projection(Projection::File(file)))),
                Some(owed) if !owed.is_empty() => {
                    why.push(format!("{} is behind", loaded.describe_projection(Projection::File(file))))
                }
                Some(_) => {}
            }
        }
        Error::Lost { dataset: self.name.clone(), what: loaded.describe_projection(projection), why: why.join("; ") }
            .into()
    }

    /// Reads bytes with a plan. With `renew`, bytes of `out` that no source has keep their value.
    pub fn read_with_plan(
        &self,
        loaded: &Loaded,
        state: &State,
        plan: &Plan,
        offset: u64,
        out: &mut [u8],
        renew: bool,
    ) -> Attempt<()> {
        if let Some((file, at)) = plan.straight(offset, out.len() as u64) {
            return self.fetch_bytes(loaded, state, file, at, out);
        }
        let mut at = offset;
        for piece in out.chunks_mut(GATHER_PIECE_BYTES as usize) {
            with_gather_buffer(plan, at, piece.len() as u64, READ_GAP_BYTES, |parts| {
                parts
                    .fill(|part: &Touched, into| self.fetch_bytes(loaded, state, part.file, part.bytes.start, into))?;
                match renew {
                    true => plan.renew_gathered(at, piece, parts)?,
                    false => plan.read_gathered(at, piece, parts)?,
                }
                Ok(())
            })?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}
