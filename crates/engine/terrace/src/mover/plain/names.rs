//! Names plain files as the keys of their objects say.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_catalog::{Catalog, Change, Edit, Expect, Extent, Object};
use terrace_tier::Whole;

use super::{is_owed, is_part, owe, plain_on, task};
use crate::Result;
use crate::devices::{Device, Tiers};
use crate::home::Locks;
use crate::place::Planning;
use crate::read::Reader;

/// The longest wait for another change of the names of plain files.
const MAX_NAMES_LOCK_WAIT: Duration = Duration::from_secs(1);
/// The number of keys that are read at a time.
const KEYS_PER_READ: usize = 256;

/// The state of an object's name among the plain files.
pub(crate) enum Naming {
    Settled,
    /// The object must become a file first.
    Awaited,
    Later,
}

/// Gives plain files the names of their objects. Needs no other part of the mover.
pub(crate) struct PlainNames {
    pub catalog: Arc<Catalog>,
    pub tiers: Arc<Tiers>,
    pub reader: Arc<Reader>,
    /// Knows the tiers whose targets have plain files.
    pub planning: Arc<Planning>,
    pub locks: Arc<Locks>,
}

impl PlainNames {
    /// Returns whether an object cannot become a plain file any more, because the owner of an adopted file has changed it. Reads the
    /// extents in such files only.
    fn is_never_whole(&self, device: &Device, found: Option<&(Object, Vec<Extent>)>) -> bool {
        let (Some((object, extents)), Some(files)) = (found, device.target.files()) else { return false };
        let is_linked = |extent: &&Extent| plain_on(extent, device).is_some_and(|file| files.is_linked(file));
        extents.iter().filter(is_linked).any(|extent| self.reader.is_changed_by_owner(object.id, extent))
    }

    /// Returns whether any tier has plain files.
    pub fn is_any(&self) -> bool {
        self.planning.rules.now().has_plain()
    }

    /// Makes the plain files of all targets match the keys of their objects.
    pub fn update_all(&self) -> Result<()> {
        if !self.is_any() {
            return Ok(());
        }
        self.tiers.devices.iter().try_for_each(|device| self.update_target(device))
    }

    /// Like [`PlainNames::update_all`], after a change. If it fails, the background thread does it later.
    pub fn try_update_all(&self) {
        if let Err(error) = self.update_all() {
            tracing::debug!(%error, "the names of plain files could not be updated; this is tried again");
        }
    }

    /// Makes the plain files of a target match the keys of their objects, unless another thread does so for long.
    pub fn update_target(&self, device: &Device) -> Result<()> {
        if self.catalog.unfollowed(device.id, &[], 1)?.is_empty() {
            return Ok(());
        }
        // Held because, of two threads that update the same name, the later one may have read an older state.
        let Some(_lock) = self.lock(device)? else { return Ok(()) };
        self.update_locked_target(device)
    }

    /// Like [`Self::update_target`], however long another thread does so.
    pub fn wait_and_update_target(&self, device: &Device) -> Result<()> {
        let _lock = self.wait_for_lock(device)?; // see `update_target`
        self.update_locked_target(device)
    }

