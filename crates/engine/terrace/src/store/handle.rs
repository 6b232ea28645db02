//! Handles, which keep an object readable as it was.

use terrace_catalog::Object;

use super::Store;
use super::object_snapshot::ObjectSnapshot;
use crate::Result;

/// An object as it was when the handle was created. Its bytes stay readable while the handle lives, even if the object is
/// overwritten, renamed or deleted. The space that it pins is freed when it is dropped, or when its process ends.
///
/// ```
/// # use terrace::{Config, PutOptions, Store};
/// # let dir = tempfile::tempdir()?;
/// # let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
/// # let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "example")?)?;
/// store.put_bytes(b"log", b"before", &PutOptions::default())?;
/// let handle = store.handle(b"log")?;
/// store.remove(b"log")?;
/// let mut bytes = [0; 6];
/// handle.read_at(0, &mut bytes)?;
/// assert_eq!(&bytes, b"before");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Handle(ObjectSnapshot);

impl Store {
    /// Opens an object, and pins its current state. This writes to the catalog, and takes about 150 bytes of memory for each
    /// of its extents.
    pub fn handle(&self, key: &[u8]) -> Result<Handle> {
        ObjectSnapshot::pinned(self, key).map(Handle)
    }
}

impl Handle {
    /// Returns the object as it was.
    pub fn object(&self) -> &Object {
        &self.0.object
    }

    /// Fills `out` from the object's byte `offset` on. Returns the number of bytes read, which is smaller than `out` only at
    /// the object's end.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<usize> {
        self.0.read_at(offset, out)
    }
}
