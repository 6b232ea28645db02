//! Attempts: requests that conflict with concurrent commits start again.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::Error;

/// A request that conflicts with concurrent commits is attempted at least this often ...
const MIN_ATTEMPTS: usize = 1000;
/// ... and for at least this long: a long request can lose against many short ones for seconds, on a busy machine.
const MIN_PATIENCE: Duration = Duration::from_secs(10);
/// After this many failed attempts, a request holds `changing` exclusively, so that writers of this process cannot
/// conflict with it again.
pub const EXCLUSIVE_AFTER_ATTEMPTS: usize = 8;

/// Why an attempt failed.
#[derive(Debug)]
pub enum AttemptError {
    /// A concurrent commit changed the dataset. The caller loads its state again and retries.
    Changed,
    /// A part of a replica's file is unreadable.
    Damaged { file: usize, bytes: Range<u64>, why: String },
    /// A retry cannot succeed.
    Failed(Error),
}

pub type Attempt<T> = std::result::Result<T, AttemptError>;

impl<E: Into<Error>> From<E> for AttemptError {
    fn from(error: E) -> AttemptError {
        match error.into() {
            Error::Store(
                terrace::Error::Conflict { .. } | terrace::Error::NotFound { .. } | terrace::Error::Replaced { .. },
            ) => AttemptError::Changed,
            error => AttemptError::Failed(error),
        }
    }
}

/// Numbers of attempts, until a request that conflicts with concurrent commits gives up.
pub fn attempts() -> impl Iterator<Item = usize> {
    let begun = Instant::now();
    let goes_on = move |number: &usize| *number < MIN_ATTEMPTS || begun.elapsed() < MIN_PATIENCE;
    // Others get the processor first, or they could not finish what this waits for.
    let give_way = |number: &usize| {
        if *number > EXCLUSIVE_AFTER_ATTEMPTS {
            std::thread::yield_now()
        }
    };
    (0..).take_while(goes_on).inspect(give_way)
}
