//! Syncs bytes before they take the place of others in a store that several nodes share.
//!
//! A commit of a shared log stays when a node loses power: other nodes have carried it out. If bytes that were not synced replaced bytes
//! that were, the loss would take both. In the store of one machine, such a commit is lost together with its bytes, and the older
//! ones are there again.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Weak};

use terrace_catalog::{Catalog, Change, Error, TargetId};

use crate::devices::Tiers;

/// Has each change that replaces bytes wait until the new ones are synced.
pub fn sync_before_replacing(catalog: &Catalog, tiers: &Arc<Tiers>) {
    // The targets hold the catalog.
    let tiers = Arc::downgrade(tiers);
    catalog.prepare_shared(move |catalog, changes| {
        Weak::upgrade(&tiers).map_or(Ok(()), |tiers| sync_replacing(&tiers, catalog, changes))
    });
}

fn sync_replacing(tiers: &Tiers, catalog: &Catalog, changes: &[&Change]) -> Result<(), Error> {
    let mut extents = Vec::new();
    for change in changes {
        extents.extend(catalog.find_replacing(change)?);
    }
    let lasts = |target| tiers.device(target).is_ok_and(|device| tiers.tier(device).persistent);
    let mut segments: BTreeMap<TargetId, BTreeSet<u64>> = BTreeMap::new();
    for replica in extents.iter().flat_map(|extent| &extent.replicas).filter(|replica| lasts(replica.target)) {
        segments.entry(replica.target).or_default().insert(replica.place.segment);
    }
    let (mut synced, mut last) = (HashSet::new(), None);
    for (target, segments) in segments {
        let Ok(device) = tiers.device(target) else { continue };
        let segments: Vec<u64> = segments.into_iter().collect();
        match device.target.sync(&segments) {
            Ok(()) => drop(synced.insert(target)),
            Err(error) => {
                device.failed(&error);
                last = Some(format!("syncing {}: {error}", device.path.display()));
            }
        }
    }
    // What is in memory only is lost with its node in any case.
    let is_safe = |extent: &terrace_catalog::Extent| {
        let mut lasting =
            extent.replicas.iter().map(|replica| replica.target).filter(|target| lasts(*target)).peekable();
        lasting.peek().is_none() || lasting.any(|target| synced.contains(&target))
    };
    match last.filter(|_| !extents.iter().all(is_safe)) {
        Some(reason) => Err(Error::SharedLog { reason: format!("{reason}; nothing was replaced, repeat it") }),
        None => Ok(()),
    }
}
