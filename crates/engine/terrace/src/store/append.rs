//! Appending: the place of the bytes is decided by the commit that makes them visible.
//!
//! The bytes are written for the place behind the object's last byte, and the commit expects that this is still its end. Where
//! it is not, they are written again, for the end of now. So the commit's record in the log holds the place as it was decided,
//! and needs nothing new to be replayed.

use terrace_catalog::Object;
use terrace_codec::Element;
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::Store;
use crate::place::PutOptions;
use crate::write::{Receipt, Update};
use crate::{Error, Result};

/// Where appended bytes are, and what their write has reached.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of the first byte.
    pub offset: u64,
    /// The receipt of the write.
    pub receipt: Receipt,
}

impl Store {
    /// Writes `bytes` behind an object's last byte, wherever that is when they become visible; the object is made if the key names
    /// none. Many threads and processes may append to one object: no bytes are lost, and those of one call stay together.
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
    /// [`Error::TooLarge`] where the object would have 2^63 bytes or more. Where only what `options.ack` asks for is not reached, the
    /// bytes are appended all the same.
    pub fn append(&self, key: &[u8], bytes: &[u8], options: &PutOptions) -> Result<Appended> {
        self.check_changeable(key)?;
        options.check_for(&self.engine.tiers)?;
        let asked = |kept: PutOptions| options.clone().over(&kept);
        let (offset, receipt) = self.append_pieces(key, None, &[bytes], unix_nanos(), asked, options.element)?;
        Ok(Appended { offset, receipt: receipt? })
    }

    /// Appends these pieces, one behind another, by one commit; to the object of number `only`, where that is given. `asked` tells
    /// how they are written, where the object was written as it is told. Where the bytes are; an error of the receipt says what they
    /// have not reached, but they are there.
    pub(crate) fn append_pieces(
        &self,
        key: &[u8],
        only: Option<u64>,
        pieces: &[&[u8]],
        mtime: i64,
        asked: impl Fn(PutOptions) -> PutOptions,
        element: Option<Element>,
    ) -> Result<(u64, Result<Receipt>)> {
        let engine = &self.engine;
        let turn = engine.appends.take(key);
        loop {
            let object = engine.catalog.object(key)?;
            let kept = object.as_ref().map(PutOptions::kept_with).unwrap_or_default();
            let policy = engine.planning.policy(key, &asked(kept));
            let named = only.or(object.as_ref().map(|object| object.id));
            let offset = object.as_ref().map_or(0, |object| object.length);
            let mut end = offset;
            let mut ranges = Vec::with_capacity(pieces.len());
            for piece in pieces {
                ranges.push((end, *piece));
                end = key::check_end(key, end, piece.len() as u64)?;
            }
            let mut writer = self.draft(key, named, &policy, element)?;
            match writer.commit_ranges(&Update { named, length: Some(offset), ranges: &ranges, mtime }) {
                // Others need not wait for the acknowledgement.
                Ok(commit) => {
                    drop(turn);
                    return Ok((offset, self.acknowledge_ranges(commit, &policy, &writer, &ranges)));
                }
                // Somebody else wrote to it, made it or replaced it meanwhile.
                Err(Error::Conflict { .. } | Error::NotFound { .. })
                    if has_changed(engine.catalog.object(key)?, &object) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Whether a key names something else than before, or what it names has changed.
fn has_changed(now: Option<Object>, before: &Option<Object>) -> bool {
    let state = |object: &Object| (object.id, object.generation, object.length);
    now.as_ref().map(state) != before.as_ref().map(state)
}
