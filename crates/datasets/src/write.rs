//! Writing: bytes of a view go into every replica by one commit.

use terrace::Batch;
use terrace_views::convert::{Plan, Stored, Touched};
use terrace_views::model::Sizes;

use crate::dataset::{ATTEMPTS, Shared};
use crate::declared::When;
use crate::loaded::{Loaded, Seen};
use crate::owed::{ATTRIBUTE, Owed};
use crate::read::{Attempt, Trouble};
use crate::state::State;
use crate::touch::{touched, with_gathered};
use crate::{Error, Result, keys};

/// Parts of a file less than this apart are written as one.
const NEAR: u64 = 4 << 10;
/// Owed parts less than this apart are one.
const OWED_NEAR: u64 = 1 << 20;
/// What moves at once when arrays become longer or shorter.
const STEP: usize = 1 << 20;

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
        for _ in 0..ATTEMPTS {
            let alone = self.changing.lock();
            let tried = self.look().and_then(|(loaded, state)| self.put(&loaded, &state, view, offset, bytes));
            drop(alone);
            match tried {
                Ok(()) => return Ok(()),
                Err(Trouble::Changed) => {}
                // What is to be changed in part has to be good first.
                Err(Trouble::Damaged { file, bytes, why: said }) if said != why => {
                    let replica = self.damaged(file, bytes)?;
                    self.settle(&mut |number| number == replica, false)?;
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
        // Where one is not good that has all at once, the others may be all that there is, and get it at once, too.
        let whole =
            loaded.replicas.iter().zip(state.current(loaded)).all(|(one, whole)| whole || one.when != When::Now);
        if !whole {
            self.plan(loaded, state, Seen::View(number), &[])?;
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

/// One write, as it is put together.
pub struct Writer<'a> {
    shared: &'a Shared,
    loaded: &'a Loaded,
    state: &'a State,
    batch: Batch<'a>,
    /// Of each file: what it will lack, where that changes.
    owed: Vec<Option<Owed>>,
    /// Files that must be as they were.
    read: Vec<bool>,
    /// Files that are made anew, since they were deleted.
    made: Vec<bool>,
    /// Variables that say how long arrays are, as they are being written: file, place and bytes.
    written: Vec<(usize, u64, Vec<u8>)>,
}

impl<'a> Writer<'a> {
    pub fn new(shared: &'a Shared, loaded: &'a Loaded, state: &'a State) -> Writer<'a> {
        let count = loaded.files.len();
        let mut batch = shared.store.batch();
        batch.unchanged(&keys::declaration(&shared.name), &loaded.object);
        let (owed, read, made) = (vec![None; count], vec![false; count], vec![false; count]);
        Writer { shared, loaded, state, batch, owed, read, made, written: Vec::new() }
    }

    /// Writes bytes of a view into a replica.
    fn write(&mut self, view: usize, replica: usize, offset: u64, bytes: &[u8]) -> Attempt<()> {
        let plan = self.loaded.writing(view, replica);
        if let Some((file, at)) = plan.straight(offset, bytes.len() as u64) {
            return self.store(file, at, bytes);
        }
        with_gathered(&plan, offset, bytes.len() as u64, NEAR, |parts| {
            parts.fill(|part: &Touched, into| match part.whole || self.state.object(part.file).is_none() {
                true => Ok(()),
                false => {
                    self.unchanged(std::iter::once(part.file));
                    self.shared.fetch(self.loaded, self.state, part.file, part.bytes.start, into)
                }
            })?;
            plan.write_gathered(offset, bytes, parts)?;
            parts.parts().try_for_each(|(part, bytes)| self.store(part.file, part.bytes.start, bytes))
        })
    }

    /// Writes bytes of a file. One that was deleted is made again, and lacks all.
    pub fn store(&mut self, file: usize, at: u64, bytes: &[u8]) -> Attempt<()> {
        let Some(stored) = self.loaded.files.get(file) else { return Ok(()) };
        let Some(object) = self.state.object(file) else { return self.make(file) };
        // What lacks something may be being filled from before this write.
        if self.state.owed(file).is_some_and(|owed| !owed.is_empty()) {
            self.lack(file, at..at + bytes.len() as u64);
        }
        self.note_sizes(file, at, bytes)?;
        Ok(self.batch.write(&stored.key, object.id, at, bytes, stored.element)?)
    }

    /// Notes what bytes of a file say of sizes.
    fn note_sizes(&mut self, file: usize, at: u64, bytes: &[u8]) -> Attempt<()> {
        let loaded = self.loaded;
        for place in loaded.varying.iter().flat_map(|one| &one.places).filter(|place| place.file == file) {
            let (start, end) =
                (place.offset.max(at), (place.offset + place.size() as u64).min(at + bytes.len() as u64));
            if start >= end {
                continue;
            }
            let known = self.written.iter().position(|(known, offset, _)| (*known, *offset) == (file, place.offset));
            let mut value = match known {
                Some(known) => self.written.remove(known).2,
                None => vec![0; place.size()],
            };
            if known.is_none() {
                self.unchanged(std::iter::once(file));
                self.shared.fetch(loaded, self.state, file, place.offset, &mut value)?;
            }
            let into = value.get_mut((start - place.offset) as usize..(end - place.offset) as usize);
            if let (Some(into), Some(from)) = (into, bytes.get((start - at) as usize..(end - at) as usize)) {
                into.copy_from_slice(from);
            }
            self.written.push((file, place.offset, value));
        }
        Ok(())
    }

    /// Owes what a write touches of a replica.
    fn owe(&mut self, view: usize, replica: usize, offset: u64, length: u64) -> Attempt<()> {
        let plan = self.loaded.writing(view, replica);
        for part in touched(&plan, offset, length, OWED_NEAR)? {
            match self.state.object(part.file) {
                Some(_) => self.lack(part.file, part.bytes),
                None => self.make(part.file)?,
            }
        }
        Ok(())
    }

    /// Makes a file, which lacks all.
    pub fn make(&mut self, file: usize) -> Attempt<()> {
        let (Some(stored), Some(made)) = (self.loaded.files.get(file), self.made.get_mut(file)) else { return Ok(()) };
        if !std::mem::replace(made, true) {
            let length = stored.length();
            self.batch.make(&stored.key, length, crate::datasets::attributes(&Owed::all()))?;
        }
        Ok(())
    }

    /// Makes a file as long as it has to be.
    pub fn set_length(&mut self, file: usize) {
        if let Some(stored) = self.loaded.files.get(file) {
            self.batch.set_length(&stored.key, stored.length());
        }
    }

    /// Notes that a file lacks bytes.
    pub fn lack(&mut self, file: usize, bytes: std::ops::Range<u64>) {
        self.owe_anew(file, |owed| owed.add(bytes));
    }

    /// Changes what a file lacks.
    pub fn owe_anew(&mut self, file: usize, change: impl FnOnce(&mut Owed)) {
        let before = self.state.owed(file).cloned().unwrap_or_default();
        if let Some(slot) = self.owed.get_mut(file) {
            change(slot.get_or_insert(before));
        }
    }

    /// The files must be as they were when this is committed.
    pub fn unchanged(&mut self, files: impl Iterator<Item = usize>) {
        for file in files {
            if let Some(read) = self.read.get_mut(file) {
                *read = true;
            }
        }
    }

    /// Makes files as long as the sizes say that are being written, and lays out anew what lies elsewhere then.
    fn resize(&mut self) -> Attempt<()> {
        let mut sizes: Sizes = self.loaded.sizes.clone();
        for one in &self.loaded.varying {
            let written = one.places.iter().find_map(|place| {
                let own = self.written.iter().find(|(file, offset, _)| (*file, *offset) == (place.file, place.offset));
                own.map(|(_, _, bytes)| place.value(bytes))
            });
            if let Some(value) = written {
                sizes.insert(one.variable, value);
            }
        }
        if sizes == self.loaded.sizes {
            return Ok(());
        }
        let shrinks =
            sizes.iter().any(|(variable, size)| self.loaded.sizes.get(variable).is_some_and(|old| old > size));
        let (object, declared) = (self.loaded.object.clone(), self.loaded.declared.clone());
        let next = Loaded::new(&self.shared.name, object, declared, sizes)?;
        for (file, (old, new)) in self.loaded.files.iter().zip(&next.files).enumerate() {
            let (same, stays) = (old.layout.is_same(&new.layout), old.layout.lies_as(&new.layout));
            if same || self.state.object(file).is_none() {
                if self.made.get(file) == Some(&true) {
                    self.batch.set_length(&old.key, new.length());
                }
                continue;
            }
            self.unchanged(std::iter::once(file));
            if shrinks || !stays {
                self.move_file(file, &next)?;
            }
            self.batch.set_length(&old.key, new.length());
        }
        Ok(())
    }

    /// Gives a file's elements the places that they have from now on.
    fn move_file(&mut self, file: usize, next: &Loaded) -> Attempt<()> {
        let (Some(old), Some(new)) = (self.loaded.files.get(file), next.files.get(file)) else { return Ok(()) };
        let Some(object) = self.state.object(file) else { return Ok(()) };
        let stored = Stored { layout: &old.layout, first_file: file, rate: 1.0 };
        let plan = Plan::reading(&new.layout, &[stored]);
        let mut at = 0;
        while at < new.length() {
            let mut piece = vec![0; STEP.min((new.length() - at) as usize)];
            self.shared.pull(self.loaded, self.state, &plan, at, &mut piece, true)?;
            self.batch.write(&old.key, object.id, at, &piece, old.element)?;
            at += piece.len() as u64;
        }
        for (_, offset, bytes) in self.written.iter().filter(|(written, ..)| *written == file) {
            self.batch.write(&old.key, object.id, *offset, bytes, old.element)?;
        }
        // What it lacks lies elsewhere now, too.
        let lacks = self.state.owed(file).is_some_and(|owed| !owed.is_empty());
        if lacks || self.owed.get(file).is_some_and(Option::is_some) {
            self.lack(file, 0..u64::MAX);
        }
        Ok(())
    }

    /// Makes all of it visible. Returns when the replicas that lack something now are to have it.
    pub fn commit(mut self) -> Attempt<Vec<When>> {
        let mut later = Vec::new();
        for (file, stored) in self.loaded.files.iter().enumerate() {
            let Some(state) = self.state.files.get(file).and_then(Option::as_ref) else { continue };
            let owed = self.owed.get_mut(file).and_then(Option::take);
            if owed.is_some() || self.read.get(file) == Some(&true) {
                self.batch.unchanged(&stored.key, &state.object);
            }
            let Some(owed) = owed else { continue };
            let when = self.loaded.replicas.get(stored.replica).map(|replica| replica.when);
            later.extend(when.filter(|_| !owed.is_empty()));
            if owed != state.owed {
                let mut attributes = state.object.attributes.clone();
                attributes.user.remove(ATTRIBUTE);
                if !owed.is_empty() {
                    attributes.user.insert(ATTRIBUTE.to_owned(), owed.text());
                }
                self.batch.set_attributes(&stored.key, attributes);
            }
        }
        if self.made.contains(&true) {
            later.push(When::Now);
        }
        self.batch.commit()?;
        Ok(later)
    }
}
