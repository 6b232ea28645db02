//! Copies objects by sharing frames. No bytes are read or written.

use std::io::{self, Read};

use terrace_catalog::{Change, Edit, Expect, Extent, Kind, NewExtent, Object};
use terrace_format::key;

use super::Store;
use super::object_snapshot::ObjectSnapshot;
use crate::place::PutOptions;
use crate::sparse::ReadHoles;
use crate::{Error, Result};

/// The number of extents that one commit shares. Each is two or three records, and all processes wait for the commit.
const EXTENTS_PER_COMMIT: usize = 1024;
/// The number of attempts if the source is written to, or its replicas move, during the copy.
const MAX_TRIES: usize = 100;

impl Store {
    /// Copies the object at `from`, with its attributes, to `to`. The copy is an object of its own, which shares the frames
    /// of the first, and is as durable as these are. If one of the two keys has plain files, the bytes are copied. An object
    /// that has the key `to` already is replaced at once.
    ///
    /// # Errors
    /// [`Error::NotFound`] if `from` names no object, [`Error::Conflict`] if another file's key is a path prefix of `to` or
    /// `to` of another's, if `from` is a directory, or if it is written to all the time.
    pub fn copy(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.check_readable_and_changeable(from, to)?;
        for _ in 0..MAX_TRIES {
            let object = self.engine.catalog.object(from)?.ok_or_else(|| Error::not_found(from))?;
            if object.attributes.kind == Kind::Directory {
                let reason = "it is a directory; copy what is in it".to_owned();
                return Err(Error::Conflict { key: key::show(from), reason });
            }
            if from == to {
                return Ok(());
            }
            if !self.may_share(from, &object, to)? {
                return self.copy_bytes(from, to);
            }
            match self.share(from, &object, to)? {
                Shared::Done => return Ok(()),
                Shared::Changed => {}
            }
        }
        let reason = "it is written to all the time; copy it again".to_owned();
        Err(Error::Conflict { key: key::show(from), reason })
    }

    fn check_readable_and_changeable(&self, from: &[u8], to: &[u8]) -> Result<()> {
        key::check(from)?;
        self.check_changeable(to)
    }

    /// Returns whether the two keys may share frames: no tier has a plain file of either, or should have one. A plain file
    /// belongs to one object.
    fn may_share(&self, from: &[u8], object: &Object, to: &[u8]) -> Result<bool> {
        let rules = self.engine.planning.rules.now();
        let is_plain = |key| (0..self.engine.tiers.tiers.len()).any(|level| rules.is_plain(level, key));
        Ok(!is_plain(from) && !is_plain(to) && self.engine.catalog.plain_targets(object.id)?.is_empty())
    }

    /// Shares all frames of this version of an object.
    fn share(&self, from: &[u8], object: &Object, to: &[u8]) -> Result<Shared> {
        let catalog = &self.engine.catalog;
        let (id, want) = (catalog.next_id()?, object.want);
        let expect = || {
            let is_same = Expect::Generation(from.to_vec(), object.generation);
            vec![Expect::Names(from.to_vec(), object.id), is_same, Expect::NotPlain(from.to_vec(), object.id)]
        };
        let found = catalog.locate(from, 0, u64::MAX)?.filter(|(now, _)| is_same(now, object));
        let Some((_, extents)) = found else { return Ok(Shared::Changed) };
        let mut batches = extents.chunks(EXTENTS_PER_COMMIT).peekable();
        let mut staged = false;
        loop {
            let batch = batches.next().unwrap_or_default();
            let is_last = batches.peek().is_none();
            let change = |extents: Vec<NewExtent>| {
                let (mut expect, mut edits) = (expect(), Vec::new());
                let is_staged = staged || !extents.is_empty();
                if !extents.is_empty() {
                    let (key, from) = (to.to_vec(), from.to_vec());
                    edits.push(Edit::Share { object: id, key, from, want, extents });
                }
                if is_last {
                    expect.push(Expect::Free(to.to_vec()));
                    let (key, attributes, length) = (to.to_vec(), object.attributes.clone(), object.length);
                    let (staged, extents) = (is_staged, Vec::new());
                    edits.push(Edit::Put { key, object: id, length, want, attributes, staged, extents });
                }
                Change { expect, edits }
            };
            match self.share_batch(from, object, batch, change) {
                Ok(Shared::Done) => {}
                failed => {
                    self.unstage(id, staged);
                    return failed;
                }
            }
            if is_last {
                terrace_system::fail::point("copy:committed");
                self.engine.mover.note_rename(from, to);
                self.engine.mover.start(true);
                self.engine.mover.follow_now();
                return Ok(Shared::Done);
            }
            staged = true;
            terrace_system::fail::point("copy:staged");
        }
    }

