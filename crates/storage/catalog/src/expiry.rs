//! The index of objects that expire, in order of time.

use std::ops::Bound;

use terrace_format::Object;

use super::apply::Applier;
use super::{Catalog, decode, keys};
use crate::Result;

impl Applier<'_, '_> {
    /// Moves a key in the index from one expiry time to another.
    pub(super) fn index_expiry(&mut self, key: &[u8], before: Option<u64>, after: Option<u64>) -> Result<()> {
        if before == after {
            return Ok(());
        }
        if let Some(time) = before {
            self.records.delete(self.txn, &keys::expiry(time, key))?;
        }
        if let Some(time) = after {
            self.records.put(self.txn, &keys::expiry(time, key), &[])?;
        }
        Ok(())
    }
}

impl Catalog {
    /// Returns up to `limit` objects that have expired at `now` (nanoseconds since 1970), in order of expiry. It reads no other
    /// objects.
    pub fn expired(&self, now: u64, limit: usize) -> Result<Vec<(Vec<u8>, Object)>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let start = keys::expiry(0, b"");
        let end = match now.checked_add(1) {
            Some(time) => keys::expiry(time, b""),
            None => keys::Key::from_slice(&[keys::EXPIRY_TIME + 1]),
        };
        let bounds = (Bound::Included(start.as_slice()), Bound::Excluded(end.as_slice()));
        let mut found = Vec::new();
        for entry in env.records.range(&txn, &bounds)? {
            if found.len() == limit {
                break;
            }
            let (record, _) = entry?;
            let (Some(time), Some(key)) = (keys::number(record, 1), record.get(9..)) else { continue };
            let Some(value) = env.records.get(&txn, &keys::object(key))? else { continue };
            let object: Object = decode(value, "an object's record")?;
            // An older version, which does not know the index, may have moved the object or changed its expiry.
            if object.attributes.expiry() == Some(time) {
                found.push((key.to_vec(), object));
            }
        }
        Ok(found)
    }
}
