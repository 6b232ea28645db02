//! [`View`]: an open view.

use std::sync::atomic::{AtomicBool, Ordering};

use terrace_views::layout::Described;

use crate::dataset::Dataset;
use crate::declared::UpdateTime;
use crate::{Error, Result};

/// An open view. It behaves like a file of a fixed length, and many threads may use it at once.
pub struct View {
    dataset: Dataset,
    name: String,
    /// Whether anything was written through the view since it was last closed. Relaxed: a program that orders its writes before its close orders
    /// this, too, and the bytes are recorded as owed in any case.
    written: AtomicBool,
}

impl Dataset {
    /// Opens a view.
    ///
    /// # Errors
    /// [`Error::NoView`] if the dataset has no view of that name.
    pub fn view(&self, name: &str) -> Result<View> {
        self.shared.load()?.0.view(name)?;
        Ok(View::new(self.clone(), name))
    }
}

impl View {
    pub(crate) fn new(dataset: Dataset, name: &str) -> View {
        View { dataset, name: name.to_owned(), written: AtomicBool::new(false) }
    }

    /// Returns the view's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the view's dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Returns the view's length in bytes. Only a write to a variable that holds an array length changes it.
    pub fn length(&self) -> Result<u64> {
        let (loaded, _) = self.dataset.shared.load()?;
        let layout = loaded.views.get(loaded.view(&self.name)?);
        Ok(layout.and_then(|layout| layout.files.first()).copied().unwrap_or(0))
    }

    /// Returns whether the view is read-only.
    pub fn is_read_only(&self) -> Result<bool> {
        let (loaded, _) = self.dataset.shared.load()?;
        let number = loaded.view(&self.name)?;
        Ok(loaded.declared.model.views.get(number).is_some_and(|view| view.style.read_only))
    }

    /// Describes the view's variables as arrays, for the current array lengths. Returns `None` if they are in tiles, in blocks or along a
    /// curve.
    pub fn describe(&self) -> Result<Option<Vec<Described>>> {
        let (loaded, _) = self.dataset.shared.load()?;
        let number = loaded.view(&self.name)?;
        let found = loaded.views.get(number).zip(loaded.declared.model.views.get(number));
        Ok(found.and_then(|(layout, view)| layout.describe(view, 0, &loaded.declared.model.dataset)))
    }

    /// Fills `out` with the bytes from `offset` on and returns the number of bytes read, which is smaller than `out`
    /// only at the view's end. All bytes are those of one moment.
    ///
    /// # Errors
    /// [`Error::Lost`] if no readable replica has the bytes.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.dataset.shared.read(&self.name, offset, out)
    }

    /// Writes `bytes` at `offset` into every replica; asynchronous replicas follow later. The write is atomic, unless
    /// it covers variables that hold array lengths: each of these is written in a step of its own.
    ///
    /// # Errors
    /// [`Error::ReadOnly`] if the view is read-only; [`Error::Beyond`] if a step ends beyond the view's end, in which
    /// case that step writes nothing.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.dataset.shared.write(&self.name, offset, bytes)?;
        self.written.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Updates the replicas that wait for a view to be closed, if anything was written. Dropping a view does not update
    /// them: their pending bytes then wait until a view is closed next, in any process.
    pub fn close(&self) -> Result<()> {
        if !self.written.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let updated = self.update_waiting();
        if updated.is_err() {
            // The next close tries again.
            self.written.store(true, Ordering::Relaxed);
        }
        match updated {
            // Concurrent changes kept this update from committing. Ignoring the error is safe: the bytes stay recorded
            // as owed, and a later close updates them.
            Err(Error::Busy(_)) => Ok(()),
            done => done,
        }
    }

    fn update_waiting(&self) -> Result<()> {
        let shared = &self.dataset.shared;
        let (loaded, _) = shared.load()?;
        let waits = |replica: usize| loaded.replicas.get(replica).is_some_and(|one| one.when == UpdateTime::OnClose);
        shared.update_replicas(&mut |replica| waits(replica), false)
    }
}
