//! The open stores.

use std::sync::{Arc, LazyLock};

use engine::files::{File, Files};
use engine::{PutOptions, Store};
use rustix_futex_sync::Mutex;

use crate::numbered::Numbered;
use crate::thrown::Thrown;

/// The open stores.
pub static OPEN_STORES: LazyLock<Numbered<OpenStore>> = LazyLock::new(|| Numbered::new("store"));

/// An open store.
pub struct OpenStore {
    /// The store.
    pub store: Store,
    /// The requirements that apply to every call.
    pub application: PutOptions,
    /// The files that are open. They are closed before the store.
    pub open_files: Numbered<File>,
    /// The store's objects as files, once they were asked for.
    files: Mutex<Option<Files>>,
}

impl OpenStore {
    /// A store whose files are all closed.
    pub fn new(store: Store, application: PutOptions) -> OpenStore {
        OpenStore { store, application, open_files: Numbered::new("file"), files: Mutex::default() }
    }

    /// Returns the store's objects as files.
    pub fn files(&self) -> Result<Files, Thrown> {
        let mut files = self.files.lock();
        match &*files {
            Some(files) => Ok(files.clone()),
            None => Ok(files.insert(Files::with(&self.store, self.application.clone())?).clone()),
        }
    }

    /// Writes the buffered bytes of open files. The errors of the store's own close are still to come.
    pub fn flush(&self) -> Result<(), Thrown> {
        self.files.lock().as_ref().map_or(Ok(()), |files| Ok(files.flush()?))
    }
}

/// Returns the store with this number.
pub fn find(number: i64) -> Result<Arc<OpenStore>, Thrown> {
    OPEN_STORES.find(number)
}
