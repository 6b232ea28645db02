//! Reads objects: whole, in ranges, or in bounded memory.

use std::io::{self, Write};

use terrace_catalog::{Extent, Object, Replica};
use terrace_format::frame::{MAX_EXTENT_BYTES, with_block};
use terrace_format::key;

use super::Store;
use super::object_snapshot::{ObjectSnapshot, same_frames};
use crate::origins::is_at_origin;
use crate::read::{HeldChunk, Lent};
use crate::sparse::{Dense, WriteHoles};
use crate::{Error, Result};

/// The number of attempts of one call, if the object changes during the read.
const MAX_READ_ATTEMPTS: u32 = 8;
/// The number of bytes that `get` hands out at a time.
const STEP_BYTES: u64 = MAX_EXTENT_BYTES as u64;
/// The same for a file of an origin, from which each step fetches what is missing.
const ORIGIN_STEP_BYTES: u64 = 4 * MAX_EXTENT_BYTES as u64;

#[cfg(test)]
thread_local! {
    /// How often reads of this thread have looked up an object.
    pub(crate) static LOOKUP_COUNT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

impl Store {
    /// Waits until this machine's catalog has all that any node had acknowledged before this call, if reads are to see it.
    pub(crate) fn catch_up(&self) -> Result<()> {
        self.engine.tiers.heed_nodes(&self.engine.catalog)?;
        // Terrace's own records are changed by conditional commits.
        if self.engine.reads_newest && !self.internal {
            self.engine.catalog.catch_up()?;
        }
        Ok(())
    }

    /// Catches up, and asks the origin of a key for it, if it has one.
    pub(crate) fn refresh(&self, key: &[u8]) -> Result<()> {
        self.catch_up()?;
        self.engine.origins.refresh(key)
    }

    /// Asks again for a key that was not found, if this process has only now heard of an origin. Returns whether it has asked.
    pub(crate) fn ask_new_origin(&self, key: &[u8]) -> Result<bool> {
        if self.engine.origins.is_any() || !self.engine.origins.heed() {
            return Ok(false);
        }
        self.engine.origins.refresh(key).map(|()| true)
    }

    /// Reads a whole object.
    pub fn get(&self, key: &[u8]) -> Result<Vec<u8>> {
        self.get_into(key, 0, None, |_, length| vec![0; length])
    }

    /// Reads a range of an object, to its end if `end` is none, into the buffer that `room` creates for that number of
    /// bytes. All bytes are of the object that was passed to `room`, which is called again if the object was replaced
    /// meanwhile.
    pub fn get_into<R: AsMut<[u8]>>(
        &self,
        key: &[u8],
        start: u64,
        end: Option<u64>,
        mut room: impl FnMut(&Object, usize) -> R,
    ) -> Result<R> {
        key::check(key)?;
        key::check_end(key, start, 0)?;
        for _ in 0..MAX_READ_ATTEMPTS {
            self.refresh(key)?;
            // One lookup gives the object and its extents, both as of one moment.
            let found = self.engine.catalog.locate(key, start, end.map_or(u64::MAX, |end| end.max(start)))?;
            let (object, mut extents) = match found {
                Some(found) => found,
                None if self.ask_new_origin(key)? => continue,
                None => return Err(Error::not_found(key)),
            };
            let length = end.map_or(object.length, |end| end.min(object.length)).saturating_sub(start);
            let mut bytes = room(&object, usize::try_from(length).map_err(|_| too_long(key))?);
            let length = length.min(bytes.as_mut().len() as u64);
            // The buffer may be shorter than asked for.
            extents.retain(|extent| extent.offset < start.saturating_add(length));
            match self.read_located(key, (&object, &extents), start, &mut bytes.as_mut()[..length as usize]) {
                Ok(None) => return Ok(bytes),
                // The next attempt finds the file as it is now.
                Err(Error::ChangedAtOrigin { .. }) => continue,
                moved => drop(moved?),
            }
            if self.read_version(key, start, bytes.as_mut(), Version::This(&object))?.is_some() {
                return Ok(bytes);
            }
        }
        Err(Error::Replaced { key: key::show(key) })
    }

    /// Fills `out` from the object's byte `offset` on. Returns the number of bytes read, which is smaller than `out` only at
    /// the object's end. Ranges that were never written read as zeros. All bytes are of one generation.
    pub fn read_at(&self, key: &[u8], offset: u64, out: &mut [u8]) -> Result<usize> {
        key::check(key)?;
        key::check_end(key, offset, out.len() as u64)?;
        if self.engine.origins.is_any() {
            return self.read_at_of_any(key, offset, out);
        }
        let found = self.read_version(key, offset, out, Version::Any)?;
        found.map(|found| found.length).ok_or_else(|| Error::Replaced { key: key::show(key) })
    }

    /// Like `read_at`, in a store with origins: a file that has changed at its origin is looked for again.
    fn read_at_of_any(&self, key: &[u8], offset: u64, out: &mut [u8]) -> Result<usize> {
        let mut attempts = 0..MAX_READ_ATTEMPTS;
        loop {
            self.engine.origins.refresh(key)?;
            match self.read_version(key, offset, out, Version::Any) {
                Err(Error::ChangedAtOrigin { .. }) if attempts.next().is_some() => {}
                read => {
                    let found = read?.map(|found| found.length);
                    return found.ok_or_else(|| Error::Replaced { key: key::show(key) });
                }
            }
        }
    }

    /// Fills `out` from the object's byte `offset` on, if it is still `object`, as [`Store::stat`] returned it. Returns
    /// false if it has changed. Bytes beyond its end are zero.
    pub fn read_unchanged(&self, key: &[u8], object: &Object, offset: u64, out: &mut [u8]) -> Result<bool> {
        key::check(key)?;
        let read = self.read_version(key, offset, out, Version::This(object))?;
        if let Some(beyond) = read.as_ref().and_then(|found| out.get_mut(found.length..)) {
            beyond.fill(0);
        }
        Ok(read.is_some())
    }

    /// Fills `out` from the object's byte `offset` on, if the key still names the object with this number. Otherwise returns
    /// none. Returns the number of bytes, and the chunk of the cache that has all of them, if there is one.
    pub(crate) fn read_numbered(
        &self,
        key: &[u8],
        number: u64,
        offset: u64,
        out: &mut [u8],
    ) -> Result<Option<(usize, Option<HeldChunk>)>> {
        // Before the look-up: if the object changes in between, the chunk is not used, although it might be right.
        let moment = self.engine.catalog.moment()?;
        let Some(found) = self.read_version(key, offset, out, Version::Numbered(number))? else { return Ok(None) };
        let FoundBytes { length, object, extents } = found;
        let reader = &self.engine.reader;
        let range = offset..offset + length as u64;
        let chunk = HeldChunk::take(&reader.cache, &reader.held, moment, (&object, &extents), range);
        Ok(Some((length, chunk)))
    }

    /// Lends bytes of an object that were fetched ahead, if one frame holds all of them and the key names the object with
    /// this number.
    pub(crate) fn lend(&self, key: &[u8], number: u64, offset: u64, length: u64) -> Result<Option<Lent<'_>>> {
        let end = offset.saturating_add(length);
        let Some((object, extents)) = self.engine.catalog.locate(key, offset, end)? else { return Ok(None) };
        let [extent] = extents.as_slice() else { return Ok(None) };
        if object.id != number || extent.offset > offset || extent.end() < end || object.length < end {
            return Ok(None);
        }
        let lent = self.engine.reader.fetched.lend(extent, (offset - extent.frame_offset()) as u32, length as usize);
        if lent.is_some() {
            self.engine.origins.note_read(key, &object, &extents, offset, length);
            self.engine.hotness.touch(key, offset, length);
        }
        Ok(lent)
    }

    /// Returns the expected speed of reading an object's first bytes from the fastest target that has them, in bytes before
    /// encoding per second. None if the object has no stored bytes there.
    pub fn reading_rate(&self, key: &[u8]) -> Result<Option<f64>> {
        key::check(key)?;
        let engine = &self.engine;
        let Some((_, extents)) = engine.catalog.locate(key, 0, u64::from(MAX_EXTENT_BYTES))? else { return Ok(None) };
        let rate = |extent: &Extent, replica: &Replica| {
            let rate = engine.tiers.device(replica.target).map_or(0.0, |device| device.reading.rate());
            rate * f64::from(extent.raw_len) / f64::from(replica.stored.max(1))
        };
        let of = |extent: &Extent| extent.replicas.iter().map(|replica| rate(extent, replica)).max_by(f64::total_cmp);
        Ok(extents.first().and_then(of))
    }

    /// Writes a range of an object, to its end if `end` is none, to `sink`, in bounded memory. The bytes are those that the
    /// object has when the call begins, even if it changes meanwhile.
    ///
    /// # Errors
    /// [`Error::Replaced`] if the object was replaced within the first second, and its space was freed at once.
    pub fn get_to(&self, key: &[u8], start: u64, end: Option<u64>, sink: impl Write) -> Result<u64> {
        self.get_sparse(key, start, end, Dense(sink))
    }

    /// Like [`Store::get_to`], but passes holes to `sink` instead of their zeros.
    ///
    /// # Errors
    /// Those of [`Store::get_to`].
    pub fn get_sparse(&self, key: &[u8], start: u64, end: Option<u64>, sink: impl WriteHoles) -> Result<u64> {
        self.get_by(key, start, end, |_| sink)
    }

    /// Like [`Store::get_sparse`], but creates the sink for the object that is read.
    ///
    /// # Errors
    /// Those of [`Store::get_to`].
    pub fn get_by<W: WriteHoles>(
        &self,
        key: &[u8],
        start: u64,
        end: Option<u64>,
        make_sink: impl FnOnce(&Object) -> W,
    ) -> Result<u64> {
        key::check_end(key, start, 0)?;
        let mut snapshot = ObjectSnapshot::of(self, key)?;
        let mut sink = make_sink(&snapshot.object);
        let length = snapshot.object.length;
        let end = end.map_or(length, |e| e.min(length));
        let step = if is_at_origin(&snapshot.object) { ORIGIN_STEP_BYTES } else { STEP_BYTES };
        let failed = || Error::io(format!("writing the bytes of {:?}", key::show(key)));
        with_block(|buffer| -> Result<()> {
            let mut at = start;
            while at < end {
                let hole = snapshot.end_of_hole(at).min(end) - at;
                if hole > 0 {
                    sink.skip_hole(hole).map_err(failed())?;
                    at += hole;
                    continue;
                }
                let wanted = step.min(end - at) as usize;
                if buffer.len() < wanted {
                    buffer.resize(wanted, 0);
                }
                let want = &mut buffer[..wanted];
                snapshot.hold_if_long()?;
                let read = snapshot.read_at(at, want)?;
                sink.write_all(&want[..read]).map_err(failed())?;
                at += read as u64;
            }
            Ok(())
        })?;
        if start == 0 && end == length {
            self.engine.reader.has_read_all(key, &snapshot.object);
        }
        Ok(end.saturating_sub(start))
    }

    /// Reads from the current object, if that is `version`. Otherwise returns none.
    fn read_version(
        &self,
        key: &[u8],
        offset: u64,
        out: &mut [u8],
        version: Version<'_>,
    ) -> Result<Option<FoundBytes>> {
        let engine = &self.engine;
        let mut failed = None;
        for _ in 0..MAX_READ_ATTEMPTS {
            #[cfg(test)]
            LOOKUP_COUNT.set(LOOKUP_COUNT.get() + 1);
            let found = engine.catalog.locate(key, offset, offset.saturating_add(out.len() as u64))?;
            let (object, extents) = match (found, version) {
                (Some(found), _) => found,
                (None, Version::Any) if self.ask_new_origin(key)? => continue,
                (None, Version::Any) => return Err(Error::not_found(key)),
                (None, _) => return Ok(None),
            };
            if !version.is(&object) {
                return Ok(None);
            }
            let length = object.length.saturating_sub(offset).min(out.len() as u64) as usize;
            failed = self.read_located(key, (&object, &extents), offset, &mut out[..length])?;
            if failed.is_none() {
                return Ok(Some(FoundBytes { length, object, extents }));
            }
        }
        Err(failed.unwrap_or_else(|| Error::Replaced { key: key::show(key) }))
    }

    /// Fills `out` from the object's byte `offset` on, from these extents, which are those of all its bytes. Returns the failure if the
    /// catalog names other frames for them by now: they have moved, or the object was replaced.
    fn read_located(
        &self,
        key: &[u8],
        (object, extents): (&Object, &[Extent]),
        offset: u64,
        out: &mut [u8],
    ) -> Result<Option<Error>> {
        let (engine, length) = (&self.engine, out.len() as u64);
        let Err(failed) = engine.reader.read_extents(key, object, extents, offset, out) else {
            self.tend_origins();
            engine.origins.note_read(key, object, extents, offset, length);
            engine.hotness.touch(key, offset, length);
            return Ok(None);
        };
        // This is damage only if the catalog still names the same frames.
        let again = engine.catalog.locate(key, offset, offset.saturating_add(length))?;
        let same = again.is_some_and(|(now, found)| now.id == object.id && same_frames(&found, extents));
        if same { Err(engine.reader.note_if_lost(key, object, failed)) } else { Ok(Some(failed)) }
    }
}

/// The bytes that a read has found.
struct FoundBytes {
    /// The number of bytes read.
    length: usize,
    object: Object,
    /// The extents of these bytes.
    extents: Vec<Extent>,
}

/// The version of an object that a read accepts.
#[derive(Clone, Copy)]
enum Version<'a> {
    /// Any object.
    Any,
    /// The object with this number.
    Numbered(u64),
    /// This object, unchanged.
    This(&'a Object),
}

impl Version<'_> {
    fn is(self, object: &Object) -> bool {
        match self {
            Version::Any => true,
            Version::Numbered(number) => number == object.id,
            Version::This(this) => (this.id, this.generation) == (object.id, object.generation),
        }
    }
}

fn too_long(key: &[u8]) -> Error {
    let reason = "it is longer than this machine's memory can address; read it in parts";
    Error::io(format!("reading {:?}", key::show(key)))(io::Error::new(io::ErrorKind::FileTooLarge, reason))
}
