//! Selects the replicas and the byte ranges that a projection may be read from. Bytes that a replica lacks are never
//! used.

use std::ops::Range;

use terrace_views::convert::{Plan, Touched};

use crate::attempt::Attempt;
use crate::loaded::{Loaded, Projection};
use crate::shared::Shared;
use crate::state::State;
use crate::touch::{GATHER_PIECE_BYTES, READ_GAP_BYTES, find_touched_parts, with_gather_buffer};

/// The replicas that a projection may be read from.
pub struct Sources {
    /// For each replica, whether it is used.
    pub used: Vec<bool>,
    /// Whether the used replicas lack nothing.
    pub current: bool,
    /// Whether the layouts of the used replicas together cover the projection. Some of their bytes may still be
    /// lacking.
    pub all: bool,
}

impl Sources {
    /// Selects the replicas that lack nothing or, if these do not cover the projection, all replicas that have any
    /// bytes. The file of a replica is never rebuilt from the replica itself.
    pub fn of(loaded: &Loaded, state: &State, projection: Projection) -> Sources {
        let own = match projection {
            Projection::View(_) | Projection::Plain(_) | Projection::Leaf(..) => None,
            Projection::File(file) => loaded.files.get(file).map(|file| file.replica),
        };
        let others = |used: Vec<bool>| -> Vec<bool> {
            used.into_iter().enumerate().map(|(number, used)| used && Some(number) != own).collect()
        };
        let used = others(state.current(loaded));
        if loaded.has_all(projection, &used) {
            return Sources { used, current: true, all: true };
        }
        let used = others(state.present(loaded));
        let all = loaded.has_all(projection, &used);
        Sources { used, current: false, all }
    }

    /// Returns the numbers of the files of all used replicas.
    pub fn files<'a>(&'a self, loaded: &'a Loaded) -> impl Iterator<Item = usize> + 'a {
        loaded.replicas.iter().zip(&self.used).filter(|(_, used)| **used).flat_map(|(replica, _)| replica.files())
    }
}

impl Shared {
    /// Fills `out` with the plan of `sources`. With `renew`, bytes that no replica stores keep their value. Returns,
    /// for each byte, whether some replica stores it but no source has it readable and up to date; returns `None` if
    /// there is no such byte.
    pub fn gather(
        &self,
        loaded: &Loaded,
        state: &State,
        (projection, sources, plan): (Projection, &Sources, &Plan),
        offset: u64,
        out: &mut [u8],
        renew: bool,
    ) -> Attempt<Option<Vec<bool>>> {
        if sources.current {
            self.read_with_plan(loaded, state, plan, offset, out, renew)?;
            return Ok(None);
        }
        let (mut missing, mut at, length) = (Vec::new(), offset, out.len());
        for piece in out.chunks_mut(GATHER_PIECE_BYTES as usize) {
            let parts = find_touched_parts(plan, at, piece.len() as u64, READ_GAP_BYTES)?;
            if parts.iter().any(|part| state.lacks(part.file, &part.bytes)) {
                if !renew {
                    piece.fill(0);
                }
                missing.resize((at - offset) as usize, false);
                missing.extend(self.gather_readable(loaded, state, (projection, sources), at, piece)?);
            } else {
                self.read_with_plan(loaded, state, plan, at, piece, renew)?;
            }
            at += piece.len() as u64;
        }
        missing.resize(length, false);
        Ok(missing.contains(&true).then_some(missing))
    }

    /// Reads the readable ranges of each source in turn until every byte is found.
    fn gather_readable(
        &self,
        loaded: &Loaded,
        state: &State,
        (projection, sources): (Projection, &Sources),
        at: u64,
        out: &mut [u8],
    ) -> Attempt<Vec<bool>> {
        let (length, count) = (out.len() as u64, loaded.replicas.len());
        let every = loaded.read_plan(&self.store, projection, &vec![true; count])?;
        // Mark the bytes that any replica stores: the plan moves marks of 1 as it moves bytes.
        let mut missing = vec![0; out.len()];
        with_gather_buffer(&every, at, length, READ_GAP_BYTES, |parts| {
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
            let plan = loaded.read_plan(&self.store, projection, &only)?;
            let (mut bytes, mut good) = (vec![0; out.len()], vec![0; out.len()]);
            let tried = with_gather_buffer(&plan, at, length, READ_GAP_BYTES, |parts| {
                parts.fill(|part, into| {
                    into.fill(0);
                    for_each_readable_range(state, part, into, |_, into| {
                        into.fill(1);
                        Ok(())
                    })
                })?;
                plan.renew_gathered(at, &mut good, parts)?;
                parts.fill(|part, into| {
                    for_each_readable_range(state, part, into, |at, into| {
                        self.fetch_bytes(loaded, state, part.file, at, into)
                    })
                })?;
                Ok(plan.renew_gathered(at, &mut bytes, parts)?)
            });
            match tried {
                Ok(()) => {}
                Err(damaged @ crate::attempt::AttemptError::Damaged { .. }) => {
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

/// Calls `each` with the offset and the memory of every range of a part that its file does not lack.
fn for_each_readable_range(
    state: &State,
    part: &Touched,
    into: &mut [u8],
    mut each: impl FnMut(u64, &mut [u8]) -> Attempt<()>,
) -> Attempt<()> {
    state.readable_ranges(part.file, part.bytes.clone()).into_iter().try_for_each(|range: Range<u64>| {
        let within = (range.start - part.bytes.start) as usize..(range.end - part.bytes.start) as usize;
        into.get_mut(within).map_or(Ok(()), |into| each(range.start, into))
    })
}
