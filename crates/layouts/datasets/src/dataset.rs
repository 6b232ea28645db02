//! [`Dataset`]: an open dataset.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix_futex_sync::RwLock;
use terrace::Store;
use terrace_views::explain::{Explanation, explain};
use terrace_views::model::Sizes;

use crate::background::Follower;
use crate::declared::Declared;
use crate::loaded::Loaded;
use crate::read::{Attempt, AttemptError};
use crate::state::State;
use crate::view::View;
use crate::{Error, Result, keys};

/// A request that conflicts with concurrent commits is attempted at least this often ...
const MIN_ATTEMPTS: usize = 1000;
/// ... and for at least this long: a long request can lose against many short ones for seconds, on a busy machine.
const MIN_PATIENCE: Duration = Duration::from_secs(10);
/// After this many failed attempts, a request holds `changing` exclusively, so that writers of this process cannot
/// conflict with it again.
pub(crate) const EXCLUSIVE_AFTER_ATTEMPTS: usize = 8;

/// An open dataset. Clones are cheap, and many threads and processes may use one at once.
#[derive(Clone)]
pub struct Dataset {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
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
    /// Whether this process has checked the store's rules since it opened the dataset.
    pub rules_checked: AtomicBool,
}

impl Dataset {
    pub(crate) fn new(store: &Store, name: &str) -> Dataset {
        let (store, name) = (store.clone(), name.to_owned());
        let (loaded, changing, follower, rules_checked) = Default::default();
        let shared =
            |this: &Weak<Shared>| Shared { this: this.clone(), store, name, loaded, changing, follower, rules_checked };
        Dataset { shared: Arc::new_cyclic(shared) }
    }

    /// Returns the dataset's name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Returns the current declaration.
    pub fn declaration(&self) -> Result<String> {
        Ok(self.shared.load()?.0.declared.text.clone())
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
        let one = |(number, replica): (usize, &crate::loaded::StoredReplica)| {
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

    /// Opens a view.
    ///
    /// # Errors
    /// [`Error::NoView`] if the dataset has no view of that name.
    pub fn view(&self, name: &str) -> Result<View> {
        self.shared.load()?.0.view(name)?;
        Ok(View::new(self.clone(), name))
    }

    /// Brings all replicas up to date, including asynchronous ones.
    pub fn settle(&self) -> Result<()> {
        self.shared.update_replicas(&mut |_| true, false)
    }
}

/// Numbers of attempts, until a request that conflicts with concurrent commits gives up.
pub(crate) fn attempts() -> impl Iterator<Item = usize> {
    let begun = Instant::now();
    let goes_on = move |number: &usize| *number < MIN_ATTEMPTS || begun.elapsed() < MIN_PATIENCE;
    // Others get the processor first, or they could not finish what this waits for.
    let give_way = |number: &usize| {
        if *number > EXCLUSIVE_AFTER_ATTEMPTS {
            std::thread::yield_now()
        }
    };
    (0..).take_while(goes_on).inspect(give_way)
}

impl Shared {
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
}
