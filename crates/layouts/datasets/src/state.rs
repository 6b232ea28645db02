//! How the objects of a dataset are at one time.

use std::ops::Range;

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
    /// What could not be read of it just now.
    pub bad: Owed,
}

impl State {
    pub fn of(store: &Store, loaded: &Loaded) -> Result<State> {
        let mut files = Vec::with_capacity(loaded.files.len());
        for file in &loaded.files {
            files.push(match store.stat(&file.key) {
                Ok(object) => {
                    let owed =
                        object.attributes.user.get(ATTRIBUTE).map_or_else(Owed::default, |text| Owed::read(text));
                    Some(FileState { object, owed, bad: Owed::default() })
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

    /// Bytes of files could not be read.
    pub fn avoid(&mut self, bad: &[(usize, Range<u64>)]) {
        for (file, bytes) in bad {
            if let Some(Some(state)) = self.files.get_mut(*file) {
                state.bad.add(bytes.clone());
            }
        }
    }

    /// Whether a file lacks any of some bytes.
    pub fn lacks(&self, file: usize, bytes: &Range<u64>) -> bool {
        self.good(file, bytes.clone()) != [bytes.clone()]
    }

    /// What a file lacks that is there.
    pub fn lacked(&self, file: usize) -> impl Iterator<Item = Range<u64>> {
        let state = self.files.get(file).and_then(Option::as_ref);
        state.into_iter().flat_map(|state| state.owed.ranges().iter().chain(state.bad.ranges())).cloned()
    }

    /// Whether a file lacks more than so much at one place.
    pub fn vast(&self, file: usize, loaded: &Loaded, most: u64) -> bool {
        let length = loaded.files.get(file).map_or(0, |file| file.length());
        self.lacked(file).any(|range| range.end.min(length).saturating_sub(range.start) > most)
    }

    /// Those of some bytes that a file does not lack.
    pub fn good(&self, file: usize, bytes: Range<u64>) -> Vec<Range<u64>> {
        let Some(Some(state)) = self.files.get(file) else { return Vec::new() };
        state.owed.others(bytes).into_iter().flat_map(|range| state.bad.others(range)).collect()
    }

    /// Which replicas are there, and lack nothing.
    pub fn current(&self, loaded: &Loaded) -> Vec<bool> {
        self.replicas(loaded, |file| file.owed.is_empty() && file.bad.is_empty())
    }

    /// Which replicas are there, and have at least something. What they lack is not to be used.
    pub fn present(&self, loaded: &Loaded) -> Vec<bool> {
        self.replicas(loaded, |file| file.owed != Owed::all())
    }

    fn replicas(&self, loaded: &Loaded, good: impl Fn(&FileState) -> bool) -> Vec<bool> {
        let good = |file: usize| self.files.get(file).and_then(Option::as_ref).is_some_and(&good);
        loaded.replicas.iter().map(|replica| replica.files().all(good)).collect()
    }
}
