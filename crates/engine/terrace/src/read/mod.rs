//! Reads each extent from its nearest good replica, and verifies it. If a read fails, the next replica is read.

mod cache;
mod fetched;
mod held;
mod holes;
mod lost;
mod nearest;
mod suspects;

use std::io;
use std::sync::Arc;

use terrace_catalog::{Extent, Object, Replica, Task};
use terrace_codec::Encoding;

pub(crate) use cache::{Cache, Caching};
pub(crate) use fetched::{Fetched, Lent};
pub(crate) use held::{HeldAccount, HeldChunk};
pub(crate) use lost::LostObjects;
use nearest::nearest;
pub(crate) use suspects::{Suspect, Suspects};

use crate::devices::{Device, Tiers};
use crate::origins::Origins;
use crate::place::Lessons;
use crate::{Error, Result};
use terrace_format::frame::{self, Header, header_len, with_scratch};
use terrace_format::key;
use terrace_tier::Place;

/// Frames up to this length are read as a whole.
const MAX_WHOLE_READ_BYTES: u32 = 96 << 10;
/// A frame on a remote target is read as a whole if the wanted part, times this, is as long as the frame.
const FAR_WHOLE_READ_DIVISOR: usize = 4;

/// Reads extents from their replicas, and reports those that it finds bad.
pub(crate) struct Reader {
    /// The store's id, which is the seed of its checksums.
    pub store: u64,
    pub tiers: Arc<Tiers>,
    /// Learns from the speed of decoding.
    pub lessons: Arc<Lessons>,
    /// The origins, which have the bytes of some holes.
    pub origins: Arc<Origins>,
    /// The blocks that small reads have decoded.
    pub cache: Cache,
    /// The blocks of the cache that open files hold.
    pub held: HeldAccount,
    /// The prefetched frames.
    pub fetched: Fetched,
    /// Replicas that reads found bad, for the mover to repair.
    pub suspects: Suspects,
    /// Objects that have lost bytes.
    pub lost: LostObjects,
}

impl Reader {
    /// Notes that all bytes of an object were found good. This looks at a file, which is much for a short read of a whole object, so that
    /// only streamed reads and scrubs do it.
    pub fn has_read_all(&self, key: &[u8], object: &Object) {
        if self.lost.has(key, object) {
            self.lost.forget(key, object);
        }
    }

    /// Notes that an object has lost bytes, if this is the reason why a read failed, and returns the reason. The catalog still names the
    /// frames that were read.
    pub fn note_if_lost(&self, key: &[u8], object: &Object, error: Error) -> Error {
        if matches!(error, Error::Unreadable { is_lost: true, .. }) {
            self.lost.note(key, object);
        }
        error
    }

    /// Fills `out` from the object's byte `offset` on, which these of its extents cover. Ranges without an extent are zero, or at
    /// the object's origin.
    pub fn read_extents(
        &self,
        key: &[u8],
        object: &Object,
        extents: &[Extent],
        offset: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let mut at = offset;
        let end = offset + out.len() as u64;
        for extent in extents {
            let start = extent.offset.max(offset);
            let stop = extent.end().min(end);
            if start >= stop {
                continue;
            }
            self.fill_hole(key, object, at, &mut out[(at - offset) as usize..(start - offset) as usize])?;
            let part = &mut out[(start - offset) as usize..(stop - offset) as usize];
            let skip = (start - extent.frame_offset()) as u32;
            if let Err(error) = self.read_extent(key, object, extent, skip, part) {
                self.fetch_again(key, object, extent, skip, part, error)?;
            }
            at = stop;
        }
        self.fill_hole(key, object, at, &mut out[(at - offset) as usize..])
    }

    /// Reads a part of one extent's frame, from its raw byte `skip` on.
    fn read_extent(&self, key: &[u8], object: &Object, extent: &Extent, skip: u32, out: &mut [u8]) -> Result<()> {
        match self.fetched.fill(extent, skip, out) {
            true => Ok(()),
            false => self.read_from_replicas(key, object, extent, skip, out),
        }
    }

    /// Like `read_extent`, but reads only from replicas, not from fetched frames.
    pub fn read_from_replicas(
        &self,
        key: &[u8],
        object: &Object,
        extent: &Extent,
        skip: u32,
        out: &mut [u8],
    ) -> Result<()> {
        let (mut tried, mut is_bad, mut is_changed) = (Vec::new(), true, false);
        for replica in nearest(&self.tiers, extent)? {
            let device = self.tiers.device(replica.target)?;
            let read = |skip, out: &mut [u8]| self.read_replica(device, object.id, extent, &replica, skip, out);
            let done = if self.cache.takes(out.len(), replica.encoding) {
                // Raw bytes on a fast device are cached, too, because each small read would verify its whole sub-block again.
                let caching = if is_costly(device, &replica) { Caching::AtOnce } else { Caching::WhenReadAgain };
                self.cache.fill(extent, replica.encoding, caching, skip, out, read)
            } else {
                read(skip, out)
            };
            match done {
                Ok(()) => return Ok(()),
                Err(e) => {
                    device.failed(&e);
                    tried.push(format!("{} ({}): {e}", self.tiers.tier(device).name, device.path.display()));
                    is_bad &= means_bad_replica(&e);
                    is_changed |= is_changed_by_owner(&e);
                    if means_bad_replica(&e) {
                        self.suspects.report(Suspect {
                            key: key.to_vec(),
                            task: task_of(object.id, extent, &replica),
                            replica,
                        });
                    }
                }
            }
        }
        let tried = if tried.is_empty() { "none: it has no replica".to_owned() } else { tried.join(", ") };
        let length = u64::from(extent.length);
        let (is_lost, is_changed) = (is_bad && !is_changed, is_bad && is_changed);
        Err(Error::Unreadable { key: key::show(key), start: extent.offset, length, tried, is_lost, is_changed })
    }

