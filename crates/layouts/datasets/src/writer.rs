//! One change to a dataset's files, as it is put together.

use terrace::Batch;
use terrace_views::convert::{Plan, Touched};

use crate::dataset::Shared;
use crate::declared::When;
use crate::loaded::Loaded;
use crate::owed::{ATTRIBUTE, Owed};
use crate::read::Attempt;
use crate::state::State;
use crate::touch::{touched, with_gathered};
use crate::{datasets, keys};

/// Parts of a file less than this apart are written as one.
pub const NEAR: u64 = 4 << 10;
/// Owed parts less than this apart are one.
const OWED_NEAR: u64 = 1 << 20;

/// One change, as it is put together.
pub struct Writer<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) loaded: &'a Loaded,
    pub(crate) state: &'a State,
    pub(crate) batch: Batch<'a>,
    /// Of each file: what it will lack, where that changes.
    pub(crate) owed: Vec<Option<Owed>>,
    /// Files that must be as they were.
    read: Vec<bool>,
    /// Files that are made anew, since they were deleted.
    pub(crate) made: Vec<bool>,
    /// Variables that say how long arrays are, as they are being written: file, place and bytes.
    pub(crate) written: Vec<(usize, u64, Vec<u8>)>,
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
    pub fn write(&mut self, view: usize, replica: usize, offset: u64, bytes: &[u8]) -> Attempt<()> {
        let plan = self.loaded.writing(view, replica);
        self.has(&plan, offset, bytes.len() as u64)?;
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

    /// Files that lack something do not lack what a write brings. What is being filled must be as it was for that.
    fn has(&mut self, plan: &Plan, offset: u64, length: u64) -> Attempt<()> {
        let lacks = |file: usize| self.state.owed(file).is_some_and(|owed| !owed.is_empty());
        let some: Vec<usize> = (0..self.loaded.files.len()).filter(|file| lacks(*file)).collect();
        if some.is_empty() {
            return Ok(());
        }
        for part in touched(plan, offset, length, 0)?.into_iter().filter(|part| some.contains(&part.file)) {
            self.owe_anew(part.file, |owed| {
                if part.whole {
                    owed.remove(part.bytes);
                }
            });
        }
        Ok(())
    }

    /// Writes bytes of a file. One that was deleted is made again, and lacks all.
    pub fn store(&mut self, file: usize, at: u64, bytes: &[u8]) -> Attempt<()> {
        let Some(stored) = self.loaded.files.get(file) else { return Ok(()) };
        let Some(object) = self.state.object(file) else { return self.make(file) };
        self.note_sizes(file, at, bytes)?;
        Ok(self.batch.write(&stored.key, object.id, at, bytes, stored.element)?)
    }

    /// Owes what a write touches of a replica.
    pub fn owe(&mut self, view: usize, replica: usize, offset: u64, length: u64) -> Attempt<()> {
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
            self.batch.make(&stored.key, length, datasets::attributes(&Owed::all()))?;
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
