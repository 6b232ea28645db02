//! Plain files: each is made of a whole object at once, and is named, renamed and deleted as the object is.

use std::time::{Duration, Instant};

use terrace_catalog::{Change, Edit, Expect, Extent, Kind, Object, Replica, Task};
use terrace_codec::Encoding;
use terrace_format::frame::{self, Identity};
use terrace_system::clock::unix_nanos;
use terrace_tier::{PLAIN_SEGMENT_BIT, Whole};

use super::Mover;
use super::claimed::Claimed;
use crate::devices::{Device, with_scratch};
use crate::report::TierState;
use crate::{Error, Result};

/// An object becomes a plain file again after this time without a write.
const QUIET_TIME: Duration = Duration::from_secs(2);
/// The longest wait for another change of the names of plain files.
const MAX_NAMES_LOCK_WAIT: Duration = Duration::from_secs(1);
/// The longest plain file in bytes: ext4 takes no longer ones.
const MAX_PLAIN_FILE_BYTES: u64 = 1 << 43;
/// The number of replicas that one commit registers.
const REPLICAS_PER_COMMIT: usize = 1024;
/// The number of keys that are read at a time.
const KEYS_PER_LOOK: usize = 256;

/// The state of an object's name among the plain files.
pub(crate) enum Naming {
    Settled,
    /// The object must become a file first.
    Awaited,
    Later,
}

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
            owed |= self.is_owed(device, &object, extent)?;
        }
        if !owed || device.state() != TierState::Ok || !at_once && is_busy(device, &object, &extents) {
            return Ok(Some(0));
        }
        if extents.iter().any(is_part) {
            return self.merge_parts(key, &object, &extents).map(Some);
        }
        let made = self.write_plain(device, key, &object, &extents)?;
        self.follow(device)?;
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
        let block = self.writer.block as u64;
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
                if !self.is_owed(device, object, extent)? {
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
            if self.is_owed(device, object, extent)? {
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

    /// Returns whether an object cannot become a plain file any more, because the owner of an adopted file has changed it. Reads the
    /// extents in such files only.
    fn is_never_whole(&self, device: &Device, found: Option<&(Object, Vec<Extent>)>) -> bool {
        let (Some((object, extents)), Some(files)) = (found, device.target.files()) else { return false };
        let is_linked = |extent: &&Extent| plain_on(extent, device).is_some_and(|file| files.is_linked(file));
        extents.iter().filter(is_linked).any(|extent| self.reader.is_changed_by_owner(object.id, extent))
    }

    /// Makes the plain files of all targets match the keys of their objects.
    pub fn follow_all(&self) -> Result<()> {
        if !self.planning.rules.now().has_plain() {
            return Ok(());
        }
        self.tiers.devices.iter().try_for_each(|device| self.follow(device))
    }

    /// Makes the plain files of a target match the keys of their objects.
    pub fn follow(&self, device: &Device) -> Result<()> {
        let mut after = Vec::new();
        if self.catalog.unfollowed(device.id, &after, 1)?.is_empty() {
            return Ok(());
        }
        // Held because, of two threads that follow the same key, the later one may have read an older state.
        let Some(_lock) = self.names_lock(device)? else { return Ok(()) };
        loop {
            let keys = self.catalog.unfollowed(device.id, &after, KEYS_PER_LOOK)?;
            let Some((last, _)) = keys.last() else { return Ok(()) };
            after = last.clone();
            for (key, noted) in keys {
                match self.update_name(device, &key, &noted.files)? {
                    Naming::Settled => {
                        let followed = Edit::Followed { target: device.id, key, sequence: noted.sequence };
                        self.catalog.commit(followed.into())?;
                    }
                    // A truncated object is not pending yet.
                    Naming::Awaited => self.owe_file(device, &key)?,
                    Naming::Later => {}
                }
            }
        }
    }

    /// Makes the plain file at a key match the key's object, in place of one of the files `before`. The caller holds
    /// [`Self::names_lock`].
    pub fn update_name(&self, device: &Device, key: &[u8], before: &[u64]) -> Result<Naming> {
        let found = self.catalog.locate(key, 0, u64::MAX)?;
        let now = found.as_ref().and_then(|(object, extents)| whole(device, object, extents));
        // An object that will become a file soon keeps its old file until then.
        if now.is_none() && self.is_awaited(device, found.as_ref())? && !self.is_never_whole(device, found.as_ref()) {
            return Ok(Naming::Awaited);
        }
        let Some(files) = device.target.files() else { return Ok(Naming::Settled) };
        match files.set_name(key, now.as_ref(), before) {
            Ok(true) => Ok(Naming::Settled),
            Ok(false) => self.owe_file(device, key).map(|()| Naming::Later),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(Naming::Settled),
            Err(error) => {
                // If another program's folder or link is in the way of one name, the target itself still works.
                if error.kind() != std::io::ErrorKind::NotADirectory {
                    device.failed(&error);
                }
                tracing::debug!(key = %terrace_format::key::show(key), %error, "the plain file is not named yet");
                Ok(Naming::Later)
            }
        }
    }

    /// Returns whether part of an object is a plain file on a target, or is pending as one.
    fn is_awaited(&self, device: &Device, found: Option<&(Object, Vec<Extent>)>) -> Result<bool> {
        let Some((object, extents)) = found else { return Ok(false) };
        let Some(first) = extents.first() else { return Ok(false) };
        Ok(extents.iter().any(|extent| plain_on(extent, device).is_some()) || self.is_owed(device, object, first)?)
    }

    fn is_owed(&self, device: &Device, object: &Object, extent: &Extent) -> Result<bool> {
        Ok(self.catalog.is_owed(&task(object, extent, device.id))?)
    }

    /// Makes an object pending as a plain file, unless it is already.
    pub fn owe_file(&self, device: &Device, key: &[u8]) -> Result<()> {
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(()) };
        let Some(first) = extents.first() else { return Ok(()) };
        if !self.is_owed(device, &object, first)? {
            let expect = vec![Expect::Generation(key.to_vec(), object.generation)];
            let owed = owe(key, task(&object, first, device.id), first);
            match self.catalog.commit(Change { expect, edits: vec![owed] }) {
                // The object has changed, and will be followed again.
                Err(terrace_catalog::Error::Conflict { .. } | terrace_catalog::Error::NotFound { .. }) => {}
                owed => drop(owed?),
            }
        }
        Ok(())
    }

    /// Takes the lock for naming a target's plain files. None if another thread holds it for long: the mover tries again
    /// later.
    pub fn names_lock(&self, device: &Device) -> Result<Option<crate::Locked>> {
        let name = format!("names-{}", device.id);
        let begin = Instant::now();
        loop {
            let lock = self.locks.at_once(&name)?;
            if lock.is_some() || begin.elapsed() > MAX_NAMES_LOCK_WAIT {
                return Ok(lock);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for this lock without a limit.
    pub fn wait_for_names_lock(&self, device: &Device) -> Result<crate::Locked> {
        self.locks.wait_for(&format!("names-{}", device.id))
    }

    /// Returns the object's plain file on a target, if it is complete, will stay, and is not at the object's key.
    pub fn misnamed(&self, device: &Device, key: &[u8], object: &Object, extents: &[Extent]) -> Result<Option<Whole>> {
        let Some(whole) = whole(device, object, extents) else { return Ok(None) };
        for extent in extents {
            if self.is_owed(device, object, extent)? {
                return Ok(None);
            }
        }
        let files = device.target.files();
        let is_misnamed = files.is_some_and(|files| files.is_named(key, &whole).is_ok_and(|named| !named));
        Ok(is_misnamed.then_some(whole))
    }
}

/// Returns whether an object that was a file, or consists of parts, was written to in the last moments.
fn is_busy(device: &Device, object: &Object, extents: &[Extent]) -> bool {
    let again = extents.iter().any(|e| is_part(e) || plain_on(e, device).is_some());
    let age = unix_nanos().saturating_sub(object.attributes.mtime);
    again && (0..QUIET_TIME.as_nanos() as i64).contains(&age)
}

/// Returns the plain file on a target that holds all of an object's current bytes.
fn whole(device: &Device, object: &Object, extents: &[Extent]) -> Option<Whole> {
    let file = extents.first().and_then(|extent| plain_on(extent, device))?;
    let whole = extents.iter().all(|extent| !is_part(extent) && plain_on(extent, device) == Some(file));
    let (mode, mtime) = (object.attributes.mode, object.attributes.mtime);
    whole.then_some(Whole { file, length: object.length, mode, mtime })
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

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::{PutOptions, Store};

    #[test]
    fn a_waiting_thread_finds_the_file_that_another_thread_made() {
        let dir = tempfile::tempdir().expect("a folder");
        let d = dir.path().display();
        let text = format!("[[tier]]\nname = 'pfs'\nkind = 'directory'\ntargets = ['{d}/pfs']\nlayout = 'plain'\n");
        let config = Config::parse(&text, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let engine = &store.engine;
        let _background = engine.locks.wait_for_mover().expect("the lock");
        store.put_bytes(b"a", &[7; 5000], &PutOptions::default()).expect("puts");
        let other = engine.mover.names_lock(&engine.tiers.devices[0]).expect("the lock");
        assert!(other.is_some() && engine.mover.make_all(None, true).expect("makes") > 0);
        let file = dir.path().join("pfs/files/a");
        assert!(!file.exists() && engine.catalog.owed_count(None).expect("a count") == 0, "made, and not named yet");
        drop(other);
        store.make_durable(b"a").expect("waits");
        assert_eq!(std::fs::read(file).expect("a file"), [7; 5000]);
    }
}
