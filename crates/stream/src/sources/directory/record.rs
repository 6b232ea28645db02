//! What of a watched directory is safe, and is being removed.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use terrace::{Attributes, Store};

use super::Identity;
use crate::request::{Name, escape, unescape};
use crate::{Error, Result};

const FIELDS: [&str; 4] = ["device", "inode", "size", "modified"];

/// A record in the catalog for each file that is safe and may still be there.
pub struct Records {
    store: Store,
    folder: Vec<u8>,
}

impl Records {
    pub fn new(store: &Store, stream: &str, root: &Path) -> Records {
        let folder =
            [format!(".terrace/streams/{stream}/safe/").as_bytes(), &escape(root.as_os_str().as_bytes())].concat();
        Records { store: store.clone(), folder }
    }

    fn key(&self, name: &[u8]) -> Vec<u8> {
        [&self.folder, b"/".as_slice(), &escape(name)].concat()
    }

    pub fn add(&self, name: &Name, identity: Identity) -> Result<()> {
        let Identity { device, inode, size, modified } = identity;
        let values = [device.to_string(), inode.to_string(), size.to_string(), modified.to_string()];
        let user = FIELDS.iter().map(|field| (*field).to_owned()).zip(values).collect();
        let mut batch = self.store.batch();
        batch.replace(&self.key(name), 0, Attributes { user, ..Attributes::now() })?;
        batch.commit()?;
        Ok(())
    }

    pub fn remove(&self, name: &Name) -> Result<()> {
        Ok(self.store.remove(&self.key(name))?)
    }

    pub fn all(&self) -> Result<Vec<(Name, Identity)>> {
        let mut all = Vec::new();
        for (key, object) in self.store.list(&self.folder, None, usize::MAX)? {
            let name = unescape(key.get(self.folder.len() + 1..).unwrap_or_default());
            let what = || format!("the record of the file {:?}", String::from_utf8_lossy(&name));
            let identity = read(&object.attributes.user).ok_or_else(|| Error::damaged(what(), "a number is none"))?;
            all.push((name.into(), identity));
        }
        Ok(all)
    }
}

fn read(user: &BTreeMap<String, String>) -> Option<Identity> {
    let [device, inode, size, modified] = FIELDS.map(|field| user.get(field));
    Some(Identity {
        device: device?.parse().ok()?,
        inode: inode?.parse().ok()?,
        size: size?.parse().ok()?,
        modified: modified?.parse().ok()?,
    })
}
