//! Plain files: each is made of a whole object at once, and is named, renamed and deleted as the object is.

mod names;

use std::time::Duration;

use terrace_catalog::{Catalog, Change, Edit, Expect, Extent, Kind, Object, Replica, Task};
use terrace_codec::Encoding;
use terrace_format::frame::{self, Identity, with_scratch};
use terrace_system::clock::unix_nanos;
use terrace_tier::PLAIN_SEGMENT_BIT;

use super::Mover;
use super::claimed::Claimed;
use crate::devices::Device;
use crate::report::TierState;
use crate::{Error, Result};

pub(crate) use names::{Naming, PlainNames};

/// An object becomes a plain file again after this time without a write.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// The longest plain file in bytes: ext4 takes no longer ones.
const MAX_PLAIN_FILE_BYTES: u64 = 1 << 43;
/// The number of replicas that one commit registers.
const REPLICAS_PER_COMMIT: usize = 1024;

impl Mover {
    /// Makes a pending plain file of an object. Returns the number of finished tasks, or none if the object cannot be an
    /// ordinary file: then its extents get replicas as frames.
    pub(super) fn make_plain(&self, device: &Device, object: u64, key: &[u8], at_once: bool) -> Result<Option<usize>> {
        let mut claimed = Claimed::none(self);
        if !claimed.claim(Task { object, frame_offset: u64::MAX, write: 0, target: device.id }) {
            return Ok(Some(0));
        }
        let found = self.catalog.locate(key, 0, u64::MAX)?.filter(|(named, _)| named.id == object);
        // A staged object must not be visible yet.
        let Some((object, extents)) = found else { return Ok(Some(0)) };
        if object.attributes.kind != Kind::File || object.length > MAX_PLAIN_FILE_BYTES {
            return Ok(None);
        }
        let mut owed = false;
        for extent in &extents {
            owed |= is_owed(&self.catalog, device, &object, extent)?;
        }
        if !owed || device.state() != TierState::Ok || !at_once && is_busy(device, &object, &extents) {
            return Ok(Some(0));
        }
        if extents.iter().any(is_part) {
            return self.merge_parts(key, &object, &extents).map(Some);
        }
        let made = self.write_plain(device, key, &object, &extents)?;
        self.names.update_target(device)?;
        Ok(Some(made))
    }

