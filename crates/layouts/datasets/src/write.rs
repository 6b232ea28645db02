//! Writes bytes of a view into every replica with one commit.

use crate::attempt::attempts;
use crate::attempt::{Attempt, AttemptError};
use crate::declared::UpdateTime;
use crate::loaded::{Loaded, Projection};
use crate::shared::Shared;
use crate::state::State;
use crate::touch::find_touched_parts;
use crate::writer::{WRITE_GAP_BYTES, Writer};
use crate::{Error, Result};

impl Shared {
    /// Writes bytes of a view from `offset` on. The write is atomic, unless it changes array lengths: then it takes
    /// several steps, each of them atomic.
    pub fn write(&self, view: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let (mut at, mut left) = (offset, bytes);
        while !left.is_empty() {
            let step = self.step_length(view, at, left.len())?;
            let (now, rest) = left.split_at(step.min(left.len()));
            self.write_step(view, at, now)?;
            (at, left) = (at + now.len() as u64, rest);
        }
        Ok(())
    }

    /// Returns how many bytes of a request one step writes. A step ends where a size variable begins or ends, because a
    /// new length changes the places of all later elements.
    fn step_length(&self, view: &str, offset: u64, length: usize) -> Result<usize> {
        let (loaded, _) = self.load()?;
        let Some(layout) = loaded.views.get(loaded.view(view)?) else { return Ok(length) };
        let places = loaded.varying.iter().flat_map(|one| one.within(layout));
        let cuts = places.flat_map(|place| [place.start, place.end]).filter(|cut| *cut > offset);
        Ok(cuts.min().map_or(length, |cut| usize::try_from(cut - offset).unwrap_or(length)))
    }

    fn write_step(&self, view: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut why = String::new();
        let mut shares = self.needs_no_reads(view, offset, bytes.len() as u64);
        for _ in attempts() {
            let held = (shares.then(|| self.changing.read()), (!shares).then(|| self.changing.write()));
            let tried =
                self.try_load().and_then(|(loaded, state)| self.try_write(&loaded, &state, view, offset, bytes));
            drop(held);
            match tried {
                Ok(()) => return Ok(()),
                Err(AttemptError::Changed) => shares = false,
                // A write that changes only parts of a range reads the rest of it, so rebuild the damaged range first.
                Err(AttemptError::Damaged { file, bytes, why: said }) if said != why => {
                    if let Some(replica) = self.mark_damaged(file, bytes)? {
                        self.update_replicas(&mut |number| number == replica, false)?;
                    }
                    why = said;
                }
                Err(AttemptError::Damaged { why, .. }) => {
                    return Err(Error::Lost { dataset: self.name.clone(), what: format!("a part of {view:?}"), why });
                }
                Err(AttemptError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }

    /// Returns whether a write, judged by the cached declaration, reads nothing from replicas and changes no owed
    /// ranges. Other threads of this process may then write at the same time. A stale cache is harmless: the batch's
    /// conditions still detect conflicting commits.
    fn needs_no_reads(&self, view: &str, offset: u64, length: u64) -> bool {
        let Some(loaded) = self.cached().filter(|loaded| loaded.varying.is_empty()) else { return false };
        let Ok(number) = loaded.view(view) else { return false };
        loaded.replicas.iter().enumerate().all(|(replica, stored)| {
            let plan = loaded.write_plan(number, replica);
            let whole = || {
                find_touched_parts(&plan, offset, length, WRITE_GAP_BYTES)
                    .is_ok_and(|parts| parts.iter().all(|part| part.whole))
            };
            stored.when == UpdateTime::Now && (plan.straight(offset, length).is_some() || whole())
        })
    }

    fn try_write(&self, loaded: &Loaded, state: &State, view: &str, offset: u64, bytes: &[u8]) -> Attempt<()> {
        let number = loaded.view(view)?;
        let length = loaded.views.get(number).and_then(|layout| layout.files.first()).copied().unwrap_or(0);
        let end = offset.saturating_add(bytes.len() as u64);
        if loaded.declared.model.views.get(number).is_some_and(|view| view.style.read_only) {
            return Err(Error::ReadOnly(view.to_owned()).into());
        }
        if end > length {
            return Err(Error::Beyond { view: view.to_owned(), end, length }.into());
        }
        let mut writer = Writer::new(self, loaded, state);
        // The places of the bytes depend on the array lengths, so the commit must fail if a length changes.
        let sizes = loaded.varying.iter().flat_map(|one| &one.places).map(|place| place.file);
        writer.require_unchanged(sizes.filter(|file| state.object(*file).is_some()));
        // If a synchronous replica lacks bytes, an asynchronous one may hold the only copy of them, so it gets the
        // write at once, too.
        let whole =
            loaded.replicas.iter().zip(state.current(loaded)).all(|(one, whole)| whole || one.when != UpdateTime::Now);
        if !whole {
            self.require_sources(loaded, state, Projection::View(number), &[])?;
        }
        for (replica, stored) in loaded.replicas.iter().enumerate() {
            match stored.when {
                UpdateTime::Within(_) | UpdateTime::OnClose if whole => {
                    writer.owe_write(number, replica, offset, bytes.len() as u64)?
                }
                _ => writer.write_view(number, replica, offset, bytes)?,
            }
        }
        writer.resize_files()?;
        let later = writer.commit()?;
        self.schedule_updates(later);
        Ok(())
    }
}
