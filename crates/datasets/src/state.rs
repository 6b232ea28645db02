//! How the objects of a dataset are at one time.

use terrace::{Object, Store};

use crate::Result;
use crate::loaded::Loaded;
use crate::owed::{ATTRIBUTE, Owed};

/// The objects of all files, as they were; those of replicas that were deleted are missing.
pub struct State {
    pub files: Vec<Option<FileState>>,
}

/// A file's object.
pub struct FileState {
    pub object: Object,
    /// What it still lacks.
    pub owed: Owed,
}

impl State {
    pub fn of(store: &Store, loaded: &Loaded) -> Result<State> {
        let mut files = Vec::with_capacity(loaded.files.len());
        for file in &loaded.files {
            files.push(match store.stat(&file.key) {
                Ok(object) => {
                    let owed =
                        object.attributes.user.get(ATTRIBUTE).map_or_else(Owed::default, |text| Owed::read(text));
                    Some(FileState { object, owed })
                }
                Err(terrace::Error::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            });
        }
        Ok(State { files })
    }

    /// What is not as long as it has to be was put there by others: it lacks all.
    pub fn distrust(&mut self, loaded: &Loaded) {
        for (state, file) in self.files.iter_mut().zip(&loaded.files) {
            if let Some(state) = state.as_mut().filter(|state| state.object.length != file.length()) {
                state.owed = Owed::all();
            }
        }
    }

    /// A file's object, if it is there.
    pub fn object(&self, file: usize) -> Option<&Object> {
        self.files.get(file)?.as_ref().map(|state| &state.object)
    }

    /// What a file lacks; none where all of it is missing.
    pub fn owed(&self, file: usize) -> Option<&Owed> {
        self.files.get(file)?.as_ref().map(|state| &state.owed)
    }

    /// Which replicas are there, and lack nothing.
    pub fn current(&self, loaded: &Loaded) -> Vec<bool> {
        let whole = |file: usize| self.owed(file).is_some_and(Owed::is_empty);
        loaded.replicas.iter().map(|replica| replica.files().all(whole)).collect()
    }

    /// Which replicas are there, and have at least something.
    pub fn present(&self, loaded: &Loaded) -> Vec<bool> {
        let some = |file: usize| self.owed(file).is_some_and(|owed| *owed != Owed::all());
        loaded.replicas.iter().map(|replica| replica.files().all(some)).collect()
    }
}
