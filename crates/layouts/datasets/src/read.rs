//! Reading: any bytes of a view, from the replicas that have them soonest.

use std::ops::Range;

use terrace_views::convert::{Plan, Touched};

use crate::dataset::{ATTEMPTS, PATIENT, Shared};
use crate::loaded::{Loaded, Seen};
use crate::sources::Sources;
use crate::state::State;
use crate::touch::with_gathered;
use crate::{Error, Result};

/// Parts of a file less than this apart are read as one: the store verifies so much at a time.
pub const NEAR: u64 = 64 << 10;
/// What is gathered for one piece of a request.
pub const PIECE: u64 = 1 << 20;

/// Why an attempt came to nothing.
#[derive(Debug)]
pub enum Trouble {
    /// Something has changed meanwhile: look again.
    Changed,
    /// A file of a replica cannot be read.
    Damaged { file: usize, bytes: Range<u64>, why: String },
    /// There is no use in trying again.
    Failed(Error),
}

pub type Attempt<T> = std::result::Result<T, Trouble>;

impl<E: Into<Error>> From<E> for Trouble {
    fn from(error: E) -> Trouble {
        match error.into() {
            Error::Store(
                terrace::Error::Conflict { .. } | terrace::Error::NotFound { .. } | terrace::Error::Replaced { .. },
            ) => Trouble::Changed,
            error => Trouble::Failed(error),
        }
    }
}

impl Shared {
    /// Fills `out` from byte `offset` of a view on; the bytes read, which are fewer only at its end. They are as they were at
    /// one moment: of each write through whatever view, there is all or nothing in them.
    pub fn read(&self, view: &str, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.read_seen(view, Seen::View, offset, out)
    }

    /// The same, of some way to see a view.
    pub fn read_seen(&self, view: &str, seen: impl Fn(usize) -> Seen, offset: u64, out: &mut [u8]) -> Result<usize> {
        let (mut bad, mut why): (Vec<(usize, Range<u64>)>, Vec<String>) = Default::default();
        for attempt in 0..ATTEMPTS {
            let alone = (attempt >= PATIENT).then(|| self.changing.write());
            let tried = self.look().and_then(|(loaded, mut state)| {
                state.avoid(&bad);
                let seen = seen(loaded.view(view)?);
                let sources = self.sources(&loaded, &state, seen, &why)?;
                let plan = loaded.reading(&self.store, seen, &sources.used)?;
                let length = plan.length().saturating_sub(offset).min(out.len() as u64) as usize;
                let out = out.get_mut(..length).unwrap_or_default();
                match self.gather(&loaded, &state, (seen, &sources, &plan), offset, out, false)? {
                    None => Ok(length),
                    Some(_) => Err(self.lost(&loaded, &state, seen, &why)),
                }
            });
            drop(alone);
            match tried {
                Ok(length) => return Ok(length),
                Err(Trouble::Changed) => {}
                Err(Trouble::Damaged { file, bytes, why: said }) => {
                    // What is noted is made again; the rest may come back, and is only avoided now.
                    if self.damaged(file, bytes.clone())?.is_none() || attempt >= PATIENT {
                        bad.push((file, bytes));
                    }
                    why.push(said);
                }
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }

    /// Replicas that have what is wanted, but for what they lack.
    pub fn sources(&self, loaded: &Loaded, state: &State, seen: Seen, why: &[String]) -> Attempt<Sources> {
        let sources = Sources::of(loaded, state, seen);
        if sources.all { Ok(sources) } else { Err(self.lost(loaded, state, seen, why)) }
    }

    fn lost(&self, loaded: &Loaded, state: &State, seen: Seen, why: &[String]) -> Trouble {
        let mut why = why.to_vec();
        for file in 0..loaded.files.len() {
            match state.owed(file) {
                None => why.push(format!("{} is gone", loaded.words(Seen::File(file)))),
                Some(owed) if !owed.is_empty() => why.push(format!("{} is behind", loaded.words(Seen::File(file)))),
                Some(_) => {}
            }
        }
        Error::Lost { dataset: self.name.clone(), what: loaded.words(seen), why: why.join("; ") }.into()
    }

    /// Reads by a plan. With `renew`, what no source has stays as it is.
    pub fn pull(
        &self,
        loaded: &Loaded,
        state: &State,
        plan: &Plan,
        offset: u64,
        out: &mut [u8],
        renew: bool,
    ) -> Attempt<()> {
        if let Some((file, at)) = plan.straight(offset, out.len() as u64) {
            return self.fetch(loaded, state, file, at, out);
        }
        let mut at = offset;
        for piece in out.chunks_mut(PIECE as usize) {
            with_gathered(plan, at, piece.len() as u64, NEAR, |parts| {
                parts.fill(|part: &Touched, into| self.fetch(loaded, state, part.file, part.bytes.start, into))?;
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

    /// Reads bytes of a file, as it is in this state.
    pub fn fetch(&self, loaded: &Loaded, state: &State, file: usize, at: u64, out: &mut [u8]) -> Attempt<()> {
        let (Some(stored), Some(object)) = (loaded.files.get(file), state.object(file)) else {
            return Err(Trouble::Changed);
        };
        match self.store.read_unchanged(&stored.key, object, at, out) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Trouble::Changed),
            Err(error @ terrace::Error::Unreadable { .. }) => {
                Err(Trouble::Damaged { file, bytes: at..at + out.len() as u64, why: error.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }
}