    /// Commits the change that shares some extents of an object. The change lists their replicas, which may move meanwhile.
    fn share_batch(
        &self,
        from: &[u8],
        object: &Object,
        batch: &[Extent],
        change: impl Fn(Vec<NewExtent>) -> Change,
    ) -> Result<Shared> {
        let catalog = &self.engine.catalog;
        let start = batch.first().map_or(0, |extent| extent.offset);
        let end = batch.last().map_or(0, Extent::end);
        for _ in 0..MAX_TRIES {
            let found = catalog.locate(from, start, end)?.filter(|(now, _)| is_same(now, object));
            let Some((_, extents)) = found else { return Ok(Shared::Changed) };
            let mut new = Vec::with_capacity(extents.len());
            for extent in extents {
                let owed = catalog.owed_to(&extent.task(object.id, 0))?;
                let source = Some(extent.source_in(object.id));
                new.push(NewExtent { extent: Extent { source, ..extent }, owed });
            }
            match catalog.commit(change(new)) {
                Ok(_) => return Ok(Shared::Done),
                Err(terrace_catalog::Error::Conflict { key, .. }) if key == key::show(from) => {}
                Err(terrace_catalog::Error::NotFound { .. }) => return Ok(Shared::Changed),
                Err(e) => return Err(e.into()),
            }
            // The object may have become a plain file.
            if !catalog.plain_targets(object.id)?.is_empty() {
                return Ok(Shared::Changed);
            }
        }
        let reason = "its replicas move all the time; copy it again".to_owned();
        Err(Error::Conflict { key: key::show(from), reason })
    }

    fn unstage(&self, object: u64, is_staged: bool) {
        if is_staged {
            // If this fails, the next process that opens the store alone does it.
            let _ = self.engine.catalog.commit(Edit::Unstage { object }.into());
        }
    }

    fn copy_bytes(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let snapshot = ObjectSnapshot::pinned(self, from)?;
        let kept = PutOptions::kept_with(&snapshot.object);
        let options = PutOptions {
            attributes: Some(snapshot.object.attributes.clone()),
            replicas: kept.replicas.or(Some(snapshot.object.want)),
            ..kept
        };
        self.put_sparse(to, Bytes { snapshot, at: 0 }, &options).map(drop)
    }
}

/// How an attempt to share an object's frames ended.
enum Shared {
    Done,
    /// The object has changed meanwhile.
    Changed,
}

fn is_same(now: &Object, object: &Object) -> bool {
    (now.id, now.generation) == (object.id, object.generation)
}

/// The bytes and holes of an object.
struct Bytes {
    snapshot: ObjectSnapshot,
    at: u64,
}

impl Read for Bytes {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let end = self.snapshot.end_of_data(self.at);
        let length = end.saturating_sub(self.at).min(out.len() as u64) as usize;
        let read = self.snapshot.read_at(self.at, &mut out[..length]).map_err(io::Error::other)?;
        self.at += read as u64;
        Ok(read)
    }
}

impl ReadHoles for Bytes {
    fn pass_hole(&mut self) -> io::Result<u64> {
        let hole = self.snapshot.end_of_hole(self.at) - self.at;
        self.at += hole;
        Ok(hole)
    }
}
