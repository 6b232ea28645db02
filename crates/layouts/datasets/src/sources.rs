//! Which replicas what is wanted may be made of, and which of their bytes: never of those that they lack.

use std::ops::Range;

use terrace_views::convert::{Plan, Touched};

use crate::dataset::Shared;
use crate::loaded::{Loaded, Seen};
use crate::read::{Attempt, NEAR, PIECE};
use crate::state::State;
use crate::touch::{touched, with_gathered};

/// The replicas that something may be made of.
pub struct Sources {
    /// Which of all.
    pub used: Vec<bool>,
    /// They lack nothing.
    pub current: bool,
    /// They have all that is wanted, but for what they lack.
    pub all: bool,
}

impl Sources {
    /// Those that lack nothing, and all that have something only where these have not all. No replica's file is made of itself.
    pub fn of(loaded: &Loaded, state: &State, seen: Seen) -> Sources {
        let own = match seen {
            Seen::View(_) | Seen::Plain(_) | Seen::Leaf(..) => None,
            Seen::File(file) => loaded.files.get(file).map(|file| file.replica),
        };
        let others = |used: Vec<bool>| -> Vec<bool> {
            used.into_iter().enumerate().map(|(number, used)| used && Some(number) != own).collect()
        };
        let used = others(state.current(loaded));
        if loaded.has_all(seen, &used) {
            return Sources { used, current: true, all: true };
        }
        let used = others(state.present(loaded));
        let all = loaded.has_all(seen, &used);
        Sources { used, current: false, all }
    }

    /// The numbers of their files.
    pub fn files<'a>(&'a self, loaded: &'a Loaded) -> impl Iterator<Item = usize> + 'a {
        loaded.replicas.iter().zip(&self.used).filter(|(_, used)| **used).flat_map(|(replica, _)| replica.files())
    }
}

impl Shared {
    /// Fills `out` by the plan of some sources. With `renew`, what no replica has stays as it is. Says of each byte whether a replica
    /// has it, but no source that may give it; nothing where there is no such byte.
    pub fn gather(
        &self,
        loaded: &Loaded,
        state: &State,
        (seen, sources, plan): (Seen, &Sources, &Plan),
        offset: u64,
        out: &mut [u8],
        renew: bool,
    ) -> Attempt<Option<Vec<bool>>> {
        if sources.current {
            self.pull(loaded, state, plan, offset, out, renew)?;
            return Ok(None);
        }
        let (mut missing, mut at, length) = (Vec::new(), offset, out.len());
        for piece in out.chunks_mut(PIECE as usize) {
            let parts = touched(plan, at, piece.len() as u64, NEAR)?;
            if parts.iter().any(|part| state.lacks(part.file, &part.bytes)) {
                if !renew {
                    piece.fill(0);
                }
                missing.resize((at - offset) as usize, false);
                missing.extend(self.gather_good(loaded, state, (seen, sources), at, piece)?);
            } else {
                self.pull(loaded, state, plan, at, piece, renew)?;
            }
            at += piece.len() as u64;
        }
        missing.resize(length, false);
        Ok(missing.contains(&true).then_some(missing))
    }

    /// Reads what is good of each source in turn, until there is all.
    fn gather_good(
        &self,
        loaded: &Loaded,
        state: &State,
        (seen, sources): (Seen, &Sources),
        at: u64,
        out: &mut [u8],
    ) -> Attempt<Vec<bool>> {
        let (length, count) = (out.len() as u64, loaded.replicas.len());
        let every = loaded.reading(&self.store, seen, &vec![true; count])?;
        // Marks move as bytes do.
        let mut missing = vec![0; out.len()];
        with_gathered(&every, at, length, NEAR, |parts| {
            parts.fill(|_, into| {
                into.fill(1);
                Attempt::Ok(())
            })?;
            Ok(every.renew_gathered(at, &mut missing, parts)?)
        })?;
        let mut trouble = None;
        for number in (0..count).filter(|number| sources.used.get(*number) == Some(&true)) {
            if !missing.contains(&1) {
                break;
            }
            let only: Vec<bool> = (0..count).map(|other| other == number).collect();
            let plan = loaded.reading(&self.store, seen, &only)?;
            let (mut bytes, mut good) = (vec![0; out.len()], vec![0; out.len()]);
            let tried = with_gathered(&plan, at, length, NEAR, |parts| {
                parts.fill(|part, into| {
                    into.fill(0);
                    good_parts(state, part, into, |_, into| {
                        into.fill(1);
                        Ok(())
                    })
                })?;
                plan.renew_gathered(at, &mut good, parts)?;
                parts.fill(|part, into| {
                    good_parts(state, part, into, |at, into| self.fetch(loaded, state, part.file, at, into))
                })?;
                Ok(plan.renew_gathered(at, &mut bytes, parts)?)
            });
            match tried {
                Ok(()) => {}
                Err(damaged @ crate::read::Trouble::Damaged { .. }) => {
                    trouble = Some(damaged);
                    continue;
                }
                Err(other) => return Err(other),
            }
            for ((out, missing), (byte, good)) in out.iter_mut().zip(&mut missing).zip(bytes.iter().zip(&good)) {
                if *missing == 1 && *good == 1 {
                    (*out, *missing) = (*byte, 0);
                }
            }
        }
        match trouble.filter(|_| missing.contains(&1)) {
            Some(trouble) => Err(trouble),
            None => Ok(missing.into_iter().map(|missing| missing == 1).collect()),
        }
    }
}

/// Calls `each` with the places of a part that its file does not lack, and their memory.
fn good_parts(
    state: &State,
    part: &Touched,
    into: &mut [u8],
    mut each: impl FnMut(u64, &mut [u8]) -> Attempt<()>,
) -> Attempt<()> {
    state.good(part.file, part.bytes.clone()).into_iter().try_for_each(|range: Range<u64>| {
        let within = (range.start - part.bytes.start) as usize..(range.end - part.bytes.start) as usize;
        into.get_mut(within).map_or(Ok(()), |into| each(range.start, into))
    })
}
