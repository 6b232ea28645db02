//! Saves a store that several nodes share where it outlives them: what is on one tier, and the catalog as a file.

use std::path::Path;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use terrace_catalog::log::Log;
use terrace_catalog::{Catalog, TargetId, frames};
use terrace_format::key;
use terrace_member::SnapshotFolder;

use super::Store;
use super::shared_node::{SharedNode, of_log};
use crate::config::SharedConfig;
use crate::home::{self, check_identity, lock_store};
use crate::report::Moved;
use crate::{Error, Result};

/// A catalog in a file, from which a store goes on.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedCatalog {
    /// The number of the store.
    pub store: u64,
    /// The name of the file in its folder.
    pub file: String,
    /// The last commit that it certainly has.
    pub sequence: u64,
}

/// An object with bytes that are on no target of a tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsaved {
    /// Its key, printed lossily.
    pub key: String,
    /// The number of these bytes.
    pub bytes: u64,
}

impl Store {
    /// Copies to a tier what has no replica there: with a `node`, the extents whose first readable replica is on it, and otherwise all.
    /// What is read most comes first. Nothing is begun after `until`.
    ///
    /// # Errors
    /// If there is no such tier, or the log does not answer.
    pub fn save_to(&self, tier: &str, node: Option<&str>, until: Option<Instant>) -> Result<Moved> {
        self.engine.mover.save(tier, node, until)
    }

    /// Writes the catalog into a file of this folder, durably, for a store that goes on from there.
    ///
    /// # Errors
    /// If the folder takes none.
    pub fn save_catalog(&self, folder: &Path) -> Result<SavedCatalog> {
        let node = self.node()?.ok_or_else(|| home::refuse(self.dir(), "no other node shares this store"))?;
        save(&self.engine.catalog, folder, &node)
    }
}

impl SharedNode {
    /// Writes the catalog of the node in `dir`, which has ended, into a file of this folder, durably. Returns also the objects that have
    /// bytes on no target of `tier`.
    ///
    /// # Errors
    /// If the node runs, or the folder takes no file.
    pub fn save_ended(dir: &Path, folder: &Path, tier: &str) -> Result<(SavedCatalog, Vec<Unsaved>)> {
        let (id, _lock) = (check_identity(dir)?, lock_store(dir)?);
        let cluster = home::Cluster::read(dir)?.ok_or_else(|| home::refuse(dir, "no other node shares this store"))?;
        let catalog = Catalog::open(&dir.join("catalog"), Log::open(&dir.join("log"), id)?)?;
        let config = SharedConfig::read(&catalog)?.ok_or_else(|| home::refuse(dir, "the log has no configuration"))?;
        let tiers = config.parse()?.tiers;
        let safe = tiers.iter().filter(|known| known.name == tier).flat_map(|tier| &tier.targets);
        let safe: Vec<TargetId> = safe.filter_map(|target| target.number).collect();
        Ok((save(&catalog, folder, &cluster.node)?, find_unsaved(&catalog, &safe)?))
    }
}

fn save(catalog: &Catalog, folder: &Path, node: &str) -> Result<SavedCatalog> {
    let folder = SnapshotFolder::new(folder).map_err(Error::io(format!("making {}", folder.display())))?;
    // Before the file is written, which has all up to here.
    let sequence = catalog.tail()?.sequence;
    let written = folder.write(catalog, node).map_err(of_log)?;
    Ok(SavedCatalog { store: catalog.log().store(), file: written.place, sequence })
}

/// Returns the objects that have bytes on none of these targets.
fn find_unsaved(catalog: &Catalog, safe: &[TargetId]) -> Result<Vec<Unsaved>> {
    let mut found = Vec::new();
    catalog.each_object(b"", |key, _, extents| {
        let is_unsafe = |extent: &&terrace_catalog::Extent| !extent.replicas.iter().any(|r| safe.contains(&r.target));
        let bytes: u64 = frames(extents).filter(is_unsafe).map(|extent| u64::from(extent.length)).sum();
        if bytes > 0 {
            found.push(Unsaved { key: key::show(key), bytes });
        }
        Ok::<_, Error>(true)
    })?;
    Ok(found)
}
