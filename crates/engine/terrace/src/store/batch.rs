//! Batches: writes to several objects that become visible together, or not at all.

use std::collections::HashSet;
use std::sync::Arc;

use terrace_catalog::{Attributes, Change, Edit, Expect, Object};
use terrace_format::key;
use terrace_system::clock::unix_nanos;

use super::Store;
use crate::config::{Ack, Config};
use crate::origins::forget_origin;
use crate::place::WritePolicy;
use crate::write::{Draft, Receipt};
use crate::{Element, PutOptions, Result};

/// Writes to several objects, which become visible by one commit. A batch that is dropped without [`Batch::commit`] changes
/// nothing.
///
/// ```
/// # use terrace::{Config, PutOptions, Store};
/// # let dir = tempfile::tempdir()?;
/// # let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
/// # let store = Store::init(&dir.path().join("store"), &Config::parse(&text, "example")?)?;
/// store.put_bytes(b"from", b"1 coin", &PutOptions::default())?;
/// let from = store.stat(b"from")?;
/// let mut batch = store.batch();
/// batch.unchanged(b"from", &from);
/// batch.write(b"from", from.id, 0, b"0", None)?;
/// let to = batch.make(b"to", 6, Default::default())?;
/// batch.write(b"to", to, 0, b"1 coin", None)?;
/// batch.commit()?;
/// assert_eq!(store.get(b"from")?, b"0 coin");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batch<'a> {
    store: &'a Store,
    /// The rules at its beginning.
    rules: Arc<Config>,
    expect: Vec<Expect>,
    made: Vec<Edit>,
    parts: Vec<Part<'a>>,
    /// The edits that follow the writes.
    then: Vec<Edit>,
}

/// The writes to one object.
struct Part<'a> {
    draft: Draft<'a>,
    policy: WritePolicy,
    bytes: u64,
    /// The attributes of an object that is written whole.
    whole: Option<Attributes>,
}

impl Store {
    /// Begins a batch, with nothing in it.
    pub fn batch(&self) -> Batch<'_> {
        self.engine.planning.rules.renew();
        let rules = self.engine.planning.rules.now();
        Batch { store: self, rules, expect: Vec::new(), made: Vec::new(), parts: Vec::new(), then: Vec::new() }
    }
}

impl<'a> Batch<'a> {
    /// Commits only if the object has not changed.
    pub fn unchanged(&mut self, key: &[u8], object: &Object) {
        self.expect.push(Expect::Names(key.to_vec(), object.id));
        self.expect.push(Expect::Generation(key.to_vec(), object.generation));
    }

    /// Commits only if the key still names the object with this number.
    pub fn named(&mut self, key: &[u8], object: u64) {
        self.expect.push(Expect::Names(key.to_vec(), object));
    }

    /// Commits only if the key does not exist.
    pub fn absent(&mut self, key: &[u8]) {
        self.expect.push(Expect::Absent(key.to_vec()));
    }

    /// Creates an object of zeros, and returns its number. Commits only if the key does not exist.
    pub fn make(&mut self, key: &[u8], length: u64, attributes: Attributes) -> Result<u64> {
        self.store.check_changeable(key)?;
        self.absent(key);
        self.replace(key, length, attributes)
    }

    /// Creates an object of zeros, which replaces the key's object if there is one. Returns its number.
    pub fn replace(&mut self, key: &[u8], length: u64, mut attributes: Attributes) -> Result<u64> {
        forget_origin(&mut attributes);
        self.store.check_changeable(key)?;
        key::check_end(key, 0, length)?;
        self.expect.push(Expect::Free(key.to_vec()));
        let object = self.store.engine.catalog.next_id()?;
        let policy = self.store.engine.planning.policy(key, &PutOptions::default());
        self.store.engine.mover.note_rules(&policy.rules)?;
        let want = policy.wanted.replicas;
        let (key, extents, staged) = (key.to_vec(), Vec::new(), false);
        self.made.push(Edit::Put { key, object, length, want, attributes, staged, extents });
        Ok(object)
    }

    /// Writes at `offset` of the object with number `object`. The key must name it, or this batch creates it. The bytes are
    /// stored now, and become visible with the commit.
    pub fn write(
        &mut self,
        key: &'a [u8],
        object: u64,
        offset: u64,
        bytes: &[u8],
        element: Option<Element>,
    ) -> Result<()> {
        self.store.check_changeable(key)?;
        key::check_end(key, offset, bytes.len() as u64)?;
        let engine = &self.store.engine;
        let number = match self.parts.iter().position(|part| part.draft.object == object) {
            Some(number) => number,
            None => {
                let policy = engine.planning.policy(key, &PutOptions::default());
                engine.mover.note_rules(&policy.rules)?;
                let mut draft = engine.writer.draft(&*engine.mover, key, object, &policy, element);
                draft.stays_plain(true)?;
                self.parts.push(Part { draft, policy, bytes: 0, whole: None });
                self.parts.len() - 1
            }
        };
        let Some(part) = self.parts.get_mut(number) else { return Ok(()) };
        part.draft.offset = offset;
        part.bytes += bytes.len() as u64;
        bytes.chunks(engine.writer.block_bytes).try_for_each(|block| part.draft.write_block(block))
    }

