//! [`Datasets`]: those of a store.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix_futex_sync::Mutex;
use terrace::{Attributes, Store};

use crate::dataset::{Dataset, Shared};
use crate::declared::Declared;
use crate::loaded::Loaded;
use crate::owed::{ATTRIBUTE, Owed};
use crate::{Error, Result, keys};

/// The datasets of a store. Cheap to clone; clones share what is open.
#[derive(Clone)]
pub struct Datasets {
    store: Store,
    open: Arc<Mutex<HashMap<String, Weak<Shared>>>>,
}

impl Datasets {
    /// Those of a store.
    pub fn new(store: &Store) -> Datasets {
        Datasets { store: store.clone(), open: Arc::default() }
    }

    /// The store below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Adds a dataset of zeros, as a text declares it.
    ///
    /// # Errors
    /// [`Error::Declaration`] where the text has errors, [`Error::Refused`] where this store cannot hold it.
    pub fn add(&self, name: &str, declaration: &str) -> Result<Dataset> {
        self.add_declared(name, &Declared::parse(declaration)?)
    }

    /// Adds a dataset of zeros.
    ///
    /// # Errors
    /// [`Error::Refused`] where this store cannot hold it, [`Error::Exists`] where there is one of the name.
    pub fn add_declared(&self, name: &str, declared: &Declared) -> Result<Dataset> {
        keys::check(name)?;
        declared.fits(self.store.config())?;
        if self.contains(name)? {
            return Err(Error::Exists(name.to_owned()));
        }
        self.store.set_rules(&keys::folder(name), declared.rules(name, self.store.config()))?;
        let key = keys::declaration(name);
        let none = terrace::Object {
            id: 0,
            generation: 0,
            length: 0,
            want: 0,
            attributes: Attributes::default(),
            inline: None,
        };
        let loaded = Loaded::new(name, none, declared.clone(), Default::default())?;
        let mut batch = self.store.batch();
        for file in &loaded.files {
            let object = batch.make(&file.key, file.length(), attributes(&Owed::default()))?;
            if !file.layout.head.is_empty() {
                batch.write(&file.key, object, 0, &file.layout.head, None)?;
            }
        }
        let object = batch.make(&key, 0, attributes(&Owed::default()))?;
        batch.write(&key, object, 0, declared.text.as_bytes(), None)?;
        match batch.commit() {
            Ok(_) => {}
            Err(terrace::Error::Conflict { .. }) if self.contains(name)? => return Err(Error::Exists(name.to_owned())),
            Err(error) => return Err(error.into()),
        }
        self.open(name)
    }

    /// Whether there is one of this name.
    pub fn contains(&self, name: &str) -> Result<bool> {
        keys::check(name)?;
        match self.store.stat(&keys::declaration(name)) {
            Ok(_) => Ok(true),
            Err(terrace::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens one. What replicas lack since a crash is made in the background.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none of this name.
    pub fn open(&self, name: &str) -> Result<Dataset> {
        keys::check(name)?;
        let dataset = self.handle(name);
        dataset.shared.resume()?;
        Ok(dataset)
    }

    /// The one handle of this process, whether there is a dataset of this name or not.
    fn handle(&self, name: &str) -> Dataset {
        let mut open = self.open.lock();
        if let Some(shared) = open.get(name).and_then(Weak::upgrade) {
            return Dataset { shared };
        }
        let dataset = Dataset::new(&self.store, name);
        open.retain(|_, shared| shared.strong_count() > 0);
        open.insert(name.to_owned(), Arc::downgrade(&dataset.shared));
        dataset
    }

    /// The names of all, in order.
    pub fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let found = self.store.list(keys::FOLDER.as_bytes(), after.as_deref(), 1)?;
            let Some((key, _)) = found.into_iter().next() else { return Ok(names) };
            let folder = key.splitn(3, |byte| *byte == b'/').nth(1).unwrap_or_default().to_vec();
            let name = String::from_utf8_lossy(&folder).into_owned();
            if keys::check(&name).is_ok() && self.contains(&name)? {
                names.push(name);
            }
            // On behind all that is in its folder.
            after = Some([keys::FOLDER.as_bytes(), b"/", &folder, b"/\xff"].concat());
        }
    }

    /// Removes a dataset with all its replicas, also one whose declaration is none.
    ///
    /// # Errors
    /// [`Error::NotFound`] where there is none of this name.
    pub fn remove(&self, name: &str) -> Result<()> {
        if !self.contains(name)? {
            return Err(Error::NotFound(name.to_owned()));
        }
        let dataset = self.handle(name);
        let _alone = dataset.shared.changing.write();
        let declaration = self.store.stat(&keys::declaration(name))?;
        let mut batch = self.store.batch();
        batch.unchanged(&keys::declaration(name), &declaration);
        for (key, _) in self.store.list(keys::folder(name).as_bytes(), None, usize::MAX)? {
            batch.remove(&key);
        }
        batch.commit()?;
        self.store.set_rules(&keys::folder(name), Vec::new())?;
        Ok(())
    }
}

/// Attributes of a dataset's object. Others than datasets are not to write to it.
pub fn attributes(owed: &Owed) -> Attributes {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as i64);
    let mut user = BTreeMap::new();
    if !owed.is_empty() {
        user.insert(ATTRIBUTE.to_owned(), owed.text());
    }
    Attributes { mode: 0o444, mtime: now, user, ..Attributes::default() }
}
