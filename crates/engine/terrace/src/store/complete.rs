//! Completes uploads of several parts. The object shares the frames of the parts, so no bytes are read or written.

use std::io::{self, Read};
use std::slice;

use terrace_catalog::{Attributes, Edit, Expect, Object};
use terrace_format::key;

use super::Store;
use super::object_snapshot::ObjectSnapshot;
use super::put::Put;
use super::share::{Joined, Piece};
use super::uploads::{Found, MAX_TRIES, UploadId};
use crate::config::Ack;
use crate::mover::MAX_WAIT;
use crate::place::PutOptions;
use crate::sparse::Dense;
use crate::{Error, Result};

impl Store {
    /// Makes the object of an upload: these parts, each a number with the ETag that [`Store::put_part`] returned, in order of
    /// numbers. Other parts are dropped. One commit makes the object visible, and ends the upload. `describe` completes the object's
    /// attributes, so that they can hold a digest of the whole.
    ///
    /// Settings that `options` leave open are those of [`Store::begin_upload`]. Where the key has plain files, the bytes are copied.
    ///
    /// # Errors
    /// [`Error::NoUpload`] if the upload has ended, [`Error::BadPart`] if a part is not there, has another ETag, or is out of order,
    /// [`Error::Conflict`] if the object cannot be at its key. The upload is as it was then, unless it has ended.
    pub fn complete_upload(
        &self,
        upload: UploadId,
        parts: &[(u32, String)],
        options: &PutOptions,
        describe: impl FnOnce(&mut Attributes),
    ) -> Result<Object> {
        let found = self.upload_with_parts(upload)?;
        let key = found.upload.key.clone();
        self.check_changeable(&key)?;
        let options = options.clone().over(&PutOptions::kept_with(&upload.folder(), &found.folder)?);
        options.check_for(&self.engine.tiers)?;
        let given = options.attributes.clone().or_else(|| found.upload.attributes.clone());
        let mut attributes = given.unwrap_or_else(Attributes::now);
        options.lasting().to_kept()?.store_in(&mut attributes.user);
        describe(&mut attributes);
        let options = PutOptions { attributes: Some(attributes), ..options };
        for _ in 0..MAX_TRIES {
            let found = self.upload_with_parts(upload)?;
            let pieces = pieces_of(&found, parts)?;
            match self.join(&key, &found, &pieces, &options) {
                Ok(Some(object)) => return Ok(object),
                Ok(None) => {}
                Err(error) if upload.is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(upload.is_busy())
    }

    /// Makes the object of the pieces, and removes the upload. `None` if a part has changed meanwhile.
    fn join(&self, key: &[u8], found: &Found, pieces: &[Piece], options: &PutOptions) -> Result<Option<Object>> {
        let length = pieces.last().map_or(0, |piece| piece.start + piece.object.length);
        key::check_end(key, 0, length)?;
        let (mut expect, then) = (found.upload.id.expect_unchanged(&found.folder), found.removal());
        if !self.may_share(pieces, key)? {
            return self.join_bytes(key, pieces, expect, then, options);
        }
        expect.extend(options.conditions(key));
        let policy = self.engine.planning.policy(key, options);
        let want = pieces.iter().map(|piece| piece.object.want).max().unwrap_or(policy.wanted.replicas);
        let attributes = options.attributes.clone().unwrap_or_default();
        let whole = Joined { key, length, want, attributes: &attributes, expect, then };
        let Some(object) = self.share(pieces, &whole)? else { return Ok(None) };
        terrace_system::fail::point("upload:completed");
        if let Some(first) = pieces.first() {
            self.engine.mover.note_rename(&first.key, key);
        }
        self.engine.mover.start(policy.wanted.ack == Ack::Placed);
        self.engine.names.try_update_all();
        match policy.wanted.ack {
            Ack::Placed => {}
            Ack::Replicated => {
                self.engine.mover.finish(Some(object.id), MAX_WAIT, &mut |_| {})?;
                self.engine.mover.finish_shared(object.id)?;
                self.engine.journal.copy_log(false)?;
            }
            Ack::Durable => self.sync_object(object.id)?,
        }
        Ok(Some(object))
    }

    /// The same by copying the bytes.
    fn join_bytes(
        &self,
        key: &[u8],
        pieces: &[Piece],
        expect: Vec<Expect>,
        then: Vec<Edit>,
        options: &PutOptions,
    ) -> Result<Option<Object>> {
        let mut bytes = Dense(PieceBytes { store: self, left: pieces.iter(), current: None, has_changed: false });
        let mut attributes = Attributes::default();
        let put = Put { key, ruled_by: key, expect, then };
        let placed = self.put_by(put, options, |writer| writer.fill(&mut bytes), |all| attributes = all.clone());
        let (mut receipt, ack) = match placed {
            Err(_) if bytes.0.has_changed => return Ok(None),
            placed => placed?,
        };
        terrace_system::fail::point("upload:completed");
        self.wait_if_asked(&mut receipt, ack)?;
        let (id, generation, length, want) = (receipt.object, receipt.generation, receipt.bytes, receipt.want);
        Ok(Some(Object { id, generation, length, want, attributes, extents_in_record: None }))
    }
}

/// The chosen parts, each with its place in the object.
fn pieces_of(found: &Found, parts: &[(u32, String)]) -> Result<Vec<Piece>> {
    let id = found.upload.id;
    let bad = |number: u32, reason| Error::BadPart { upload: id.to_string(), number, reason };
    let mut pieces: Vec<Piece> = Vec::with_capacity(parts.len());
    let (mut start, mut last) = (0u64, None);
    for &(number, ref etag) in parts {
        if last.is_some_and(|last| last >= number) {
            return Err(bad(number, "it does not follow the part that is named before it; name parts in order"));
        }
        last = Some(number);
        let place = found.parts.binary_search_by_key(&number, |part| part.number);
        let part = place.ok().and_then(|place| found.parts.get(place));
        let object = part.map(|part| part.object.clone()).ok_or_else(|| bad(number, "it is not there; put it"))?;
        if object.etag() != *etag {
            return Err(bad(number, "it has another ETag, because it was put again; list the parts"));
        }
        let key = id.part(number);
        let end = key::check_end(&found.upload.key, start, object.length)?;
        pieces.push(Piece { key, object, start });
        start = end;
    }
    Ok(pieces)
}

/// The bytes of all pieces, one after the other. Each is pinned while it is read.
struct PieceBytes<'a> {
    store: &'a Store,
    left: slice::Iter<'a, Piece>,
    /// The piece that is being read, and how far.
    current: Option<(ObjectSnapshot, u64)>,
    /// Whether a piece is not as it was.
    has_changed: bool,
}

impl Read for PieceBytes<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((piece, at)) = &mut self.current {
                let read = piece.read_at(*at, out).map_err(io::Error::other)?;
                *at += read as u64;
                if read > 0 || out.is_empty() {
                    return Ok(read);
                }
            }
            let Some(next) = self.left.next() else { return Ok(0) };
            let pinned = ObjectSnapshot::pinned(self.store, &next.key);
            let snapshot = match pinned {
                Ok(snapshot) if next.is_unchanged(&snapshot.object) => snapshot,
                Ok(_) | Err(Error::NotFound { .. }) => {
                    self.has_changed = true;
                    return Err(io::Error::other("the part was put again"));
                }
                Err(error) => return Err(io::Error::other(error)),
            };
            self.current = Some((snapshot, 0));
        }
    }
}
