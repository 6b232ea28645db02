//! [`View`]: bytes as somebody wants to see them.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::dataset::Dataset;
use crate::declared::When;
use crate::{Error, Result};

/// An open view: as a file of a fixed length, that of what it shows. Many threads may use one at once.
pub struct View {
    dataset: Dataset,
    name: String,
    /// Whether anything was written since it was last closed.
    written: AtomicBool,
}

impl View {
    pub(crate) fn new(dataset: Dataset, name: &str) -> View {
        View { dataset, name: name.to_owned(), written: AtomicBool::new(false) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The dataset.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// Its length in bytes. Only a write to a variable that says how long an array is changes it.
    pub fn length(&self) -> Result<u64> {
        let (loaded, _) = self.dataset.shared.now()?;
        let layout = loaded.views.get(loaded.view(&self.name)?);
        Ok(layout.and_then(|layout| layout.files.first()).copied().unwrap_or(0))
    }

    /// Whether nothing can be written through it.
    pub fn is_read_only(&self) -> Result<bool> {
        let (loaded, _) = self.dataset.shared.now()?;
        let number = loaded.view(&self.name)?;
        Ok(loaded.declared.model.views.get(number).is_some_and(|view| view.style.read_only))
    }

    /// Fills `out` from byte `offset` on; the bytes read, which are fewer only at the end. All are as they were at one moment.
    ///
    /// # Errors
    /// [`Error::Lost`] where no replica that can be read has them.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.dataset.shared.read(&self.name, offset, out)
    }

    /// Writes at `offset`: into every replica, in those that follow later then. All of it is seen at once, or none; but a write
    /// of a variable that says how long arrays are is a step of its own.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Beyond`] where it goes on beyond the end: then nothing is written of that step.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.dataset.shared.write(&self.name, offset, bytes)?;
        self.written.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Brings replicas up to date that wait for this, if anything was written. Others close it, too, where it is dropped without:
    /// what is owed then is made when somebody closes a view next.
    pub fn close(&self) -> Result<()> {
        if !self.written.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let shared = &self.dataset.shared;
        let (loaded, _) = shared.now()?;
        let waits = |replica: usize| loaded.replicas.get(replica).is_some_and(|one| one.when == When::OnClose);
        match shared.settle(&mut |replica| waits(replica), false) {
            // Others are at it.
            Err(Error::Busy(_)) => Ok(()),
            done => done,
        }
    }
}
