//! Makes an object of the frames of others, without reading or writing bytes: what copies and uploads of several parts have in
//! common.

use terrace_catalog::{Attributes, Change, Commit, Edit, Expect, Extent, NewExtent, Object};
use terrace_format::key;
use terrace_system::fail;

use super::Store;
use crate::origins::forget_origin;
use crate::{Error, Result};

/// Extents that one commit shares. Each is two or three records, and all processes wait for the commit.
const MAX_EXTENTS_PER_COMMIT: u64 = 1024;
/// One commit is tried this many times, because replicas may move meanwhile.
const MAX_TRIES: usize = 100;

/// An object whose bytes become a part of the new object.
pub(super) struct Piece {
    pub key: Vec<u8>,
    /// The object, which must not change meanwhile.
    pub object: Object,
    /// Where its bytes begin in the new object.
    pub start: u64,
}

impl Piece {
    /// Returns whether `now` is the object as it was.
    pub fn is_unchanged(&self, now: &Object) -> bool {
        (now.id, now.generation) == (self.object.id, self.object.generation)
    }
}

/// The new object, and the rest of the commit that makes it visible.
pub(super) struct Joined<'a> {
    pub key: &'a [u8],
    pub length: u64,
    pub want: u8,
    pub attributes: &'a Attributes,
    pub expect: Vec<Expect>,
    /// The edits that follow.
    pub then: Vec<Edit>,
}

/// The extents of the pieces: for each, the place of its piece among the pieces, and its range in the piece's object.
type Extents = Vec<(usize, u64, u64)>;

impl Store {
    /// Returns whether objects may share the frames of the pieces: neither the new object nor a piece has a plain file on a tier, or is to
    /// have one, because a plain file belongs to one object.
    pub(super) fn may_share(&self, pieces: &[Piece], to: &[u8]) -> Result<bool> {
        let rules = self.engine.planning.rules.now();
        let is_plain = |key: &[u8]| (0..self.engine.tiers.tiers.len()).any(|level| rules.is_plain(level, key));
        Ok(!is_plain(to) && !pieces.iter().any(|piece| is_plain(&piece.key)) && !self.has_plain(pieces)?)
    }

