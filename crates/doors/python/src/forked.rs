//! Values that belong to an open store, and that a forked process opens again.

use std::mem;

use pyo3::prelude::*;
use rustix_futex_sync::RwLock;

use crate::store::Store;

/// A value that was opened in a store.
pub struct OfStore<T> {
    store: Py<Store>,
    open: RwLock<(engine::Store, T)>,
}

impl<T: Clone> OfStore<T> {
    /// Opens the value.
    pub fn new(store: Bound<'_, Store>, open: impl FnOnce(&Store) -> PyResult<T>) -> PyResult<OfStore<T>> {
        let opened = (store.get().engine(store.py())?, open(store.get())?);
        Ok(OfStore { store: store.unbind(), open: RwLock::new(opened) })
    }

    /// Returns the value; opens it again in a forked process.
    pub fn get(&self, py: Python<'_>, open: impl FnOnce(&Store) -> PyResult<T>) -> PyResult<T> {
        let (engine, known) = self.open.read().clone();
        if !engine.catalog().inherited() {
            return Ok(known);
        }
        // Dropping an inherited value would wait for threads that do not exist in this process.
        mem::forget((engine, known));
        let opened = (self.store.get().engine(py)?, open(self.store.get())?);
        mem::forget(mem::replace(&mut *self.open.write(), opened.clone()));
        Ok(opened.1)
    }
}
