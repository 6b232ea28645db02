//! [`Dataset`]: an open dataset.

use std::sync::Arc;

use terrace::Store;
use terrace_views::explain::{Explanation, explain};
use terrace_views::model::Attribute;

use crate::shared::Shared;
use crate::stored::StoredReplica;
use crate::{Error, Result};

/// An open dataset. Clones are cheap, and many threads and processes may use one at once.
#[derive(Clone)]
pub struct Dataset {
    pub(crate) shared: Arc<Shared>,
}

impl Dataset {
    pub(crate) fn new(store: &Store, name: &str) -> Dataset {
        Dataset { shared: Shared::new(store, name) }
    }

    /// Returns the dataset's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns the current declaration.
    pub fn declaration(&self) -> Result<String> {
        Ok(self.shared.load()?.0.declared.text.clone())
    }

    /// Returns the attributes of the dataset. [`View::describe`](crate::View::describe) has those of variables.
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        Ok(self.shared.load()?.0.declared.model.dataset.attributes.clone())
    }

    /// Describes all views and replicas and the places of their bytes, for the current array lengths.
    pub fn explain(&self) -> Result<Explanation> {
        let (loaded, _) = self.shared.load()?;
        let misfit = |misfit| Error::Size { dataset: self.shared.name.clone(), misfit };
        explain(&loaded.declared.model, &loaded.sizes).map_err(misfit)
    }

    /// Returns the names of the views, in the order of the declaration.
    pub fn views(&self) -> Result<Vec<String>> {
        let (loaded, _) = self.shared.load()?;
        Ok(loaded.declared.model.views.iter().map(|view| view.name.clone()).collect())
    }

    /// Returns, for each replica, its name, the keys of its files and whether it still lacks bytes.
    pub fn replicas(&self) -> Result<Vec<(String, Vec<String>, bool)>> {
        let (loaded, state) = self.shared.load()?;
        let current = state.current(&loaded);
        let one = |(number, replica): (usize, &StoredReplica)| {
            let name = loaded.declared.model.replicas.get(number).map_or_else(String::new, |r| r.name.clone());
            let files = loaded.files.get(replica.files()).unwrap_or_default();
            let keys = files.iter().map(|file| String::from_utf8_lossy(&file.key).into_owned()).collect();
            (name, keys, !current.get(number).copied().unwrap_or(false))
        };
        Ok(loaded.replicas.iter().enumerate().map(one).collect())
    }

    /// Returns when a replica last changed, in nanoseconds since 1970.
    pub fn modified(&self) -> Result<i64> {
        let (_, state) = self.shared.load()?;
        let times = state.files.iter().flatten().map(|file| file.object.attributes.mtime);
        Ok(times.max().unwrap_or(0))
    }

    /// Brings all replicas up to date, including asynchronous ones.
    pub fn settle(&self) -> Result<()> {
        self.shared.update_replicas(&mut |_| true, false)
    }
}
