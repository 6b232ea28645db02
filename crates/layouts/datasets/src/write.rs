//! Writing: bytes of a view go into every replica by one commit.

use crate::dataset::{ATTEMPTS, Shared};
use crate::declared::When;
use crate::loaded::{Loaded, Seen};
use crate::read::{Attempt, Trouble};
use crate::state::State;
use crate::touch::touched;
use crate::writer::{NEAR, Writer};
use crate::{Error, Result};

impl Shared {
    /// Writes bytes of a view, from `offset` on: whole or not at all, unless they change how long arrays are; then in so many
    /// steps.
    pub fn write(&self, view: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let (mut at, mut left) = (offset, bytes);
        while !left.is_empty() {
            let step = self.step(view, at, left.len())?;
            let (now, rest) = left.split_at(step.min(left.len()));
            self.write_step(view, at, now)?;
            (at, left) = (at + now.len() as u64, rest);
        }
        Ok(())
    }

    /// How much of a request is written at once: up to where a length begins, or to its end, since it changes where all else lies.
    fn step(&self, view: &str, offset: u64, length: usize) -> Result<usize> {
        let (loaded, _) = self.now()?;
        let Some(layout) = loaded.views.get(loaded.view(view)?) else { return Ok(length) };
        let places = loaded.varying.iter().flat_map(|one| one.within(layout));
        let cuts = places.flat_map(|place| [place.start, place.end]).filter(|cut| *cut > offset);
        Ok(cuts.min().map_or(length, |cut| usize::try_from(cut - offset).unwrap_or(length)))
    }

    fn write_step(&self, view: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut why = String::new();
        let mut shares = self.only_writes(view, offset, bytes.len() as u64);
        for _ in 0..ATTEMPTS {
            let held = (shares.then(|| self.changing.read()), (!shares).then(|| self.changing.write()));
            let tried = self.look().and_then(|(loaded, state)| self.put(&loaded, &state, view, offset, bytes));
            drop(held);
            match tried {
                Ok(()) => return Ok(()),
                Err(Trouble::Changed) => shares = false,
                // What is to be changed in part has to be good first.
                Err(Trouble::Damaged { file, bytes, why: said }) if said != why => {
                    if let Some(replica) = self.damaged(file, bytes)? {
                        self.settle(&mut |number| number == replica, false)?;
                    }
                    why = said;
                }
                Err(Trouble::Damaged { why, .. }) => {
                    return Err(Error::Lost { dataset: self.name.clone(), what: format!("a part of {view:?}"), why });
                }
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }

    /// Whether a write, as far as is known, reads nothing of replicas and notes nothing of what they lack: others of this process can
    /// then write at the same time.
    fn only_writes(&self, view: &str, offset: u64, length: u64) -> bool {
        let Some(loaded) = self.known().filter(|loaded| loaded.varying.is_empty()) else { return false };
        let Ok(number) = loaded.view(view) else { return false };
        loaded.replicas.iter().enumerate().all(|(replica, stored)| {
            let plan = loaded.writing(number, replica);
            let whole = || touched(&plan, offset, length, NEAR).is_ok_and(|parts| parts.iter().all(|part| part.whole));
            stored.when == When::Now && (plan.straight(offset, length).is_some() || whole())
        })
    }

    fn put(&self, loaded: &Loaded, state: &State, view: &str, offset: u64, bytes: &[u8]) -> Attempt<()> {
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
        // Where the bytes lie depends on how long arrays are.
        let sizes = loaded.varying.iter().flat_map(|one| &one.places).map(|place| place.file);
        writer.unchanged(sizes.filter(|file| state.object(*file).is_some()));
        // Where one is not good that has all at once, the others may be all that there is, and get it at once, too.
        let whole =
            loaded.replicas.iter().zip(state.current(loaded)).all(|(one, whole)| whole || one.when != When::Now);
        if !whole {
            self.sources(loaded, state, Seen::View(number), &[])?;
        }
        for (replica, stored) in loaded.replicas.iter().enumerate() {
            match stored.when {
                When::Within(_) | When::OnClose if whole => writer.owe(number, replica, offset, bytes.len() as u64)?,
                _ => writer.write(number, replica, offset, bytes)?,
            }
        }
        writer.resize()?;
        let later = writer.commit()?;
        self.follower.expect(self, later);
        Ok(())
    }
}
