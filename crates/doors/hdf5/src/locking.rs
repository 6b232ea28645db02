//! Locks between processes, as HDF5 asks for them.

use std::env;
use std::fs::{File, TryLockError};

use crate::class::HdfId;
use crate::failure::{DriverError, DriverResult};
use crate::library::Library;

/// The variable that decides for all files of the process whether they are locked.
const LOCKING_VARIABLE: &str = "HDF5_USE_FILE_LOCKING";

/// Whether a file without support for locks is used without them: as the environment says, else as the file's access properties say.
pub fn ignores_missing_support(properties: HdfId) -> bool {
    match env::var(LOCKING_VARIABLE).as_deref() {
        Ok("BEST_EFFORT") => true,
        Ok("TRUE" | "1") => false,
        _ => Library::of_caller().and_then(|library| library.ignores_missing_locks(properties)).unwrap_or(false),
    }
}

/// Locks a file, or fails at once if another opening has it locked.
pub fn lock(file: &File, exclusively: bool) -> DriverResult<()> {
    let locked = if exclusively { file.try_lock() } else { file.try_lock_shared() };
    locked.map_err(|error| match error {
        TryLockError::WouldBlock => {
            DriverError::new(libc::EAGAIN, "another program, or part of this one, has it locked")
        }
        TryLockError::Error(error) => error.into(),
    })
}
