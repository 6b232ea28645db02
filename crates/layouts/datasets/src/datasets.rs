//! [`Datasets`]: the datasets of a store.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use rustix_futex_sync::Mutex;
use terrace::{Attributes, Store};

use crate::dataset::Dataset;
use crate::declared::Declared;
use crate::filled::write_fills;
use crate::loaded::Loaded;
use crate::owed::Owed;
use crate::shared::Shared;
use crate::{Error, Result, keys};

/// The datasets of a store. Clones are cheap and share the open datasets.
#[derive(Clone)]
pub struct Datasets {
    store: Store,
    open: Arc<Mutex<HashMap<String, Weak<Shared>>>>,
}

impl Datasets {
    /// Returns the datasets of `store`.
    pub fn new(store: &Store) -> Datasets {
        Datasets { store: store.clone(), open: Arc::default() }
    }

    /// Returns the underlying store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Parses `declaration` and adds the dataset, filled with its fill values.
    ///
    /// # Errors
    /// [`Error::Declaration`] if the text has errors, [`Error::Refused`] if this store cannot hold the dataset.
    pub fn add(&self, name: &str, declaration: &str) -> Result<Dataset> {
        self.add_declared(name, &Declared::parse(declaration)?)
    }

    /// Adds a dataset, filled with its fill values, or with zeros where it declares none.
    ///
    /// # Errors
    /// [`Error::Refused`] if this store cannot hold the dataset, [`Error::Exists`] if a dataset of that name exists.
    pub fn add_declared(&self, name: &str, declared: &Declared) -> Result<Dataset> {
        keys::check_name(name)?;
        declared.check_store_fit(self.store.config())?;
        if self.contains(name)? {
            return Err(Error::Exists(name.to_owned()));
        }
        self.store.set_rules(&keys::dataset_folder(name), declared.store_rules(name, self.store.config())?)?;
        let key = keys::declaration_key(name);
        let none = terrace::Object {
            id: 0,
            generation: 0,
            length: 0,
            want: 0,
            attributes: Attributes::default(),
            extents_in_record: None,
        };
        let loaded = Loaded::new(name, none, declared.clone(), Default::default())?;
        let mut batch = self.store.batch();
        for file in &loaded.files {
            let object = batch.make(&file.key, file.length(), Owed::default().to_attributes())?;
            if !file.layout.head.is_empty() {
                batch.write(&file.key, object, 0, &file.layout.head, None)?;
            }
            let bytes = file.layout.head.len() as u64..file.length();
            write_fills(&mut batch, file, &file.layout, object, &loaded.declared.model.dataset, bytes)?;
        }
        let object = batch.make(&key, 0, Owed::default().to_attributes())?;
        batch.write(&key, object, 0, declared.text.as_bytes(), None)?;
        match batch.commit() {
            Ok(_) => {}
            Err(terrace::Error::Conflict { .. }) if self.contains(name)? => return Err(Error::Exists(name.to_owned())),
            Err(error) => return Err(error.into()),
        }
        self.open(name)
    }

    /// Returns whether a dataset of this name exists.
    pub fn contains(&self, name: &str) -> Result<bool> {
        keys::check_name(name)?;
        match self.store.stat(&keys::declaration_key(name)) {
            Ok(_) => Ok(true),
            Err(terrace::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the name of the dataset in whose folder a key is, whether or not there is such a dataset.
    pub fn name_in(key: &[u8]) -> Option<&str> {
        keys::dataset_of(key)
    }

    /// Opens a dataset. Updates that a crash interrupted resume in the background.
    ///
    /// # Errors
    /// [`Error::NotFound`] if no dataset of this name exists.
    pub fn open(&self, name: &str) -> Result<Dataset> {
        keys::check_name(name)?;
        let dataset = self.handle(name);
        dataset.shared.resume_updates()?;
        Ok(dataset)
    }

    /// Returns this process's only handle for a name, whether or not the dataset exists. All users of a dataset must
    /// share one handle: its lock is what serialises their changes.
    pub(crate) fn handle(&self, name: &str) -> Dataset {
        let mut open = self.open.lock();
        if let Some(shared) = open.get(name).and_then(Weak::upgrade) {
            return Dataset { shared };
        }
        let dataset = Dataset::new(&self.store, name);
        open.retain(|_, shared| shared.strong_count() > 0);
        open.insert(name.to_owned(), Arc::downgrade(&dataset.shared));
        dataset
    }

    /// Returns the names of all datasets, in order.
    pub fn list(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut after: Option<Vec<u8>> = None;
        loop {
            let found = self.store.list(keys::DATASETS_FOLDER.as_bytes(), after.as_deref(), 1)?;
            let Some((key, _)) = found.into_iter().next() else { return Ok(names) };
            let folder = key.splitn(3, |byte| *byte == b'/').nth(1).unwrap_or_default().to_vec();
            let name = String::from_utf8_lossy(&folder).into_owned();
            if keys::check_name(&name).is_ok() && self.contains(&name)? {
                names.push(name);
            }
            // Skip the rest of this dataset's folder.
            after = Some([keys::DATASETS_FOLDER.as_bytes(), b"/", &folder, b"/\xff"].concat());
        }
    }

    /// Removes a dataset with all its replicas, even if its declaration is invalid.
    ///
    /// # Errors
    /// [`Error::NotFound`] if no dataset of this name exists.
    pub fn remove(&self, name: &str) -> Result<()> {
        if !self.contains(name)? {
            return Err(Error::NotFound(name.to_owned()));
        }
        let dataset = self.handle(name);
        let _alone = dataset.shared.changing.write();
        let declaration = self.store.stat(&keys::declaration_key(name))?;
        let mut batch = self.store.batch();
        batch.unchanged(&keys::declaration_key(name), &declaration);
        for (key, _) in self.store.list(keys::dataset_folder(name).as_bytes(), None, usize::MAX)? {
            batch.remove(&key);
        }
        batch.commit()?;
        dataset.shared.accesses.forget();
        self.store.set_rules(&keys::dataset_folder(name), Vec::new())?;
        Ok(())
    }
}
