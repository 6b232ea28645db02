//! Leases of open handles.

use super::Store;
use crate::Result;

/// Pins an object's generation, until it is dropped.
pub(crate) struct Lease {
    store: Store,
    id: (u64, u64),
}

impl Lease {
    /// Pins the bytes that commits after `generation` remove from an object.
    pub fn take(store: &Store, object: u64, generation: u64) -> Result<Lease> {
        let catalog = &store.engine.catalog;
        let holder = catalog.reserve().run_with(|| store.engine.leases.holder(|| Ok(catalog.next_id()?)))?;
        let id = (holder, catalog.next_id()?);
        catalog.lease(id, object, generation)?;
        Ok(Lease { store: store.clone(), id })
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let catalog = &self.store.engine.catalog;
        if !catalog.inherited()
            && let Err(error) = catalog.unlease(self.id)
        {
            tracing::warn!(%error, "a lease could not be ended; the old bytes of its object keep their space until this process ends");
        }
    }
}
