//! Appends to objects. The commit that makes the bytes visible decides their offset.
//!
//! The bytes are written for the object's current end, and the commit expects that the end has not moved. If it has, they
//! are written again for the new end. So the commit's record in the log holds the final offset, and a replay needs no
//! special case.

use terrace_catalog::Object;
use terrace_codec::Element;
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::Store;
use super::stale::MAX_STALE_WRITES;
use crate::place::PutOptions;
use crate::write::{Receipt, Update};
use crate::{Error, Result};

/// The offset of appended bytes, and the receipt of their write.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of the first byte.
    pub offset: u64,
    /// The receipt of the write.
    pub receipt: Receipt,
}

impl Store {
    /// Appends `bytes` at the end that the object has when they become visible. Creates the object if the key does not
    /// exist. Many threads and processes may append to one object: no bytes are lost, and those of one call stay together.
    ///
    /// ```
    /// # use terrace::{Config, PutOptions, Store};
    /// # let dir = tempfile::tempdir()?;
    /// # let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
    /// # let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "example")?)?;
    /// store.append(b"log", b"one\n", &PutOptions::default())?;
    /// assert_eq!(store.append(b"log", b"two\n", &PutOptions::default())?.offset, 4);
    /// assert_eq!(store.get(b"log")?, b"one\ntwo\n");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the object would have 2^63 bytes or more. If only the acknowledgement of `options.ack` is not
    /// reached, the bytes are still appended.
    pub fn append(&self, key: &[u8], bytes: &[u8], options: &PutOptions) -> Result<Appended> {
        self.check_changeable(key)?;
        options.check_for(&self.engine.tiers)?;
        let asked = |kept: &PutOptions| options.clone().over(kept);
        let (offset, receipt) = self.append_pieces(key, None, &[bytes], unix_nanos(), asked, options.element)?;
        Ok(Appended { offset, receipt: receipt? })
    }

    /// Appends these pieces, in order, by one commit; to the object with number `only`, if it is given. `asked` returns the
    /// options of the write from those with which the object was written. Returns the offset of the bytes. If the receipt is
    /// an error, the acknowledgement was not reached, but the bytes are appended.
    pub(crate) fn append_pieces(
        &self,
        key: &[u8],
        only: Option<u64>,
        pieces: &[&[u8]],
        mtime: i64,
        asked: impl Fn(&PutOptions) -> PutOptions,
        element: Option<Element>,
    ) -> Result<(u64, Result<Receipt>)> {
        let engine = &self.engine;
        let lock = engine.append_locks.wait_for(key);
        let mut stale_writes = 0..MAX_STALE_WRITES;
        loop {
            let object = engine.catalog.object(key)?;
            let kept = engine.planning.kept.of(key, object.as_ref())?;
            let policy = engine.planning.policy(key, &asked(&kept));
            let named = only.or(object.as_ref().map(|object| object.id));
            let offset = object.as_ref().map_or(0, |object| object.length);
            let mut end = offset;
            let mut ranges = Vec::with_capacity(pieces.len());
            for piece in pieces {
                ranges.push((end, *piece));
                end = key::check_end(key, end, piece.len() as u64)?;
            }
            let mut draft = self.draft(key, named, &policy, element)?;
            let update = Update { named, length: Some(offset), ranges: &ranges, mtime };
            match draft.commit_ranges(&update) {
                // Other writers need not wait for the acknowledgement.
                Ok(commit) => {
                    drop(lock);
                    return Ok((offset, self.acknowledge_ranges(commit, &policy, &draft, &ranges)));
                }
                // Another writer changed, created or replaced the object meanwhile.
                Err(Error::Conflict { .. } | Error::NotFound { .. })
                    if has_changed(engine.catalog.object(key)?, &object) => {}
                // Written again, with what the object has then.
                Err(Error::Stale) if stale_writes.next().is_some() => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Returns whether a key names another object than before, or its object has changed.
fn has_changed(now: Option<Object>, before: &Option<Object>) -> bool {
    let state = |object: &Object| (object.id, object.generation, object.length);
    now.as_ref().map(state) != before.as_ref().map(state)
}
