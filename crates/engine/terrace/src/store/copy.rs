//! Copies objects by sharing frames. No bytes are read or written.

use std::io::{self, Read};

use terrace_catalog::{Attributes, Kind, Object};
use terrace_format::key;

use super::Store;
use super::object_snapshot::ObjectSnapshot;
use super::put::Put;
use super::share::{Joined, Piece};
use crate::origins::is_at_origin;
use crate::place::PutOptions;
use crate::sparse::ReadHoles;
use crate::{Error, Result};

/// The number of attempts if the source is written to during the copy.
const MAX_TRIES: usize = 100;

impl Store {
    /// Copies the object at `from`, with its attributes, to `to`. The copy is an object of its own, which shares the frames
    /// of the first, and is as durable as these are. If one of the two keys has plain files, or their rules want
    /// other replicas, the bytes are copied, and acknowledged like those of a put. An object that has the key `to` already is replaced at once.
    ///
    /// # Errors
    /// [`Error::NotFound`] if `from` names no object, [`Error::Conflict`] if another file's key is a path prefix of `to` or
    /// `to` of another's, if `from` is a directory, or if it is written to all the time.
    pub fn copy(&self, from: &[u8], to: &[u8]) -> Result<()> {
        self.copy_described(from, to, &PutOptions::default(), |_| ()).map(drop)
    }

    /// Copies an object as [`Store::copy`] does. `describe` changes the attributes that the copy gets; it is called again if the source
    /// was written to meanwhile. Of the options, only `create_new` and `expect` apply. Returns the copy. An object is its own copy as it
    /// is.
    ///
    /// # Errors
    /// Those of [`Store::copy`], and [`Error::Conflict`] or [`Error::NotFound`] if a condition does not hold.
    pub fn copy_described(
        &self,
        from: &[u8],
        to: &[u8],
        options: &PutOptions,
        describe: impl Fn(&mut Attributes),
    ) -> Result<Object> {
        self.check_readable_and_changeable(from, to)?;
        for _ in 0..MAX_TRIES {
            let object = self.stat(from)?;
            if object.attributes.kind == Kind::Directory {
                let reason = "it is a directory; copy what is in it".to_owned();
                return Err(Error::Conflict { key: key::show(from), reason });
            }
            if from == to {
                return Ok(object);
            }
            let mut attributes = object.attributes.clone();
            describe(&mut attributes);
            let piece = Piece { key: from.to_vec(), object, start: 0 };
            // Most bytes of an origin's file are not here.
            if is_at_origin(&piece.object)
                || !self.is_ruled_alike(from, to, &piece.object)
                || !self.may_share(std::slice::from_ref(&piece), to)?
            {
                return self.copy_bytes(from, to, options, describe);
            }
            let Object { length, want, .. } = piece.object;
            let expect = options.conditions(to);
            let copy = Joined { key: to, length, want, attributes: &attributes, expect, then: Vec::new() };
            if let Some(copied) = self.share(std::slice::from_ref(&piece), &copy)? {
                terrace_system::fail::point("copy:committed");
                self.engine.mover.note_rename(from, to);
                self.engine.mover.start(true);
                self.engine.names.try_update_all();
                return Ok(copied);
            }
        }
        let reason = "it is written to all the time; copy it again".to_owned();
        Err(Error::Conflict { key: key::show(from), reason })
    }

    /// Returns whether the replicas of an object may be those of its copy, too.
    fn is_ruled_alike(&self, from: &[u8], to: &[u8], object: &Object) -> bool {
        let planning = &self.engine.planning;
        planning.are_ruled_alike(from, to, &planning.kept.of_replicas(from, Some(object)))
    }

    fn check_readable_and_changeable(&self, from: &[u8], to: &[u8]) -> Result<()> {
        key::check(from)?;
        self.check_changeable(to)
    }

    fn copy_bytes(
        &self,
        from: &[u8],
        to: &[u8],
        options: &PutOptions,
        describe: impl Fn(&mut Attributes),
    ) -> Result<Object> {
        let snapshot = ObjectSnapshot::pinned(self, from)?;
        let asked = PutOptions::kept_with(from, &snapshot.object)?;
        let options = PutOptions {
            attributes: Some(snapshot.object.attributes.clone()),
            create_new: options.create_new,
            expect: options.expect.clone(),
            ..asked.clone()
        };
        let (kept, mut described) = (asked.to_kept()?, Attributes::default());
        let mut bytes = Bytes { snapshot, at: 0 };
        let describe = |attributes: &mut Attributes| {
            kept.store_in(&mut attributes.user);
            describe(attributes);
            described = attributes.clone();
        };
        let (mut receipt, ack) = self.put_by(Put::alone(to), &options, |draft| draft.fill(&mut bytes), describe)?;
        self.wait_if_asked(&mut receipt, ack)?;
        let (id, generation, length, want) = (receipt.object, receipt.generation, receipt.bytes, receipt.want);
        Ok(Object { id, generation, length, want, attributes: described, extents_in_record: None })
    }
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
