//! [`Dataset`]: an open dataset.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Weak};

use rustix_futex_sync::RwLock;
use terrace::Store;
use terrace_views::explain::{Explanation, explain};
use terrace_views::model::Sizes;

use crate::background::Follower;
use crate::declared::Declared;
use crate::loaded::Loaded;
use crate::read::{Attempt, Trouble};
use crate::state::State;
use crate::view::View;
use crate::{Error, Result, keys};

/// Someone who meets a change looks again this often: a long request meets many short ones of other processes.
pub(crate) const ATTEMPTS: usize = 1000;
/// From this attempt on, writers of this process wait for whoever looks again.
pub(crate) const PATIENT: usize = 8;

/// An open dataset. Cheap to clone; many threads and processes may use one at once.
#[derive(Clone)]
pub struct Dataset {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub this: Weak<Shared>,
    pub store: Store,
    pub name: String,
    loaded: RwLock<Option<Arc<Loaded>>>,
    /// Held while a change is put together and committed, so that this process's do not undo each other's work: alone by what reads
    /// of replicas that must not change meanwhile, and shared by what only writes.
    pub changing: RwLock<()>,
    pub follower: Follower,
    /// Whether the store's rules were looked at since it was opened.
    pub ruled: AtomicBool,
}

impl Dataset {
    pub(crate) fn new(store: &Store, name: &str) -> Dataset {
        let (store, name) = (store.clone(), name.to_owned());
        let (loaded, changing, follower, ruled) = Default::default();
        let shared =
            |this: &Weak<Shared>| Shared { this: this.clone(), store, name, loaded, changing, follower, ruled };
        Dataset { shared: Arc::new_cyclic(shared) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its declaration, as it is now.
    pub fn declaration(&self) -> Result<String> {
        Ok(self.shared.now()?.0.declared.text.clone())
    }

    /// What there is and where everything lies, as long as arrays are now.
    pub fn explain(&self) -> Result<Explanation> {
        let (loaded, _) = self.shared.now()?;
        let misfit = |misfit| Error::Size { dataset: self.shared.name.clone(), misfit };
        explain(&loaded.declared.model, &loaded.sizes).map_err(misfit)
    }

    /// The names of its views, in the order of the declaration.
    pub fn views(&self) -> Result<Vec<String>> {
        let (loaded, _) = self.shared.now()?;
        Ok(loaded.declared.model.views.iter().map(|view| view.name.clone()).collect())
    }

    /// Its replicas' names, with the keys of their files, and of each whether it lacks something.
    pub fn replicas(&self) -> Result<Vec<(String, Vec<String>, bool)>> {
        let (loaded, state) = self.shared.now()?;
        let current = state.current(&loaded);
        let one = |(number, replica): (usize, &crate::loaded::StoredReplica)| {
            let name = loaded.declared.model.replicas.get(number).map_or_else(String::new, |r| r.name.clone());
            let files = loaded.files.get(replica.files()).unwrap_or_default();
            let keys = files.iter().map(|file| String::from_utf8_lossy(&file.key).into_owned()).collect();
            (name, keys, !current.get(number).copied().unwrap_or(false))
        };
        Ok(loaded.replicas.iter().enumerate().map(one).collect())
    }

    /// When a replica was last changed: nanoseconds since 1970.
    pub fn modified(&self) -> Result<i64> {
        let (_, state) = self.shared.now()?;
        let times = state.files.iter().flatten().map(|file| file.object.attributes.mtime);
        Ok(times.max().unwrap_or(0))
    }

    /// One of its views.
    ///
    /// # Errors
    /// [`Error::NoView`] where it has none of that name.
    pub fn view(&self, name: &str) -> Result<View> {
        self.shared.now()?.0.view(name)?;
        Ok(View::new(self.clone(), name))
    }

    /// Brings all replicas up to date, those that follow later, too.
    pub fn settle(&self) -> Result<()> {
        self.shared.settle(&mut |_| true, false)
    }
}

impl Shared {
    /// Sets the store's rules for its replicas.
    pub fn set_rules(&self, declared: &Declared) -> Result<()> {
        Ok(self.store.set_rules(&keys::folder(&self.name), declared.rules(&self.name, self.store.config()))?)
    }

    /// The dataset as it is now: what is declared, and the objects. Both are of one moment.
    pub fn now(&self) -> Result<(Arc<Loaded>, State)> {
        for _ in 0..PATIENT {
            match self.look() {
                Ok(found) => return Ok(found),
                Err(Trouble::Changed | Trouble::Damaged { .. }) => {}
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        let _alone = self.changing.write();
        self.look_now()
    }

    /// The same, for whoever holds `changing`.
    pub fn look_now(&self) -> Result<(Arc<Loaded>, State)> {
        for _ in 0..ATTEMPTS {
            match self.look() {
                Ok(found) => return Ok(found),
                Err(Trouble::Changed | Trouble::Damaged { .. }) => {}
                Err(Trouble::Failed(error)) => return Err(error),
            }
        }
        Err(Error::Busy(self.name.clone()))
    }

    /// The dataset as it was last looked at.
    pub fn known(&self) -> Option<Arc<Loaded>> {
        self.loaded.read().clone()
    }

    pub fn look(&self) -> Attempt<(Arc<Loaded>, State)> {
        let key = keys::declaration(&self.name);
        let object = match self.store.stat(&key) {
            Ok(object) => object,
            Err(terrace::Error::NotFound { .. }) => return Err(Error::NotFound(self.name.clone()).into()),
            Err(error) => return Err(error.into()),
        };
        let known =
            self.known().filter(|known| (known.object.id, known.object.generation) == (object.id, object.generation));
        let mut loaded = match known {
            Some(loaded) => loaded,
            None => {
                let mut text = vec![0; usize::try_from(object.length).unwrap_or(usize::MAX)];
                if !self.store.read_unchanged(&key, &object, 0, &mut text)? {
                    return Err(Trouble::Changed);
                }
                let declared = Declared::parse(&String::from_utf8_lossy(&text))?;
                self.keep(Loaded::new(&self.name, object, declared, Sizes::new())?)
            }
        };
        let mut state = State::of(&self.store, &loaded)?;
        if !loaded.varying.is_empty() {
            let sizes = self.sizes(&loaded, &state)?;
            if sizes != loaded.sizes {
                let (object, declared) = (loaded.object.clone(), loaded.declared.clone());
                loaded = self.keep(Loaded::new(&self.name, object, declared, sizes)?);
            }
        }
        state.distrust(&loaded);
        Ok((loaded, state))
    }

    fn keep(&self, loaded: Loaded) -> Arc<Loaded> {
        let loaded = Arc::new(loaded);
        *self.loaded.write() = Some(loaded.clone());
        loaded
    }

    /// How long the arrays are that vary.
    fn sizes(&self, loaded: &Loaded, state: &State) -> Attempt<Sizes> {
        let mut sizes = Sizes::new();
        for one in &loaded.varying {
            let mut why = None;
            for place in &one.places {
                let mut bytes = vec![0; place.size()];
                let range = place.offset..place.offset + place.size() as u64;
                if state.lacks(place.file, &range) {
                    continue;
                }
                match self.fetch(loaded, state, place.file, place.offset, &mut bytes) {
                    Ok(()) => {
                        sizes.insert(one.variable, place.value(&bytes));
                        why = None;
                        break;
                    }
                    Err(Trouble::Damaged { why: said, .. }) => why = Some(said),
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