    fn has_plain(&self, pieces: &[Piece]) -> Result<bool> {
        for piece in pieces {
            if !self.engine.catalog.plain_targets(piece.object.id)?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_changed(&self, pieces: &[Piece]) -> Result<bool> {
        for piece in pieces {
            if !self.engine.catalog.object(&piece.key)?.is_some_and(|now| piece.is_unchanged(&now)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes an object that shares all frames of the pieces. One commit makes it visible; if there are many extents, earlier commits
    /// stage them. `None` if a piece has changed meanwhile: then nothing is made.
    pub(super) fn share(&self, pieces: &[Piece], new: &Joined<'_>) -> Result<Option<Object>> {
        let Some(extents) = self.locate_extents(pieces)? else { return Ok(None) };
        let id = self.engine.catalog.next_id()?;
        let most = fail::limit("TERRACE_SHARED_EXTENTS", MAX_EXTENTS_PER_COMMIT) as usize;
        let mut batches = extents.chunks(most).peekable();
        let mut staged = false;
        loop {
            let batch = batches.next().unwrap_or_default();
            let is_last = batches.peek().is_none();
            let change = |mut edits: Vec<Edit>| {
                let Joined { key, length, want, attributes, .. } = *new;
                let used = if is_last { pieces } else { pieces_of(pieces, batch) };
                let mut expect: Vec<Expect> = used.iter().flat_map(expect_unchanged).collect();
                if is_last {
                    let (key, mut attributes) = (key.to_vec(), attributes.clone());
                    forget_origin(&mut attributes);
                    let (staged, extents) = (staged || !edits.is_empty(), Vec::new());
                    edits.push(Edit::Put { key, object: id, length, want, attributes, staged, extents });
                    expect.extend(new.expect.iter().cloned());
                    edits.extend(new.then.iter().cloned());
                }
                Change { expect, edits }
            };
            match self.share_batch(id, pieces, batch, new, change) {
                Ok(Some(commit)) if is_last => {
                    let (length, want, attributes) = (new.length, new.want, new.attributes.clone());
                    let generation = commit.sequence;
                    return Ok(Some(Object { id, generation, length, want, attributes, extents_in_record: None }));
                }
                Ok(Some(_)) => staged = true,
                failed => {
                    self.unstage(id, staged);
                    return failed.map(|_| None);
                }
            }
            fail::point("copy:staged");
        }
    }

    fn locate_extents(&self, pieces: &[Piece]) -> Result<Option<Extents>> {
        let mut all = Extents::new();
        for (place, piece) in pieces.iter().enumerate() {
            let found = self.engine.catalog.locate(&piece.key, 0, u64::MAX)?.filter(|(now, _)| piece.is_unchanged(now));
            let Some((_, extents)) = found else { return Ok(None) };
            all.extend(extents.iter().map(|extent| (place, extent.offset, extent.end())));
        }
        Ok(Some(all))
    }

    /// Commits the change that shares some extents. It lists their replicas, which may be moving.
    fn share_batch(
        &self,
        id: u64,
        pieces: &[Piece],
        batch: &[(usize, u64, u64)],
        new: &Joined<'_>,
        change: impl Fn(Vec<Edit>) -> Change,
    ) -> Result<Option<Commit>> {
        let catalog = &self.engine.catalog;
        let mut conflict = String::new();
        for _ in 0..MAX_TRIES {
            let mut edits = Vec::new();
            for run in batch.chunk_by(|one, next| one.0 == next.0) {
                let (Some(&(place, start, _)), Some(&(_, _, end))) = (run.first(), run.last()) else { continue };
                let Some(piece) = pieces.get(place) else { continue };
                let Some(extents) = self.list_frames(piece, start, end)? else { return Ok(None) };
                let (key, from, want) = (new.key.to_vec(), piece.key.clone(), new.want);
                edits.push(Edit::Share { object: id, key, from, want, extents });
            }
            match catalog.commit(change(edits)) {
                Ok(commit) => return Ok(Some(commit)),
                Err(terrace_catalog::Error::NotFound { .. }) => return Ok(None),
                Err(terrace_catalog::Error::Conflict { key, .. })
                    if pieces.iter().any(|piece| key::show(&piece.key) == key) =>
                {
                    conflict = key;
                }
                Err(e) => return Err(e.into()),
            }
            if self.has_changed(pieces)? || self.has_plain(pieces)? {
                return Ok(None);
            }
        }
        let reason = "its replicas move all the time; try again".to_owned();
        Err(Error::Conflict { key: conflict, reason })
    }

    /// Returns the extents of a piece in this range as extents of the new object, with their present replicas. `None` if the piece has
    /// changed.
    fn list_frames(&self, piece: &Piece, start: u64, end: u64) -> Result<Option<Vec<NewExtent>>> {
        let catalog = &self.engine.catalog;
        let found = catalog.locate(&piece.key, start, end)?.filter(|(now, _)| piece.is_unchanged(now));
        let Some((_, extents)) = found else { return Ok(None) };
        let mut new = Vec::with_capacity(extents.len());
        for extent in extents {
            let owed = catalog.owed_to(&extent.task(piece.object.id, 0))?;
            let source = Some(extent.source_in(piece.object.id));
            new.push(NewExtent { extent: Extent { offset: piece.start + extent.offset, source, ..extent }, owed });
        }
        Ok(Some(new))
    }

    fn unstage(&self, object: u64, is_staged: bool) {
        if is_staged {
            // If this fails, the next process that opens the store alone does it.
            let _ = self.engine.catalog.commit(Edit::Unstage { object }.into());
        }
    }
}

/// Returns the pieces to which a batch of extents belongs. Extents are in the order of their pieces.
fn pieces_of<'a>(pieces: &'a [Piece], batch: &[(usize, u64, u64)]) -> &'a [Piece] {
    let (first, last) = (batch.first().map_or(0, |one| one.0), batch.last().map_or(0, |one| one.0 + 1));
    pieces.get(first..last).unwrap_or_default()
}

/// Expects that a piece has not changed, and that its frames may be shared.
fn expect_unchanged(piece: &Piece) -> [Expect; 3] {
    let Piece { key, object, .. } = piece;
    [
        Expect::Names(key.clone(), object.id),
        Expect::Generation(key.clone(), object.generation),
        Expect::NotPlain(key.clone(), object.id),
    ]
}
