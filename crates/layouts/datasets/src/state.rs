//! The state of a dataset's objects at one moment.

use std::ops::Range;

use terrace::{Object, Store};

use crate::Result;
use crate::loaded::Loaded;
use crate::owed::{OWED_ATTRIBUTE, Owed};

/// The objects of all files at one moment. The entry of a file whose object was deleted is `None`.
pub struct State {
    pub files: Vec<Option<FileState>>,
}

/// A file's object and its missing bytes.
pub struct FileState {
    pub object: Object,
    /// The ranges that the file still lacks, as its object records them.
    pub owed: Owed,
    /// The ranges that the current request failed to read.
    pub unreadable: Owed,
}

impl State {
    pub fn of(store: &Store, loaded: &Loaded) -> Result<State> {
        let mut files = Vec::with_capacity(loaded.files.len());
        for file in &loaded.files {
            files.push(match store.stat(&file.key) {
                Ok(object) => {
                    let owed =
                        object.attributes.user.get(OWED_ATTRIBUTE).map_or_else(Owed::default, |text| Owed::parse(text));
                    Some(FileState { object, owed, unreadable: Owed::default() })
                }
                Err(terrace::Error::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            });
        }
        Ok(State { files })
    }

    /// Treats a file of a wrong length as lacking all its bytes: something other than this crate wrote it.
    pub fn mark_wrong_lengths_owed(&mut self, loaded: &Loaded) {
        for (state, file) in self.files.iter_mut().zip(&loaded.files) {
            if let Some(state) = state.as_mut().filter(|state| state.object.length != file.length()) {
                state.owed = Owed::all();
            }
        }
    }

    /// Returns a file's object, if it exists.
    pub fn object(&self, file: usize) -> Option<&Object> {
        self.files.get(file)?.as_ref().map(|state| &state.object)
    }

    /// Returns the ranges that a file lacks, or `None` if its object does not exist.
    pub fn owed(&self, file: usize) -> Option<&Owed> {
        self.files.get(file)?.as_ref().map(|state| &state.owed)
    }

    /// Excludes ranges that the current request failed to read.
    pub fn mark_unreadable(&mut self, bad: &[(usize, Range<u64>)]) {
        for (file, bytes) in bad {
            if let Some(Some(state)) = self.files.get_mut(*file) {
                state.unreadable.add(bytes.clone());
            }
        }
    }

    /// Returns whether a file lacks any of these bytes.
    pub fn lacks(&self, file: usize, bytes: &Range<u64>) -> bool {
        self.readable_ranges(file, bytes.clone()) != [bytes.clone()]
    }

    /// Returns the ranges that an existing file lacks.
    pub fn lacking_ranges(&self, file: usize) -> impl Iterator<Item = Range<u64>> {
        let state = self.files.get(file).and_then(Option::as_ref);
        state.into_iter().flat_map(|state| state.owed.ranges().iter().chain(state.unreadable.ranges())).cloned()
    }

    /// Returns whether a file lacks a contiguous range of more than `most` bytes.
    pub fn lacks_more_than(&self, file: usize, loaded: &Loaded, most: u64) -> bool {
        let length = loaded.files.get(file).map_or(0, |file| file.length());
        self.lacking_ranges(file).any(|range| range.end.min(length).saturating_sub(range.start) > most)
    }

    /// Returns the parts of `bytes` that a file does not lack.
    pub fn readable_ranges(&self, file: usize, bytes: Range<u64>) -> Vec<Range<u64>> {
        let Some(Some(state)) = self.files.get(file) else { return Vec::new() };
        state.owed.subtract_from(bytes).into_iter().flat_map(|range| state.unreadable.subtract_from(range)).collect()
    }

    /// Returns, for each replica, whether all its files exist and lack nothing.
    pub fn current(&self, loaded: &Loaded) -> Vec<bool> {
        self.replicas(loaded, |file| file.owed.is_empty() && file.unreadable.is_empty())
    }

    /// Returns, for each replica, whether all its files exist and have any bytes. A reader must still skip the ranges
    /// that they lack.
    pub fn present(&self, loaded: &Loaded) -> Vec<bool> {
        self.replicas(loaded, |file| file.owed != Owed::all())
    }

    fn replicas(&self, loaded: &Loaded, good: impl Fn(&FileState) -> bool) -> Vec<bool> {
        let good = |file: usize| self.files.get(file).and_then(Option::as_ref).is_some_and(&good);
        loaded.replicas.iter().map(|replica| replica.files().all(good)).collect()
    }
}
