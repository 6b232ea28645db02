//! Assembles one change to a dataset's files.

use terrace::Batch;
use terrace_views::convert::{Plan, Touched};

use crate::attempt::Attempt;
use crate::declared::UpdateTime;
use crate::keys;
use crate::loaded::Loaded;
use crate::owed::{OWED_ATTRIBUTE, Owed};
use crate::shared::Shared;
use crate::state::State;
use crate::touch::{find_touched_parts, with_gather_buffer};

/// Gaps shorter than this between written parts of a file are written along with them.
pub const WRITE_GAP_BYTES: u64 = 4 << 10;
/// Gaps shorter than this between owed parts of a file become owed along with them.
const OWED_GAP_BYTES: u64 = 1 << 20;

/// One change while it is assembled: a batch, and the conditions under which it may commit.
pub struct Writer<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) loaded: &'a Loaded,
    pub(crate) state: &'a State,
    pub(crate) batch: Batch<'a>,
    /// For each file, its owed ranges after the commit, if they change.
    pub(crate) owed: Vec<Option<Owed>>,
    /// Files that the change depends on: the commit fails if one has changed since `state` was loaded.
    read: Vec<bool>,
    /// Files that the change creates again, since they were deleted.
    pub(crate) made: Vec<bool>,
    /// The array lengths that the change stores, each as file, offset and bytes.
    pub(crate) written: Vec<(usize, u64, Vec<u8>)>,
}

impl<'a> Writer<'a> {
    pub fn new(shared: &'a Shared, loaded: &'a Loaded, state: &'a State) -> Writer<'a> {
        let count = loaded.files.len();
        let mut batch = shared.store.batch();
        batch.unchanged(&keys::declaration_key(&shared.name), &loaded.object);
        let (owed, read, made) = (vec![None; count], vec![false; count], vec![false; count]);
        Writer { shared, loaded, state, batch, owed, read, made, written: Vec::new() }
    }

    /// Writes bytes of a view into a replica.
    pub fn write_view(&mut self, view: usize, replica: usize, offset: u64, bytes: &[u8]) -> Attempt<()> {
        let plan = self.loaded.write_plan(view, replica);
        self.remove_written_from_owed(&plan, offset, bytes.len() as u64)?;
        if let Some((file, at)) = plan.straight(offset, bytes.len() as u64) {
            return self.write_file(file, at, bytes);
        }
        with_gather_buffer(&plan, offset, bytes.len() as u64, WRITE_GAP_BYTES, |parts| {
            parts.fill(|part: &Touched, into| match part.whole || self.state.object(part.file).is_none() {
                true => Ok(()),
                false => {
                    self.require_unchanged(std::iter::once(part.file));
                    self.shared.fetch_bytes(self.loaded, self.state, part.file, part.bytes.start, into)
                }
            })?;
            plan.write_gathered(offset, bytes, parts)?;
            parts.parts().try_for_each(|(part, bytes)| self.write_file(part.file, part.bytes.start, bytes))
        })
    }

    /// Removes fully written parts from the owed ranges of incomplete files. `commit` then requires these files to be
    /// unchanged, since a concurrent update may rebuild the same ranges from older bytes.
    fn remove_written_from_owed(&mut self, plan: &Plan, offset: u64, length: u64) -> Attempt<()> {
        let lacks = |file: usize| self.state.owed(file).is_some_and(|owed| !owed.is_empty());
        let some: Vec<usize> = (0..self.loaded.files.len()).filter(|file| lacks(*file)).collect();
        if some.is_empty() {
            return Ok(());
        }
        for part in find_touched_parts(plan, offset, length, 0)?.into_iter().filter(|part| some.contains(&part.file)) {
            self.update_owed(part.file, |owed| {
                if part.whole {
                    owed.remove(part.bytes);
                }
            });
        }
        Ok(())
    }

    /// Writes bytes of a file. If the file was deleted, creates it with all its bytes owed instead.
    pub fn write_file(&mut self, file: usize, at: u64, bytes: &[u8]) -> Attempt<()> {
        let Some(stored) = self.loaded.files.get(file) else { return Ok(()) };
        let Some(object) = self.state.object(file) else { return self.create_file(file) };
        self.record_sizes(file, at, bytes)?;
        Ok(self.batch.write(&stored.key, object.id, at, bytes, stored.element)?)
    }

    /// Marks the parts of a replica that a write touches as owed, instead of writing them.
    pub fn owe_write(&mut self, view: usize, replica: usize, offset: u64, length: u64) -> Attempt<()> {
        let plan = self.loaded.write_plan(view, replica);
        for part in find_touched_parts(&plan, offset, length, OWED_GAP_BYTES)? {
            match self.state.object(part.file) {
                Some(_) => self.add_owed(part.file, part.bytes),
                None => self.create_file(part.file)?,
            }
        }
        Ok(())
    }

    /// Creates a file with all its bytes owed.
    pub fn create_file(&mut self, file: usize) -> Attempt<()> {
        let (Some(stored), Some(made)) = (self.loaded.files.get(file), self.made.get_mut(file)) else { return Ok(()) };
        if !std::mem::replace(made, true) {
            let length = stored.length();
            self.batch.make(&stored.key, length, Owed::all().to_attributes())?;
        }
        Ok(())
    }

    /// Sets a file to the length that its layout requires.
    pub fn set_length(&mut self, file: usize) {
        if let Some(stored) = self.loaded.files.get(file) {
            self.batch.set_length(&stored.key, stored.length());
        }
    }

    /// Marks bytes of a file as owed.
    pub fn add_owed(&mut self, file: usize, bytes: std::ops::Range<u64>) {
        self.update_owed(file, |owed| owed.add(bytes));
    }

    /// Changes the owed ranges of a file.
    pub fn update_owed(&mut self, file: usize, change: impl FnOnce(&mut Owed)) {
        let before = self.state.owed(file).cloned().unwrap_or_default();
        if let Some(slot) = self.owed.get_mut(file) {
            change(slot.get_or_insert(before));
        }
    }

    /// Makes the commit fail if one of these files has changed since `state` was loaded.
    pub fn require_unchanged(&mut self, files: impl Iterator<Item = usize>) {
        for file in files {
            if let Some(read) = self.read.get_mut(file) {
                *read = true;
            }
        }
    }

    /// Commits the change. Returns, for each replica that then lacks bytes, when these are due.
    pub fn commit(mut self) -> Attempt<Vec<UpdateTime>> {
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
                attributes.user.remove(OWED_ATTRIBUTE);
                if !owed.is_empty() {
                    attributes.user.insert(OWED_ATTRIBUTE.to_owned(), owed.to_text());
                }
                self.batch.set_attributes(&stored.key, attributes);
            }
        }
        if self.made.contains(&true) {
            later.push(UpdateTime::Now);
        }
        self.batch.commit()?;
        Ok(later)
    }
}
