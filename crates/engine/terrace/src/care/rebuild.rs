//! Rebuilds the catalog by replaying the commit log.

use std::collections::HashSet;

use terrace_catalog::{Edit, Extent, Replica, Task};

use super::Care;
use super::lost::Later;
use super::survey::Survey;
use crate::Result;

/// A frame of all the store's: its object, its write, and where it begins.
pub(crate) type FrameId = (u64, (u64, u64));

pub(super) fn frame_of(task: &Task) -> FrameId {
    (task.object, (task.write, task.frame_offset))
}

/// The frame of an extent of an object.
pub(super) fn frame_in(object: u64, extent: &Extent) -> FrameId {
    frame_of(&extent.task(object, 0))
}

/// Fills a new catalog from the newest whole snapshot and the log after it. What was committed after the last sync
/// mark may have lost its bytes with the power: such extents are verified, and a commit with one that no replica holds
/// is left out, so that its object stays as it was before. Returns the frames that may lack a replica.
pub(super) fn replay(care: &Care) -> Result<HashSet<FrameId>> {
    tracing::info!(store = %care.journal.dir.display(), "making the catalog from the log");
    let log = care.catalog.log();
    if let Some(snapshot) = Survey::new(&care.journal.dir, &care.planning.rules.now(), log)?.mend_log(log)? {
        care.catalog.load_snapshot(&snapshot)?;
    }
    let mut marked = care.catalog.synced()?;
    let (mut later, mut writes) = (Later::new(care)?, Vec::new());
    log.replay(care.catalog.tail()?, |record| {
        for edit in record.commits.iter().flatten() {
            if let Edit::Synced { sequence } = edit {
                marked = *sequence;
            }
        }
        later.note(record, &mut writes)
    })?;
    writes.retain(|(sequence, _)| *sequence > marked);
    later.keep(writes);
    let (mut doubts, mut left_out) = (HashSet::new(), 0);
    let void = std::mem::take(&mut later.void);
    care.catalog.replay(&void, |sequence, edits, gone| {
        if sequence <= marked {
            return;
        }
        let left: Vec<(u32, &Edit)> = (0..).zip(edits).filter(|(place, _)| !gone.contains(place)).collect();
        let lost = later.lost(sequence, &left);
        left_out += usize::from(lost);
        gone.iter().filter_map(|place| edits.get(*place as usize)).for_each(|edit| later.note_outcome(edit, true));
        for (place, edit) in left {
            // What a lost replica was to stand in for stays. That of a removed object may have been given back already. A
            // shared frame outlives the object under which it was written.
            let made = |task: &Task, replica: &Replica| {
                care.holds_frame(frame_of(task), replica)
                    || later.is_removed(task.object, sequence) && !later.is_shared(task)
            };
            let is_void =
                lost || matches!(edit, Edit::Made { task, replica } if later.is_unnamed(task) || !made(task, replica));
            later.note_outcome(edit, is_void);
            if is_void {
                gone.push(place);
            } else {
                doubt(edit, &mut doubts);
            }
        }
    })?;
    if left_out > 0 {
        tracing::warn!(
            commits = left_out,
            "commits were undone, because the machine went down before their bytes were durable; their objects have the state from before, so write them again if needed"
        );
    }
    Ok(doubts)
}

fn doubt(edit: &Edit, frames: &mut HashSet<FrameId>) {
    if let Some((object, extents)) = edit.new_extents() {
        frames.extend(extents.iter().map(|new| frame_in(object, &new.extent)));
    }
    if let Edit::Made { task, .. } = edit {
        frames.insert(frame_of(task));
    }
}
