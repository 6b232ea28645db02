//! Making the catalog anew by replaying the commit log.

use std::collections::HashSet;
use std::path::Path;

use crate::catalog::{Edit, Extent, NewExtent};
use crate::config::TierKind;
use crate::read::read_replica;
use crate::store::Inner;
use crate::{Error, Result};

/// Fills a new catalog from the log. What was committed after the last sync mark may have lost its bytes with the
/// power: such extents are verified, and a commit with one that no replica holds is left out, so that its object
/// stays as it was before.
pub(crate) fn replay(inner: &Inner) -> Result<()> {
    fetch_log(inner)?;
    let log = inner.catalog.log();
    let mut marked = 0;
    let start = crate::log::Tail { file: 1, ..Default::default() };
    log.replay(start, |record| {
        for edit in record.commits.iter().flatten() {
            if let Edit::Synced { sequence } = edit {
                marked = *sequence;
            }
        }
        Ok(())
    })?;
    let mut broken: HashSet<u64> = HashSet::new();
    inner.catalog.replay(|sequence, edits| {
        if sequence > marked && edits.iter().any(|edit| lost(inner, edit, &mut broken)) {
            edits.clear();
        }
    })?;
    Ok(())
}

/// Whether an edit names bytes that no target holds any more.
fn lost(inner: &Inner, edit: &Edit, broken: &mut HashSet<u64>) -> bool {
    let (object, extents) = match edit {
        Edit::Stage { object, extents, .. }
        | Edit::Put { object, extents, .. }
        | Edit::Write { object, extents, .. } => (*object, extents),
        _ => return false,
    };
    let gone = |new: &NewExtent| !readable(inner, object, &new.extent);
    let lost = broken.contains(&object) || extents.iter().any(gone);
    // A `put` whose staged extents were left out must be left out with them; a range write stands alone.
    if lost && matches!(edit, Edit::Stage { .. }) {
        broken.insert(object);
    }
    lost
}

fn readable(inner: &Inner, object: u64, extent: &Extent) -> bool {
    let mut raw = vec![0; extent.raw_len as usize];
    extent.replicas.iter().any(|replica| {
        let device = inner.tiers.device(replica.target);
        device.is_ok_and(|d| read_replica(inner, d, object, extent, replica, 0, &mut raw).is_ok())
    })
}

/// Where the store's own log is gone, takes the longest copy that a persistent target holds.
fn fetch_log(inner: &Inner) -> Result<()> {
    let log = inner.catalog.log();
    if bytes_in(log.folder()) > 0 {
        return Ok(());
    }
    let mut copies: Vec<_> = inner
        .tiers
        .devices
        .iter()
        .filter(|d| inner.config.tiers[d.tier].kind == TierKind::Directory)
        .map(|d| d.path.join("log"))
        .collect();
    copies.sort_by_key(|folder| bytes_in(folder));
    let Some(longest) = copies.pop().filter(|folder| bytes_in(folder) > 0) else { return Ok(()) };
    let copy = || -> std::io::Result<()> {
        for entry in std::fs::read_dir(&longest)? {
            let entry = entry?;
            std::fs::copy(entry.path(), log.folder().join(entry.file_name()))?;
        }
        Ok(())
    };
    copy().map_err(Error::io(format!("copying the log from {}", longest.display())))
}

fn bytes_in(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).map(|m| m.len()).sum()
}
