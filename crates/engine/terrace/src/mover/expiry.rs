//! Removes objects that have expired.

use terrace_catalog::{Change, Edit, Expect, Object};
use terrace_system::clock::unix_nanos;

use super::Mover;
use crate::{Error, Result};

/// Returns the current time in nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    u64::try_from(unix_nanos()).unwrap_or_default()
}

impl Mover {
    /// Removes at most `limit` expired objects, beginning with those that expired first, and returns their number. It reads no
    /// other objects.
    pub fn remove_expired(&self, limit: usize) -> Result<usize> {
        let expired = self.catalog.expired(now(), limit)?;
        if expired.is_empty() {
            return Ok(0);
        }
        terrace_system::fail::point("expiry:found");
        let removal = |(key, object): (Vec<u8>, Object)| Change {
            // Another object may have this key now, or the expiry may have been changed. Each change of the object by a user
            // increases its generation.
            expect: vec![Expect::Names(key.clone(), object.id), Expect::Generation(key.clone(), object.generation)],
            edits: vec![Edit::Remove { key }],
        };
        let removals: Vec<Change> = expired.into_iter().map(removal).collect();
        let mut removed = 0;
        for result in self.catalog.commit_many(&removals)? {
            match result {
                Ok(_) => removed += 1,
                // The object has changed, so its expiry may be later. If not, the next round removes it.
                Err(terrace_catalog::Error::Conflict { .. } | terrace_catalog::Error::NotFound { .. }) => {}
                Err(error) => return Err(Error::from(error)),
            }
        }
        Ok(removed)
    }
}