    fn update_locked_target(&self, device: &Device) -> Result<()> {
        let mut after = Vec::new();
        loop {
            let keys = self.catalog.unfollowed(device.id, &after, KEYS_PER_READ)?;
            let Some((last, _)) = keys.last() else { return Ok(()) };
            after = last.clone();
            for (key, noted) in keys {
                match self.update(device, &key, &noted.files)? {
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
    /// [`Self::lock`].
    pub fn update(&self, device: &Device, key: &[u8], before: &[u64]) -> Result<Naming> {
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
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Naming::Settled),
            Err(error) => {
                // If another program's folder or link is in the way of one name, the target itself still works.
                let is_in_the_way = matches!(
                    error.kind(),
                    ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::DirectoryNotEmpty
                );
                if !is_in_the_way {
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
        Ok(extents.iter().any(|extent| plain_on(extent, device).is_some())
            || is_owed(&self.catalog, device, object, first)?)
    }

    /// Makes an object pending as a plain file, unless it is already.
    pub fn owe_file(&self, device: &Device, key: &[u8]) -> Result<()> {
        let Some((object, extents)) = self.catalog.locate(key, 0, u64::MAX)? else { return Ok(()) };
        let Some(first) = extents.first() else { return Ok(()) };
        if !is_owed(&self.catalog, device, &object, first)? {
            let expect = vec![Expect::Generation(key.to_vec(), object.generation)];
            let owed = owe(key, task(&object, first, device.id), first);
            match self.catalog.commit(Change { expect, edits: vec![owed] }) {
                // The object has changed, and its name will be updated again.
                Err(terrace_catalog::Error::Conflict { .. } | terrace_catalog::Error::NotFound { .. }) => {}
                owed => drop(owed?),
            }
        }
        Ok(())
    }

    /// Takes the lock for naming a target's plain files. None if another thread holds it for long: the mover tries again
    /// later.
    pub fn lock(&self, device: &Device) -> Result<Option<crate::Locked>> {
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
    pub fn wait_for_lock(&self, device: &Device) -> Result<crate::Locked> {
        self.locks.wait_for(&format!("names-{}", device.id))
    }

    /// Returns the object's plain file on a target, if it is complete, will stay, and is not at the object's key.
    pub fn find_misnamed(
        &self,
        device: &Device,
        key: &[u8],
        object: &Object,
        extents: &[Extent],
    ) -> Result<Option<Whole>> {
        let Some(whole) = whole(device, object, extents) else { return Ok(None) };
        for extent in extents {
            if is_owed(&self.catalog, device, object, extent)? {
                return Ok(None);
            }
        }
        let files = device.target.files();
        let is_misnamed = files.is_some_and(|files| files.is_named(key, &whole).is_ok_and(|named| !named));
        Ok(is_misnamed.then_some(whole))
    }
}

/// Returns the plain file on a target that holds all of an object's current bytes.
fn whole(device: &Device, object: &Object, extents: &[Extent]) -> Option<Whole> {
    let file = extents.first().and_then(|extent| plain_on(extent, device))?;
    let whole = extents.iter().all(|extent| !is_part(extent) && plain_on(extent, device) == Some(file));
    let (mode, mtime) = (object.attributes.mode, object.attributes.mtime);
    whole.then_some(Whole { file, length: object.length, mode, mtime })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::MAX_NAMES_LOCK_WAIT;
    use crate::config::Config;
    use crate::{Ack, PutOptions, Store};

    fn store_with_plain_files(dir: &Path) -> Store {
        let d = dir.display();
        let text = format!("[[tier]]\nname = 'pfs'\nkind = 'directory'\ntargets = ['{d}/pfs']\nlayout = 'plain'\n");
        let config = Config::parse(&text, "test").expect("a configuration");
        Store::init(&dir.join("store"), &config).expect("a store")
    }

    /// Such a target counted twice, so an extent with one replica passed for one with two.
    #[test]
    fn a_target_whose_frame_becomes_part_of_a_plain_file_counts_once() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = store_with_plain_files(dir.path());
        let engine = &store.engine;
        let _background = engine.locks.wait_for_mover().expect("the lock");
        let options = PutOptions { ack: Some(Ack::Placed), ..PutOptions::default() };
        store.put_bytes(b"a", &[7; 5000], &options).expect("puts");
        let (object, extents) = engine.catalog.locate(b"a", 0, u64::MAX).expect("looks").expect("an object");
        let target = extents[0].replicas[0].target;
        assert_eq!(engine.catalog.owed_to(&extents[0].task(object.id, 0)).expect("looks"), [target]);
        assert_eq!(engine.mover.targets_of(object.id, &extents[0]).expect("looks"), [target]);
    }

    /// A scrub waited a second for a thread that names many files, and then called those that it had not reached yet bad.
    #[test]
    fn a_file_that_another_thread_is_about_to_name_is_not_bad() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = store_with_plain_files(dir.path());
        let engine = &store.engine;
        let _background = engine.locks.wait_for_mover().expect("the lock");
        store.put_bytes(b"a", &[7; 5000], &PutOptions::default()).expect("puts");
        let other = engine.names.lock(&engine.tiers.devices[0]).expect("the lock");
        assert!(other.is_some() && engine.mover.make_all(None, true).expect("makes") > 0);
        let found = std::thread::scope(|scope| {
            let scrub = scope.spawn(|| store.scrub(b"", false, None, |_| {}));
            // Long enough for a scrub that does not wait for the other thread to end.
            std::thread::sleep(2 * MAX_NAMES_LOCK_WAIT);
            drop(other);
            scrub.join().expect("ends").expect("scrubs")
        });
        assert_eq!((found.bad, found.lost), (0, 0), "{found:?}");
        assert_eq!(std::fs::read(dir.path().join("pfs/files/a")).expect("a file"), [7; 5000]);
    }

    #[test]
    fn a_waiting_thread_finds_the_file_that_another_thread_made() {
        let dir = tempfile::tempdir().expect("a folder");
        let store = store_with_plain_files(dir.path());
        let engine = &store.engine;
        let _background = engine.locks.wait_for_mover().expect("the lock");
        store.put_bytes(b"a", &[7; 5000], &PutOptions::default()).expect("puts");
        let other = engine.names.lock(&engine.tiers.devices[0]).expect("the lock");
        assert!(other.is_some() && engine.mover.make_all(None, true).expect("makes") > 0);
        let file = dir.path().join("pfs/files/a");
        assert!(!file.exists() && engine.catalog.owed_count(None).expect("a count") == 0, "made, and not named yet");
        drop(other);
        store.make_durable(b"a").expect("waits");
        assert_eq!(std::fs::read(file).expect("a file"), [7; 5000]);
    }
}
