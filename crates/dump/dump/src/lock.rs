//! Locks against concurrent work on a dump. Two jobs that dump the same name at once would remove each other's chunks,
//! and so would `gc` during a dump or a restore.
//!
//! For each name, four files in the store's directory are locked with `flock`. The system releases the locks when a
//! process ends, even if it is killed.
//!
//! - `turn`: exclusive, held by the leading rank of each node during a dump, and by `gc`.
//! - `ranks`: shared, held by each rank of a dump. A rank may outlive the leading rank of its node; without this lock,
//!   its late writes would mix with those of the next dump.
//! - `readers`: shared, held by each rank of a restore or of a flow.
//! - `flow`: exclusive, held by the leading rank of each node during a flow.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use terrace::{Locked, Store};

use crate::chunk::Hash;
use crate::transport::{World, agree};
use crate::{Error, Result};

/// Locks that are held until this value is dropped.
#[derive(Default)]
pub struct Locks {
    _held: Vec<Locked>,
}

/// Returns the path of a lock file. It contains a hash of the name, since a name with a suffix may exceed the limit of
/// a file name.
fn lock_path(store: &Store, name: &str, what: &str) -> PathBuf {
    store.dir().join("dumps").join(format!("{:016x}.{what}", Hash::of(name.as_bytes()).number()))
}

fn open_lock_file(store: &Store, name: &str, what: &str) -> io::Result<File> {
    let path = lock_path(store, name, what);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::options().create(true).truncate(false).write(true).open(path)
}

fn lock_error(store: &Store, name: &str, what: &str, cause: &io::Error) -> Error {
    Error::Refused(format!("locking {}: {cause}", lock_path(store, name, what).display()))
}

/// Locks a file exclusively.
///
/// # Errors
/// [`Error::Refused`] if another process holds the lock; `who` describes that process in the message.
fn lock_exclusively(store: &Store, name: &str, what: &str, who: &str) -> Result<Locked> {
    let locked =
        open_lock_file(store, name, what).and_then(Locked::at_once).map_err(|e| lock_error(store, name, what, &e))?;
    locked.ok_or_else(|| {
        Error::Refused(format!("{who} dump {name:?} in {}; wait until that ends", store.dir().display()))
    })
}

fn lock_readers(store: &Store, name: &str) -> Result<Locked> {
    lock_exclusively(store, name, "readers", "a job restores or copies")
}

impl Locks {
    /// Takes the locks of a dump, on all nodes or on none. Collective.
    ///
    /// # Errors
    /// [`Error::Refused`] if another job dumps the same name to one of the stores, or `gc` runs there.
    pub fn for_dump(world: &dyn World, store: &Store, name: &str) -> Result<Locks> {
        let lead = || {
            let turn = lock_exclusively(store, name, "turn", "another job, or gc, works on")?;
            // No other dump can begin while this rank holds `turn`. Taking `ranks` exclusively for a moment detects
            // ranks of an earlier dump that outlived their leading rank.
            drop(lock_exclusively(store, name, "ranks", "ranks of a job that failed are still at")?);
            Ok(vec![turn])
        };
        let mut locks = agree(world, if world.leads() { lead() } else { Ok(Vec::new()) })?;
        let shared = open_lock_file(store, name, "ranks").and_then(Locked::share);
        locks.push(agree(world, shared.map_err(|e| lock_error(store, name, "ranks", &e)))?);
        Ok(Locks { _held: locks })
    }

    /// Takes the locks of a flow, on all nodes or on none. Collective. Waits until a running `gc` ends.
    ///
    /// # Errors
    /// [`Error::Refused`] if another job lets the same name flow from one of the stores.
    pub fn for_flow(world: &dyn World, store: &Store, name: &str) -> Result<Locks> {
        let lead = || Ok(vec![lock_exclusively(store, name, "flow", "another job copies")?]);
        let mut locks = agree(world, if world.leads() { lead() } else { Ok(Vec::new()) })?;
        let shared = open_lock_file(store, name, "readers").and_then(Locked::share);
        locks.push(agree(world, shared.map_err(|e| lock_error(store, name, "readers", &e)))?);
        Ok(Locks { _held: locks })
    }

    /// Takes the locks of `gc`.
    ///
    /// # Errors
    /// [`Error::Refused`] while the name is dumped or restored, or another `gc` runs.
    pub fn for_gc(store: &Store, name: &str) -> Result<Locks> {
        let turn = lock_exclusively(store, name, "turn", "a job, or another gc, works on")?;
        let ranks = lock_exclusively(store, name, "ranks", "ranks of a job that failed are still at")?;
        let readers = lock_readers(store, name)?;
        Ok(Locks { _held: vec![turn, ranks, readers] })
    }

    /// Takes the lock that a job which dumps needs besides its own to drop versions.
    ///
    /// # Errors
    /// [`Error::Refused`] while the name is restored.
    pub fn for_drop(store: &Store, name: &str) -> Result<Locks> {
        Ok(Locks { _held: vec![lock_readers(store, name)?] })
    }

    /// Takes the lock of a restore. Waits until a running `gc` ends.
    pub fn for_restore(store: &Store, name: &str) -> Locks {
        match open_lock_file(store, name, "readers").and_then(Locked::share) {
            Ok(readers) => Locks { _held: vec![readers] },
            Err(error) => {
                // Ignoring the error allows a restore from a store that this process cannot write to. Without the lock,
                // the restore does not exclude a `gc` by a process that can.
                tracing::debug!(%error, "restoring without a lock");
                Locks::default()
            }
        }
    }
}
