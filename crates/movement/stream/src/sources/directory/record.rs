//! Records of files that are durable at the destination and being removed, and the count of removed files.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use terrace::{Attributes, Store};

use super::Identity;
use crate::entry::FolderId;
use crate::owners::Claims;
use crate::request::{Name, escape, unescape};
use crate::{Error, Result};

const IDENTITY_FIELDS: [&str; 5] = ["device", "inode", "size", "modified", "changed"];
/// The folder that received the file. Version 0.1 did not record it.
const FOLDER_FIELDS: [&str; 3] = ["to device", "to inode", "to born"];

/// A file whose removal has begun.
pub struct Recorded {
    pub name: Name,
    pub identity: Identity,
    /// The folder that received it, for a destination that has folders.
    pub delivered_to: Option<FolderId>,
}

/// Records in the store: one for each delivered file that may still exist, and a counter of removed files.
pub struct Records {
    store: Store,
    claims: Arc<Claims>,

    folder: Vec<u8>,
    /// The key of the counter of removed files.
    tally: Vec<u8>,
}

impl Records {
    pub fn new(store: &Store, stream: &str, claims: &Arc<Claims>) -> Records {
        let escaped = escape(claims.root().as_os_str().as_bytes());
        let below = |what: &str| [format!(".terrace/streams/{stream}/{what}/").as_bytes(), &escaped].concat();
        let (folder, tally) = (below("safe"), below(TALLIES_FOLDER));
        Records { store: store.internal(), claims: claims.clone(), folder, tally }
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.folder, b"/".as_slice(), &escape(name)].concat()
    }

    pub fn add(&self, name: &Name, identity: Identity, delivered_to: Option<FolderId>) -> Result<()> {
        let Identity { device, inode, size, modified, changed } = identity;
        let values =
            [device.to_string(), inode.to_string(), size.to_string(), modified.to_string(), changed.to_string()];
        let mut user: BTreeMap<String, String> =
            IDENTITY_FIELDS.iter().map(|field| (*field).to_owned()).zip(values).collect();
        if let Some(FolderId { device, inode, born }) = delivered_to {
            let values = [device, inode, born].map(|number| number.to_string());
            user.extend(FOLDER_FIELDS.iter().map(|field| (*field).to_owned()).zip(values));
        }
        let mut batch = self.store.batch();
        batch.replace(&self.key(name), 0, Attributes { user, ..Attributes::now() })?;
        // Record the owner before the file is removed: otherwise a file of another directory could later overwrite the delivered one.
        self.claims.record(name, &mut batch)?;
        batch.commit()?;
        Ok(())
    }

    /// Cancels the removal of a file.
    pub fn remove(&self, name: &Name) -> Result<()> {
        Ok(self.store.remove(&self.key(name))?)
    }

    /// Records that the file was removed. The same commit updates the count, so that each file is counted once.
    pub fn finish(&self, name: &Name, bytes: u64) -> Result<()> {
        let mut tally = tally(&self.store, &self.tally)?;
        tally.files += 1;
        tally.bytes += bytes;
        let mut attributes = Attributes::now();
        attributes.user.insert(ATTRIBUTE_FILES.into(), tally.files.to_string());
        attributes.user.insert(ATTRIBUTE_BYTES.into(), tally.bytes.to_string());
        let mut batch = self.store.batch();
        batch.replace(&self.tally, 0, attributes)?;
        batch.remove(&self.key(name));
        batch.commit()?;
        Ok(())
    }

    pub fn all(&self) -> Result<Vec<Recorded>> {
        let mut all = Vec::new();
        for (key, object) in self.store.list(&self.folder, None, usize::MAX)? {
            let name = unescape(key.get(self.folder.len() + 1..).unwrap_or_default());
            let what = || format!("the record of the file {:?}", String::from_utf8_lossy(&name));
            let identity = read_identity(&object.attributes.user)
                .ok_or_else(|| Error::damaged(what(), "a number is missing or malformed"))?;
            let delivered_to = read_folder(&object.attributes.user);
            all.push(Recorded { name: name.into(), identity, delivered_to });
        }
        Ok(all)
    }
}

fn read_identity(user: &BTreeMap<String, String>) -> Option<Identity> {
    let [device, inode, size, modified, changed] = IDENTITY_FIELDS.map(|field| user.get(field));
    Some(Identity {
        device: device?.parse().ok()?,
        inode: inode?.parse().ok()?,
        size: size?.parse().ok()?,
        modified: modified?.parse().ok()?,
        // Version 0.1 did not record this field.
        changed: changed.map_or(Some(0), |text| text.parse().ok())?,
    })
}

fn read_folder(user: &BTreeMap<String, String>) -> Option<FolderId> {
    let [device, inode, born] = FOLDER_FIELDS.map(|field| user.get(field)?.parse().ok());
    Some(FolderId { device: device?, inode: inode?, born: born? })
}

/// The folder of the counters, below the stream's folder.
const TALLIES_FOLDER: &str = "files";
const ATTRIBUTE_FILES: &str = "files";
const ATTRIBUTE_BYTES: &str = "bytes";

/// The files that were delivered completely and removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The number of files.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
}

fn tally(store: &Store, key: &[u8]) -> Result<Tally> {
    match store.stat(key) {
        Ok(object) => Ok(read_tally(&object.attributes)),
        Err(terrace::Error::NotFound { .. }) => Ok(Tally::default()),
        Err(e) => Err(e.into()),
    }
}

fn read_tally(attributes: &Attributes) -> Tally {
    let number = |name: &str| attributes.user.get(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    Tally { files: number(ATTRIBUTE_FILES), bytes: number(ATTRIBUTE_BYTES) }
}

/// Returns the total over all directories of a stream.
pub fn all_tallies(store: &Store, stream: &str) -> Result<Tally> {
    let folder = format!(".terrace/streams/{stream}/{TALLIES_FOLDER}");
    let mut all = Tally::default();
    for (_, object) in store.list(folder.as_bytes(), None, usize::MAX)? {
        let Tally { files, bytes } = read_tally(&object.attributes);
        all.files += files;
        all.bytes += bytes;
    }
    Ok(all)
}
