//! Reads bytes of a view from the replicas that deliver them soonest.

use std::ops::Range;

use terrace_views::convert::{Plan, Touched};

use crate::dataset::{EXCLUSIVE_AFTER_ATTEMPTS, Shared, attempts};
use crate::loaded::{Loaded, Projection};
use crate::sources::Sources;
use crate::state::State;
use crate::touch::with_gather_buffer;
use crate::{Error, Result};

/// Reads of a file that are less than this apart are merged: the store verifies checksums of chunks of this size, so
/// the bytes between cost little.
pub const READ_GAP_BYTES: u64 = 64 << 10;
/// A request is gathered in pieces of this size, which bounds its memory.
pub const GATHER_PIECE_BYTES: u64 = 1 << 20;

/// Why an attempt failed.
#[derive(Debug)]
pub enum AttemptError {
    /// A concurrent commit changed the dataset. The caller loads its state again and retries.
    Changed,
    /// A part of a replica's file is unreadable.
    Damaged { file: usize, bytes: Range<u64>, why: String },
    /// A retry cannot succeed.
    Failed(Error),
}

pub type Attempt<T> = std::result::Result<T, AttemptError>;

impl<E: Into<Error>> From<E> for AttemptError {
    fn from(error: E) -> AttemptError {
        match error.into() {
            Error::Store(
                terrace::Error::Conflict { .. } | terrace::Error::NotFound { .. } | terrace::Error::Replaced { .. },
            ) => AttemptError::Changed,
            error => AttemptError::Failed(error),
        }
    }
}

impl Shared {
    /// Fills `out` with a view's bytes from `offset` on and returns the number of bytes read, which is smaller than
    /// `out` only at the view's end. The bytes are those of one moment: they contain every write through any view
    /// either completely or not at all.
    pub fn read(&self, view: &str, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.read_projection(view, Projection::View, offset, out)
    }

    /// Does the same as [`Shared::read`] for another projection of the view.
    pub fn read_projection(
        &self,
        view: &str,
        projection: impl Fn(usize) -> Projection,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize> {
        let (mut bad, mut why): (Vec<(usize, Range<u64>)>, Vec<String>) = Default::default();
        for attempt in attempts() {
            let alone = (attempt >= EXCLUSIVE_AFTER_ATTEMPTS).then(|| self.changing.write());
            let tried = self.try_load().and_then(|(loaded, mut state)| {
                state.mark_unreadable(&bad);
                let projection = projection(loaded.view(view)?);
                let sources = self.require_sources(&loaded, &state, projection, &why)?;
                let plan = loaded.read_plan(&self.store, projection, &sources.used)?;
                let length = plan.length().saturating_sub(offset).min(out.len() as u64) as usize;
                let out = out.get_mut(..length).unwrap_or_default();
                match self.gather(&loaded, &state, (projection, &sources, &plan), offset, out, false)? {
                    None => Ok(length),
                    Some(_) => Err(self.lost_error(&loaded, &state, projection, &why)),
                }
            });
            drop(alone);
            match tried {
                Ok(length) => return Ok(length),
                Err(AttemptError::Changed) => {}
                Err(AttemptError::Damaged { file, bytes, why: said }) => {
                    // Bytes that `mark_damaged` recorded as owed are rebuilt from other replicas. For all others only
                    // this request avoids the file, because its device may come back.
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

    /// Reads bytes of a file in the given state. Fails with [`AttemptError::Changed`] if the object has changed since.
    pub fn fetch_bytes(&self, loaded: &Loaded, state: &State, file: usize, at: u64, out: &mut [u8]) -> Attempt<()> {
        let (Some(stored), Some(object)) = (loaded.files.get(file), state.object(file)) else {
            return Err(AttemptError::Changed);
        };
        match self.store.read_unchanged(&stored.key, object, at, out) {
            Ok(true) => Ok(()),
            Ok(false) => Err(AttemptError::Changed),
            Err(error @ terrace::Error::Unreadable { .. }) => {
                Err(AttemptError::Damaged { file, bytes: at..at + out.len() as u64, why: error.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }
}
