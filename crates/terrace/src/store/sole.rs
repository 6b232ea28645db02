//! One copy of this library in a process may have a store open: two, as of a Python module and a preloaded library, would
//! undo each other's LMDB locks without a word.
//!
//! Each copy has its own statics; what they share is the process. So a copy takes an abstract socket name made of the
//! process and the store: nothing is left behind when it ends, and a forked child has a name of its own.

use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::Path;
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

use super::refuse;
use crate::Result;

/// The names that this copy of the library has taken.
static TAKEN: LazyLock<Mutex<HashMap<String, Weak<UnixDatagram>>>> = LazyLock::new(Mutex::default);

/// What a copy holds as long as it has a store open; none where the system has no such names.
pub type Sole = Option<Arc<UnixDatagram>>;

/// Takes the store in `dir` for this copy of the library.
pub fn sole(dir: &Path) -> Result<Sole> {
    let Some(name) = name(dir) else { return Ok(None) };
    let mut taken = TAKEN.lock();
    taken.retain(|_, held| held.strong_count() > 0);
    if let Some(held) = taken.get(&name).and_then(Weak::upgrade) {
        return Ok(Some(held));
    }
    match SocketAddr::from_abstract_name(&name).and_then(|address| UnixDatagram::bind_addr(&address)) {
        Ok(socket) => {
            let held = Arc::new(socket);
            taken.insert(name, Arc::downgrade(&held));
            Ok(Some(held))
        }
        Err(e) if e.kind() == ErrorKind::AddrInUse => Err(refuse(
            dir,
            "another copy of this library in this process has it open; close it there, or use one of them only",
        )),
        Err(_) => Ok(None),
    }
}

fn name(dir: &Path) -> Option<String> {
    let (dir, space) = (fs::metadata(dir).ok()?, fs::metadata("/proc/self/ns/pid").ok()?);
    Some(format!("terrace-{}-{}-{}-{}", std::process::id(), space.ino(), dir.dev(), dir.ino()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Config, Error, Store};

    #[test]
    fn a_second_copy_of_the_library_in_a_process_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("[[tier]]\nname = 't'\nkind = 'directory'\ntargets = ['{}/t']\n", dir.path().display());
        let home = dir.path().join("store");
        let store = Store::init(&home, &Config::parse(&text, "test").unwrap()).unwrap();
        // This copy may open it as often as it likes.
        drop(Store::open(&home).unwrap());
        drop(store);
        // What another copy does.
        let address = SocketAddr::from_abstract_name(name(&home).unwrap()).unwrap();
        let other = UnixDatagram::bind_addr(&address).unwrap();
        let refused = Store::open(&home).map(|_| ()).unwrap_err();
        assert!(matches!(&refused, Error::Store { reason, .. } if reason.contains("another copy")), "{refused}");
        drop(other);
        Store::open(&home).unwrap();
    }
}
