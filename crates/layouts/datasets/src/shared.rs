//! The state that all clones of an open dataset share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use rustix_futex_sync::RwLock;
use terrace::Store;
use terrace_views::model::Sizes;

use crate::access::Accesses;
use crate::attempt::{Attempt, AttemptError, EXCLUSIVE_AFTER_ATTEMPTS, attempts};
use crate::declared::Declared;
use crate::follower::Follower;
use crate::loaded::Loaded;
use crate::state::State;
use crate::{Error, Result, keys};

/// The state that all clones of an open dataset share.
pub struct Shared {
    pub this: Weak<Shared>,
    pub store: Store,
    pub name: String,
    loaded: RwLock<Option<Arc<Loaded>>>,
    /// Held while a change is assembled and committed, so that changes of this process do not conflict with each other.
    /// A change that reads replicas, which must not change until its commit, holds the lock exclusively; a change that
    /// only writes shares it. Other processes do not take this lock: the batch's `unchanged` conditions detect their
    /// commits.
    pub changing: RwLock<()>,
    pub follower: Follower,
    pub accesses: Accesses,
    /// Whether this process has checked the store's rules since it opened the dataset.
    pub rules_checked: AtomicBool,
}

impl Shared {
    /// Opens the dataset of this name.
    pub fn new(store: &Store, name: &str) -> Arc<Shared> {
        let (store, name) = (store.clone(), name.to_owned());
        let (loaded, changing, follower, rules_checked) = Default::default();
        let accesses = Accesses::new(store.dir(), &name);
        let shared = |this: &Weak<Shared>| Shared {
            this: this.clone(),
            store,
            name,
            loaded,
            changing,
            follower,
            accesses,
            rules_checked,
        };
        Arc::new_cyclic(shared)
    }

    /// Sets the store's rules for the replicas of the declaration.
    pub fn set_rules(&self, declared: &Declared) -> Result<()> {
        Ok(self
            .store
            .set_rules(&keys::dataset_folder(&self.name), declared.store_rules(&self.name, self.store.config())?)?)
    }

    /// Loads the current declaration and the state of all objects, both as of one moment. Falls back to holding
    /// `changing` exclusively after repeated conflicts.
    pub fn load(&self) -> Result<(Arc<Loaded>, State)> {
        for _ in 0..EXCLUSIVE_AFTER_ATTEMPTS {
            match self.try_load() {
                Ok(found) => return Ok(found),
                Err(AttemptError::Changed | AttemptError::Damaged { .. }) => {}
                Err(AttemptError::Failed(error)) => return Err(error),
            }
        }
        let _alone = self.changing.write();
        self.load_with_retries()
    }

    /// Does the same as [`Shared::load`]. The caller holds `changing`.
    pub fn load_with_retries(&self) -> Result<(Arc<Loaded>, State)> {
        for _ in attempts() {
            match self.try_load() {
                Ok(found) => return Ok(found),
                Err(AttemptError::Changed | AttemptError::Damaged { .. }) => {}
                Err(AttemptError::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }

    /// Returns the most recently loaded declaration, without looking at the store.
    pub fn cached(&self) -> Option<Arc<Loaded>> {
        self.loaded.read().clone()
    }

    pub fn try_load(&self) -> Attempt<(Arc<Loaded>, State)> {
        let key = keys::declaration_key(&self.name);
        let object = match self.store.stat(&key) {
            Ok(object) => object,
            Err(terrace::Error::NotFound { .. }) => return Err(Error::NotFound(self.name.clone()).into()),
            Err(error) => return Err(error.into()),
        };
        let known =
            self.cached().filter(|known| (known.object.id, known.object.generation) == (object.id, object.generation));
        let mut loaded = match known {
            Some(loaded) => loaded,
            None => {
                let mut text = vec![0; usize::try_from(object.length).unwrap_or(usize::MAX)];
                if !self.store.read_unchanged(&key, &object, 0, &mut text)? {
                    return Err(AttemptError::Changed);
                }
                let declared = Declared::parse(&String::from_utf8_lossy(&text))?;
                self.cache(Loaded::new(&self.name, object, declared, Sizes::new())?)
            }
        };
        let mut state = State::of(&self.store, &loaded)?;
        if !loaded.varying.is_empty() {
            let sizes = self.read_sizes(&loaded, &state)?;
            if sizes != loaded.sizes {
                let (object, declared) = (loaded.object.clone(), loaded.declared.clone());
                loaded = self.cache(Loaded::new(&self.name, object, declared, sizes)?);
            }
        }
        state.mark_wrong_lengths_owed(&loaded);
        Ok((loaded, state))
    }

    fn cache(&self, loaded: Loaded) -> Arc<Loaded> {
        let loaded = Arc::new(loaded);
        *self.loaded.write() = Some(loaded.clone());
        loaded
    }

    /// Reads the current lengths of the arrays whose length varies.
    fn read_sizes(&self, loaded: &Loaded, state: &State) -> Attempt<Sizes> {
        let mut sizes = Sizes::new();
        for one in &loaded.varying {
            let mut why = None;
            for place in &one.places {
                let mut bytes = vec![0; place.size()];
                let range = place.offset..place.offset + place.size() as u64;
                if state.lacks(place.file, &range) {
                    continue;
                }
                match self.fetch_bytes(loaded, state, place.file, place.offset, &mut bytes) {
                    Ok(()) => {
                        sizes.insert(one.variable, place.value(&bytes));
                        why = None;
                        break;
                    }
                    Err(AttemptError::Damaged { why: said, .. }) => why = Some(said),
                    Err(other) => return Err(other),
                }
            }
            if let Some(why) = why {
                let what = "how long its arrays are".to_owned();
                return Err(Error::Lost { dataset: self.name.clone(), what, why }.into());
            }
        }
        Ok(sizes)
    }

    /// Reads bytes of a file in the given state. Fails with [`AttemptError::Changed`] if the object has changed since.
    pub fn fetch_bytes(&self, loaded: &Loaded, state: &State, file: usize, at: u64, out: &mut [u8]) -> Attempt<()> {
        let (Some(stored), Some(object)) = (loaded.files.get(file), state.object(file)) else {
            return Err(AttemptError::Changed);
        };
        match self.store.read_unchanged(&stored.key, object, at, out) {
            Ok(true) => Ok(()),
            Ok(false) => Err(AttemptError::Changed),
            Err(error @ terrace::Error::Unreadable { .. }) => {
                Err(AttemptError::Damaged { file, bytes: at..at + out.len() as u64, why: error.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(loaded) = self.loaded.get_mut().take() {
            self.accesses.close(&loaded);
        }
    }
}