    /// Writes a whole object, which replaces the key's object if there is one. The bytes are stored now, and become visible with
    /// the commit. A batch writes each key at most once.
    pub fn put(&mut self, key: &'a [u8], bytes: &[u8], options: &PutOptions) -> Result<()> {
        self.store.check_changeable(key)?;
        let engine = &self.store.engine;
        options.check_for(&engine.tiers)?;
        let (policy, kept) = (engine.planning.policy(key, options), options.lasting().to_kept()?);
        engine.mover.note_rules(&policy.rules)?;
        let object = engine.catalog.next_id()?;
        let mut draft = engine.writer.draft(&*engine.mover, key, object, &policy, options.element);
        if let Err(error) = bytes.chunks(engine.writer.block_bytes).try_for_each(|block| draft.write_block(block)) {
            draft.abandon();
            return Err(error);
        }
        if draft.owed > 0 && options.says_how() {
            engine.mover.remember(object, policy.wanted);
        }
        let mut attributes = options.attributes.clone().unwrap_or_else(Attributes::now);
        kept.store_in(&mut attributes.user);
        forget_origin(&mut attributes);
        self.expect.push(Expect::Free(key.to_vec()));
        if options.create_new {
            self.absent(key);
        }
        self.parts.push(Part { draft, policy, bytes: bytes.len() as u64, whole: Some(attributes) });
        Ok(())
    }

    /// Truncates an object to `length` bytes, or extends it with zeros. Applies after all writes of the batch.
    pub fn set_length(&mut self, key: &[u8], length: u64) {
        self.then.push(Edit::SetLength { key: key.to_vec(), length, mtime: unix_nanos() });
    }

    /// Replaces an object's attributes. Applies after all writes of the batch.
    pub fn set_attributes(&mut self, key: &[u8], mut attributes: Attributes) {
        forget_origin(&mut attributes);
        self.then.push(Edit::SetAttributes { key: key.to_vec(), attributes });
    }

    /// Deletes an object.
    pub fn remove(&mut self, key: &[u8]) {
        self.then.push(Edit::Remove { key: key.to_vec() });
    }

    /// Makes everything visible, and returns a receipt for each object that was written to. Returns when all of them have
    /// reached the acknowledgement that the store's configuration and rules ask for.
    ///
    /// # Errors
    /// [`crate::Error::Conflict`] if an object is not as expected. Then nothing is changed.
    pub fn commit(mut self) -> Result<Vec<Receipt>> {
        self.check_then()?;
        let mut edits = std::mem::take(&mut self.made);
        let made: HashSet<u64> = edits.iter().filter_map(made_object).collect();
        for Part { draft, bytes, whole, .. } in &mut self.parts {
            let (key, object, want, extents) = (draft.key.to_vec(), draft.object, draft.want(), draft.extents.clone());
            if let Some(attributes) = whole.take() {
                edits.push(Edit::Put { key, object, length: *bytes, want, attributes, staged: false, extents });
                continue;
            }
            if !made.contains(&object) {
                self.expect.push(Expect::Names(key.clone(), object));
            }
            edits.push(Edit::Write { key, object, want, mtime: unix_nanos(), extents });
        }
        let written: Vec<Vec<u8>> = edits.iter().filter_map(written_key).collect();
        edits.append(&mut self.then);
        let cuts = edits.iter().any(|edit| matches!(edit, Edit::SetLength { .. }));
        terrace_system::fail::point("batch:written");
        let engine = &self.store.engine;
        let commit = engine.catalog.commit(Change { expect: std::mem::take(&mut self.expect), edits })?;
        let written: Vec<&[u8]> = written.iter().map(Vec::as_slice).collect();
        engine.mover.note_written(&self.rules, &written);
        terrace_system::fail::point("batch:committed");
        let parts = std::mem::take(&mut self.parts);
        let store = self.store;
        if cuts {
            store.engine.mover.follow_cut();
        } else {
            store.engine.names.try_update_all();
        }
        let receipt = |part: &Part<'_>| {
            engine.mover.note_range(part.draft.key, part.bytes as usize);
            store.acknowledge(commit.sequence, &part.policy, &part.draft, part.bytes)
        };
        // The pending replicas of all objects are started before the first is waited for.
        let owed = |part: &Part<'_>| part.policy.wanted.ack > Ack::Placed && part.draft.owed > 0;
        store.engine.mover.start(parts.iter().any(owed));
        parts.iter().map(receipt).collect()
    }

    /// Checks the keys and lengths of the edits that follow the writes.
    fn check_then(&self) -> Result<()> {
        self.then.iter().try_for_each(|edit| match edit {
            Edit::SetLength { key, length, .. } => {
                self.store.check_changeable(key)?;
                key::check_end(key, 0, *length)?;
                Ok(())
            }
            Edit::SetAttributes { key, .. } | Edit::Remove { key } => self.store.check_changeable(key),
            _ => Ok(()),
        })
    }
}

/// The number of the object that an edit creates.
fn made_object(edit: &Edit) -> Option<u64> {
    match edit {
        Edit::Put { object, .. } => Some(*object),
        _ => None,
    }
}

/// The key of the object whose bytes an edit plans.
fn written_key(edit: &Edit) -> Option<Vec<u8>> {
    match edit {
        Edit::Put { key, .. } | Edit::Write { key, .. } => Some(key.clone()),
        _ => None,
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.parts.iter_mut().for_each(|part| part.draft.abandon());
    }
}
