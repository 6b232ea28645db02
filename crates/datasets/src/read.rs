//! Reading: any bytes of a view, from the replicas that have them soonest.

use terrace_views::convert::{Plan, Touched};

use crate::dataset::{ATTEMPTS, PATIENT, Shared};
use crate::loaded::{Loaded, Seen};
use crate::state::State;
use crate::touch::with_gathered;
use crate::{Error, Result};

/// Parts of a file less than this apart are read as one: the store verifies so much at a time.
const NEAR: u64 = 64 << 10;
/// What is gathered for one piece of a request.
const PIECE: u64 = 1 << 20;

/// Why an attempt came to nothing.
#[derive(Debug)]
pub enum Trouble {
    /// Something has changed meanwhile: look again.
    Changed,
    /// A file of a replica cannot be read.
    Damaged { file: usize, bytes: std::ops::Range<u64>, why: String },
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
        let mut bad: Vec<(usize, String)> = Vec::new();
        for attempt in 0..ATTEMPTS {
            let _alone = (attempt >= PATIENT).then(|| self.changing.write());
            let tried = self.look().and_then(|(loaded, state)| {
                let plan = self.plan(&loaded, &state, seen(loaded.view(view)?), &bad)?;
                let length = plan.length().saturating_sub(offset).min(out.len() as u64) as usize;
                let out = out.get_mut(..length).unwrap_or_default();
                self.pull(&loaded, &state, &plan, offset, out, false)?;
                Ok(length)
            });
            match tried {
                Ok(length) => return Ok(length),
                Err(Trouble::Changed) => {}
                Err(Trouble::Damaged { file, bytes, why }) => {
                    drop(_alone);
                    bad.push((self.damaged(file, bytes)?, why));
                }
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }

    /// How to have what is wanted from replicas that are good, up to date if that can be, and not `bad`.
    pub fn plan(
        &self,
        loaded: &Loaded,
        state: &State,
        seen: Seen,
        bad: &[(usize, String)],
    ) -> Attempt<std::sync::Arc<Plan>> {
        let own = match seen {
            Seen::View(_) | Seen::Plain(_) | Seen::Leaf(..) => None,
            Seen::File(file) => loaded.files.get(file).map(|file| file.replica),
        };
        let usable = |used: Vec<bool>| -> Vec<bool> {
            let good = |number: usize| Some(number) != own && bad.iter().all(|(bad, _)| *bad != number);
            used.into_iter().enumerate().map(|(number, used)| used && good(number)).collect()
        };
        for used in [usable(state.current(loaded)), usable(state.present(loaded))] {
            let sure = own.is_none() && used.iter().all(|used| *used);
            if sure || loaded.has_all(seen, &used) {
                return Ok(loaded.reading(&self.store, seen, &used)?);
            }
        }
        let mut why: Vec<String> = bad.iter().map(|(_, why)| why.clone()).collect();
        for (file, stored) in loaded.files.iter().enumerate().filter(|(file, _)| state.object(*file).is_none()) {
            why.push(format!("{} is gone", loaded.words(Seen::File(file))));
            let _ = stored;
        }
        let what = loaded.words(seen);
        Err(Error::Lost { dataset: self.name.clone(), what, why: why.join("; ") }.into())
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
