//! Making the catalog anew by replaying the commit log.

use std::collections::HashSet;
use std::path::Path;

use super::lost::Later;
use crate::catalog::{Edit, Replica, Task, snapshot_tail};
use crate::log::{self, Log, Tail};
use crate::store::Inner;
use crate::{Error, Result};

/// A frame of all the store's: its object, its write, and where it begins.
pub(crate) type FrameId = (u64, (u64, u64));

pub(super) fn frame_of(task: &Task) -> FrameId {
    (task.object, (task.write, task.frame_offset))
}

/// Fills a new catalog from the newest whole snapshot and the log after it. What was committed after the last sync
/// mark may have lost its bytes with the power: such extents are verified, and a commit with one that no replica holds
/// is left out, so that its object stays as it was before. Frames of which some replica may be gone are given back.
pub(crate) fn replay(inner: &Inner) -> Result<HashSet<FrameId>> {
    tracing::info!(store = %inner.dir.display(), "making the catalog anew from the log");
    fetch_log(inner)?;
    let log = inner.catalog.log();
    for sequence in snapshots(log.folder())?.into_iter().rev() {
        if inner.catalog.load_snapshot(&log::snapshot(log.folder(), sequence))? {
            break;
        }
    }
    let mut marked = inner.catalog.synced()?;
    let (mut later, mut writes) = (Later::new(inner), Vec::new());
    log.replay(inner.catalog.tail()?, |record| {
        for edit in record.commits.iter().flatten() {
            if let Edit::Synced { sequence } = edit {
                marked = *sequence;
            }
        }
        later.note(record, &mut writes)
    })?;
    writes.retain(|(sequence, _)| *sequence > marked);
    later.keep(writes);
    let mut doubts = HashSet::new();
    let void = std::mem::take(&mut later.void);
    inner.catalog.replay(&void, |sequence, edits, gone| {
        if sequence <= marked {
            return;
        }
        let left: Vec<(u32, &Edit)> = (0..).zip(edits).filter(|(place, _)| !gone.contains(place)).collect();
        let lost = later.lost(sequence, &left);
        for (place, edit) in left {
            // What a lost replica was to stand in for stays.
            let made = |task: &Task, replica: &Replica| inner.holds_frame(frame_of(task), replica);
            if lost || matches!(edit, Edit::Made { task, replica } if !made(task, replica)) {
                gone.push(place);
            } else {
                doubt(edit, &mut doubts);
            }
        }
    })?;
    Ok(doubts)
}

fn doubt(edit: &Edit, frames: &mut HashSet<FrameId>) {
    match edit {
        Edit::Stage { object, extents, .. }
        | Edit::Put { object, extents, .. }
        | Edit::Write { object, extents, .. }
        | Edit::Merge { object, extents, .. } => frames.extend(extents.iter().map(|new| (*object, new.extent.frame()))),
        Edit::Made { task, .. } => {
            frames.insert(frame_of(task));
        }
        _ => {}
    }
}

fn snapshots(folder: &Path) -> Result<Vec<u64>> {
    log::snapshots(folder).map_err(Error::io(format!("listing {}", folder.display())))
}

/// Where a copy of the log, on a persistent target, goes on where the store's own is gone or damaged, takes that.
fn fetch_log(inner: &Inner) -> Result<()> {
    let log = inner.catalog.log();
    let mut furthest = (end(log, log.folder())?, log.folder().to_owned());
    for device in inner.log_copies() {
        let folder = device.path.join("log");
        // A target that cannot be read has no say.
        if let Ok(end) = end(log, &folder)
            && end > furthest.0
        {
            furthest = (end, folder);
        }
    }
    if furthest.1 == log.folder() {
        return Ok(());
    }
    let copy = || -> std::io::Result<()> {
        for entry in std::fs::read_dir(&furthest.1)? {
            let entry = entry?;
            std::fs::copy(entry.path(), log.folder().join(entry.file_name()))?;
        }
        Ok(())
    };
    copy().map_err(Error::io(format!("copying the log from {}", furthest.1.display())))
}

/// The last sequence that the log in a folder leads to: from its newest whole snapshot, or from the beginning.
fn end(log: &Log, folder: &Path) -> Result<u64> {
    for sequence in snapshots(folder)?.into_iter().rev() {
        if let Some(tail) = snapshot_tail(&log::snapshot(folder, sequence), log.store())? {
            return Ok(log.replay_in(folder, tail, |_| Ok(()))?.sequence);
        }
    }
    Ok(log.replay_in(folder, Tail { file: 1, ..Tail::default() }, |_| Ok(()))?.sequence)
}
