//! Care of the store: recovery, scrubs, sweeps, and rebuilding the catalog or the log.

mod frame_id;
mod lost;
mod moved;
mod names;
mod rebuild;
mod recover;
mod restart;
mod salvage;
mod schedule;
mod scrub;
mod service_copies;
mod survey;
mod sweep;

use std::sync::Arc;

use terrace_catalog::Catalog;

use crate::devices::Tiers;
use crate::home::Locks;
use crate::journal::Journal;
use crate::mover::Mover;
use crate::place::Planning;
use crate::read::Reader;

pub(crate) use service_copies::{ServiceCopy, find_parted, remove_fetched};
pub(crate) use survey::{Survey, describe_older_directory, describe_parted};

/// Compares the catalog, the log and the targets with each other, and repairs differences.
pub(crate) struct Care {
    pub catalog: Arc<Catalog>,
    pub tiers: Arc<Tiers>,
    pub reader: Arc<Reader>,
    pub planning: Arc<Planning>,
    pub journal: Arc<Journal>,
    pub mover: Arc<Mover>,
    pub locks: Arc<Locks>,
}