    /// Copies shared frames of an object into frames of its own, so that the object can be a plain file.
    pub(super) fn unshare(&self, key: &[u8]) -> Result<()> {
        if let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)?
            && extents.iter().any(|extent| extent.source.is_some())
        {
            self.merge_parts(key, &object, &extents)?;
        }
        Ok(())
    }

    /// Merges extents that newer writes have cut, or that are shared, into new extents.
    fn merge_parts(&self, key: &[u8], object: &Object, extents: &[Extent]) -> Result<usize> {
        let block = self.writer.block_bytes as u64;
        let mut rest = extents;
        let mut merged = 0;
        while let Some(first) = rest.first() {
            let joined = rest
                .windows(2)
                .take_while(|pair| pair[0].end() == pair[1].offset && pair[1].end() - first.offset <= block);
            let (run, others) = rest.split_at(1 + joined.count());
            rest = others;
            if run.iter().any(is_part) {
                if !self.merge(key, object, run)? {
                    return Ok(merged);
                }
                merged += run.len();
            }
        }
        Ok(merged)
    }

    /// Writes the whole object as a new plain file, and registers its replicas.
    fn write_plain(&self, device: &Device, key: &[u8], object: &Object, extents: &[Extent]) -> Result<usize> {
        let file = PLAIN_SEGMENT_BIT | self.catalog.next_id()?;
        let mut replicas = Vec::with_capacity(extents.len());
        for extent in extents {
            let Some(raw) = self.reader.read_frame(object.id, extent) else {
                // Reads and scrubs report lost bytes.
                device
                    .target
                    .discard(file)
                    .map_err(Error::io(format!("giving up a file on {}", device.path.display())))?;
                return match self.reader.is_changed_by_owner(object.id, extent) {
                    true => self.give_up_file(device, key, object, extents),
                    false => Ok(0),
                };
            };
            let replica = extent.replicas.len() as u8;
            let identity = Identity { object: object.id, write: extent.write, offset: extent.offset, replica };
            let written = with_scratch(|scratch| {
                let frame = frame::encode(identity, Encoding::NONE, &raw, scratch).map_err(std::io::Error::other)?;
                device.write_plain(file, &frame)
            });
            match written {
                Ok(place) => replicas.push(Replica {
                    target: device.id,
                    place,
                    stored: extent.raw_len,
                    encoding: Encoding::NONE,
                }),
                Err(e) => {
                    device.failed(&e);
                    // No commit names the file. If it cannot be removed now, the sweep of a later opening removes it.
                    let _ = device.target.discard(file);
                    return Ok(0);
                }
            }
        }
        terrace_system::fail::point("plain:written");
        let mut registered = false;
        for (extents, replicas) in extents.chunks(REPLICAS_PER_COMMIT).zip(replicas.chunks(REPLICAS_PER_COMMIT)) {
            let mut edits = Vec::with_capacity(2 * extents.len());
            for (extent, replica) in extents.iter().zip(replicas) {
                let task = task(object, extent, device.id);
                if !is_owed(&self.catalog, device, object, extent)? {
                    edits.push(owe(key, task, extent));
                }
                edits.push(Edit::Made { task, replica: *replica });
            }
            let expect = vec![Expect::Generation(key.to_vec(), object.generation)];
            match self.catalog.commit(Change { expect, edits }) {
                Ok(_) => registered = true,
                // The object has changed, and its new state is pending. The replicas of the old file that were registered
                // are dropped with that.
                Err(terrace_catalog::Error::Conflict { .. } | terrace_catalog::Error::NotFound { .. }) => {
                    if !registered {
                        let _ = device.target.discard(file);
                    }
                    return Ok(0);
                }
                Err(e) => return Err(e.into()),
            }
        }
        terrace_system::fail::point("plain:committed");
        Ok(replicas.len())
    }

    /// Removes the tasks of a plain file that can never be made. Returns their number.
    fn give_up_file(&self, device: &Device, key: &[u8], object: &Object, extents: &[Extent]) -> Result<usize> {
        let mut edits = Vec::new();
        for extent in extents {
            if is_owed(&self.catalog, device, object, extent)? {
                edits.push(Edit::Forgive { task: task(object, extent, device.id) });
            }
        }
        let (expect, given_up) = (vec![Expect::Generation(key.to_vec(), object.generation)], edits.len());
        match self.catalog.commit(Change { expect, edits }) {
            // The object has changed, and its new state is pending.
            Err(terrace_catalog::Error::Conflict { .. } | terrace_catalog::Error::NotFound { .. }) => Ok(0),
            committed => Ok(committed.map(|_| given_up)?),
        }
    }
}

/// Returns whether an extent's replica on a target is pending.
fn is_owed(catalog: &Catalog, device: &Device, object: &Object, extent: &Extent) -> Result<bool> {
    Ok(catalog.is_owed(&task(object, extent, device.id))?)
}

/// Returns whether an object that was a file, or consists of parts, was written to in the last moments.
fn is_busy(device: &Device, object: &Object, extents: &[Extent]) -> bool {
    let again = extents.iter().any(|e| is_part(e) || plain_on(e, device).is_some());
    let age = unix_nanos().saturating_sub(object.attributes.mtime);
    again && (0..QUIET_TIME.as_nanos() as i64).contains(&age)
}

/// Returns the plain file that holds a replica of an extent on a target.
fn plain_on(extent: &Extent, device: &Device) -> Option<u64> {
    let replica = extent.replicas.iter().find(|replica| replica.target == device.id && replica.place.is_plain())?;
    Some(replica.place.segment)
}

/// Returns whether an extent is only a part of its frame, because of newer writes, or a shared frame, which may be another
/// object's. A plain file can hold neither.
fn is_part(extent: &Extent) -> bool {
    extent.length != extent.raw_len || extent.source.is_some()
}

fn task(object: &Object, extent: &Extent, target: terrace_catalog::TargetId) -> Task {
    extent.task(object.id, target)
}

fn owe(key: &[u8], task: Task, extent: &Extent) -> Edit {
    Edit::Owe { task, key: serde_bytes::ByteBuf::from(key), raw_len: extent.raw_len, then_drop: None }
}