    /// Returns whether it pays to fetch an extent ahead of its reader.
    pub fn is_costly(&self, extent: &Extent) -> Result<bool> {
        match nearest(&self.tiers, extent)?.first() {
            Some(replica) => Ok(is_costly(self.tiers.device(replica.target)?, replica)),
            None => Ok(false),
        }
    }

    /// Reads the raw bytes of a whole frame from any good replica.
    pub fn read_frame(&self, object: u64, extent: &Extent) -> Option<Vec<u8>> {
        let mut raw = vec![0; extent.raw_len as usize];
        extent
            .replicas
            .iter()
            .any(|replica| {
                let Ok(device) = self.tiers.device(replica.target) else { return false };
                self.read_replica(device, object, extent, replica, 0, &mut raw).is_ok()
            })
            .then_some(raw)
    }

    /// Returns whether no replica of an extent can be read any more because the owner of an adopted file has changed it: no later
    /// attempt succeeds, and no replica can be made of these.
    pub fn is_changed_by_owner(&self, object: u64, extent: &Extent) -> bool {
        let (mut raw, mut is_changed) = (vec![0; extent.raw_len as usize], false);
        for replica in &extent.replicas {
            let Ok(device) = self.tiers.device(replica.target) else { return false };
            match self.read_replica(device, object, extent, replica, 0, &mut raw) {
                Err(error) if means_bad_replica(&error) => is_changed |= is_changed_by_owner(&error),
                _ => return false,
            }
        }
        is_changed
    }

    /// Reads from one replica, and verifies that the frame is the one that the catalog names.
    pub fn read_replica(
        &self,
        device: &Device,
        object: u64,
        extent: &Extent,
        replica: &Replica,
        skip: u32,
        out: &mut [u8],
    ) -> io::Result<()> {
        with_scratch(|scratch| {
            let place = replica.place;
            let head = header_len(extent.raw_len, replica.encoding);
            let whole = place.length <= MAX_WHOLE_READ_BYTES
                || (device.capabilities.remote && out.len() >= extent.raw_len as usize / FAR_WHOLE_READ_DIVISOR);
            let first = if whole { place.length as usize } else { head };
            let mut bytes = std::mem::take(&mut scratch.frame);
            bytes.resize(first, 0);
            let read = device.read(place, 0, &mut bytes).and_then(|()| {
                let header = Header::read(&bytes, self.store, place)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
                let (identity, source) = (header.identity, extent.source_in(object));
                let ours =
                    (identity.object, identity.write, identity.offset) == (source.object, extent.write, source.offset);
                if !ours || header.raw_len != extent.raw_len || header.encoding != replica.encoding {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "another frame is at this place"));
                }
                frame::decode_range(&header, skip, out, scratch, |range, into| {
                    let from = head + range.start as usize;
                    match bytes.get(from..from + into.len()) {
                        Some(have) => into.copy_from_slice(have),
                        None => device.read(place, from as u32, into)?,
                    }
                    Ok(())
                })
            });
            scratch.frame = bytes;
            self.lessons.decoded(replica.encoding, std::mem::take(&mut scratch.decoded));
            read.map_err(|error| ask_about_frame(device, self.store, place, head, error))
        })
    }
}

/// Asks the target about a frame that seems damaged or missing. If another target is in its place, or the frame was damaged on the way
/// here, that is no reason to give up the replica, but the target is set aside.
fn ask_about_frame(device: &Device, store: u64, place: Place, head: usize, error: io::Error) -> io::Error {
    if !device.capabilities.remote && means_bad_replica(&error) {
        // The file that was read may be another store's, with the same name.
        let is_linked =
            || place.is_plain() && device.target.files().is_some_and(|files| files.is_linked(place.segment));
        // The headers are the store's own. If one is bad, that is damage.
        let has_header = || {
            let mut bytes = vec![0; head];
            device.target.read(place, 0, &mut bytes).is_ok() && Header::read(&bytes, store, place).is_ok()
        };
        return match device.target.check_again() {
            Err(away) => away,
            Ok(()) if is_linked() && has_header() => io::Error::new(error.kind(), ChangedByOwner),
            Ok(()) => error,
        };
    }
    // The target's kind has looked into other errors itself.
    if error.kind() != io::ErrorKind::InvalidData {
        return error;
    }
    match device.target.is_whole(place) {
        Ok(false) => error,
        Ok(true) => io::Error::new(io::ErrorKind::ConnectionAborted, format!("damaged on the way here: {error}")),
        Err(unasked) => unasked,
    }
}

/// Returns whether it pays to keep a replica's bytes: raw bytes on a fast device are as near as any buffer.
fn is_costly(device: &Device, replica: &Replica) -> bool {
    replica.encoding != Encoding::NONE || !device.is_local
}

/// Returns whether the error means that this replica is damaged or missing, and not that its device is away.
pub(crate) fn means_bad_replica(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof)
}

/// The error of a replica in an adopted file that does not hold the adopted bytes any more.
#[derive(Debug, thiserror::Error)]
#[error("the file was adopted as a hard link, and its owner has changed it since")]
struct ChangedByOwner;

/// Returns whether a replica is bad because the owner of an adopted file has changed the file. That is no damage.
pub(crate) fn is_changed_by_owner(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|reason| reason.is::<ChangedByOwner>())
}

/// Returns the task that identifies a replica of an extent's frame.
pub(crate) fn task_of(object: u64, extent: &Extent, replica: &Replica) -> Task {
    extent.task(object, replica.target)
}
