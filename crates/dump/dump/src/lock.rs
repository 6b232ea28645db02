//! Who works on a dump: two jobs that dump the same name at once would remove each other's chunks, and so would `gc` beside a dump or a
//! restore.
//!
//! Three files in the store's directory are locked (`flock`) for each name. The system unlocks them when a process ends, however it does.
//!
//! - `turn`: alone, by the rank that leads its node in a dump, and by `gc`.
//! - `ranks`: shared, by each rank of a dump. It may outlive the leading rank, and what it still writes would be taken for the next dump's.
//! - `readers`: shared, by each rank of a restore.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use terrace::{Locked, Store};

use crate::chunk::Hash;
use crate::transport::{World, agree};
use crate::{Error, Result};

/// Locks that are held until this is dropped.
#[derive(Default)]
pub struct Locks {
    _held: Vec<Locked>,
}

/// The file that is locked. A name may be as long as a file's name can be, so its hash stands for it.
fn path(store: &Store, name: &str, what: &str) -> PathBuf {
    store.dir().join("dumps").join(format!("{:016x}.{what}", Hash::of(name.as_bytes()).number()))
}

fn open(store: &Store, name: &str, what: &str) -> io::Result<File> {
    let path = path(store, name, what);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::options().create(true).truncate(false).write(true).open(path)
}

fn cannot(store: &Store, name: &str, what: &str, cause: &io::Error) -> Error {
    Error::Refused(format!("locking {}: {cause}", path(store, name, what).display()))
}

/// Locks a file alone.
///
/// # Errors
/// [`Error::Refused`] where others have it locked: `who` says who they are.
fn alone(store: &Store, name: &str, what: &str, who: &str) -> Result<Locked> {
    let locked = open(store, name, what).and_then(Locked::at_once).map_err(|e| cannot(store, name, what, &e))?;
    locked.ok_or_else(|| {
        Error::Refused(format!("{who} dump {name:?} in {}; wait until that ends", store.dir().display()))
    })
}

impl Locks {
    /// For a dump, on all nodes or on none. Collective.
    ///
    /// # Errors
    /// [`Error::Refused`] where another job dumps the same name to one of the stores, or `gc` runs there.
    pub fn for_dump(world: &dyn World, store: &Store, name: &str) -> Result<Locks> {
        let lead = || {
            let turn = alone(store, name, "turn", "another job, or gc, works on")?;
            // Nobody begins a dump while this rank has the turn; this sees ranks that have outlived theirs.
            drop(alone(store, name, "ranks", "ranks of a job that failed are still at")?);
            Ok(vec![turn])
        };
        let mut locks = agree(world, if world.leads() { lead() } else { Ok(Vec::new()) })?;
        let shared = open(store, name, "ranks").and_then(Locked::share);
        locks.push(agree(world, shared.map_err(|e| cannot(store, name, "ranks", &e)))?);
        Ok(Locks { _held: locks })
    }

    /// For `gc`.
    ///
    /// # Errors
    /// [`Error::Refused`] while the name is dumped or restored, or another `gc` runs.
    pub fn for_gc(store: &Store, name: &str) -> Result<Locks> {
        let turn = alone(store, name, "turn", "a job, or another gc, works on")?;
        let ranks = alone(store, name, "ranks", "ranks of a job that failed are still at")?;
        let readers = alone(store, name, "readers", "a job restores")?;
        Ok(Locks { _held: vec![turn, ranks, readers] })
    }

    /// For a restore, which waits for `gc`.
    pub fn for_restore(store: &Store, name: &str) -> Locks {
        match open(store, name, "readers").and_then(Locked::share) {
            Ok(readers) => Locks { _held: vec![readers] },
            Err(error) => {
                // A store that cannot be written to can be restored from; only `gc` beside that is not noticed.
                tracing::debug!(%error, "restoring without a lock");
                Locks::default()
            }
        }
    }
}
