//! Rebuilds the catalog by replaying the commit log.

use std::collections::{BTreeMap, HashSet};

use terrace_catalog::{Edit, Replica, Task};

use super::Care;
use super::frame_id::{FrameId, frame_in, frame_of};
use super::lost::{Doubtful, Later};
use super::survey::Survey;
use crate::Result;
use crate::home::boot;

/// Fills a new catalog from the newest whole snapshot and the log after it. A power cut may have destroyed the bytes of
/// commits after the last sync mark. So their extents are verified, and a commit is left out if it names an extent without a
/// replica: its object then stays as it was before. Returns the frames that may lack a replica.
pub(super) fn replay(care: &Care) -> Result<HashSet<FrameId>> {
    tracing::info!(store = %care.journal.dir.display(), "making the catalog from the log");
    let log = care.catalog.log();
    if let Some(snapshot) = Survey::new(&care.journal.dir, &care.planning.rules.now(), log)?.mend_log(log)? {
        care.catalog.load_snapshot(&snapshot)?;
    }
    let may_be_cut = boot::read_mark(&care.journal.dir)?.was_cut_off();
    let mut marked = care.catalog.synced()?;
    let (mut later, mut doubtful) = (Later::new(care)?, Vec::new());
    log.replay(care.catalog.tail()?, |record| {
        for edit in record.commits.iter().flatten() {
            if let Edit::Synced { sequence } = edit {
                marked = *sequence;
            }
        }
        later.note(record, &mut doubtful)
    })?;
    doubtful.retain(|commit: &Doubtful| commit.sequence > marked);
    later.keep(doubtful);
    let (mut doubts, mut left_out, mut left_away) = (HashSet::new(), 0, BTreeMap::new());
    let void = std::mem::take(&mut later.void);
    care.catalog.replay(&void, |sequence, edits, gone| {
        if sequence <= marked {
            return;
        }
        let left: Vec<(u32, &Edit)> = (0..).zip(edits).filter(|(place, _)| !gone.contains(place)).collect();
        let mut lost = later.lost(sequence, left.iter().map(|(_, edit)| *edit));
        if let Some(target) = left.iter().filter(|_| lost).find_map(|(_, edit)| later.unanswered(edit)) {
            // Without a power cut, the target has what was written to it.
            lost = may_be_cut;
            if lost {
                *left_away.entry(target).or_insert(0_u64) += 1;
            }
        }
        left_out += usize::from(lost);
        gone.iter().filter_map(|place| edits.get(*place as usize)).for_each(|edit| later.note_outcome(edit, true));
        for (place, edit) in left {
            // If a new replica is lost, the one that it replaces stays. The space of a removed object's replicas may have
            // been freed already, so their absence is no loss.
            let made = |task: &Task, replica: &Replica| {
                care.holds_frame(frame_of(task), replica) || later.is_removed(task, sequence)
            };
            let is_void = lost
                || later.is_of_undone(edit)
                || matches!(edit, Edit::Made { task, replica } if later.is_unnamed(task) || !made(task, replica));
            later.note_outcome(edit, is_void);
            if is_void {
                gone.push(place);
            } else {
                add_frames_in_doubt(edit, &mut doubts);
            }
        }
    })?;
    if left_out > 0 {
        tracing::warn!(
            commits = left_out,
            "commits were undone, because the machine went down before their bytes were durable; their objects have the state from before, so write them again if needed"
        );
    }
    for (target, commits) in left_away {
        let device = care.tiers.device(target)?;
        tracing::warn!(
            commits,
            target = %device.path.display(),
            "commits were undone because this target is away and nothing shows that it had their bytes when the machine went down; they stay undone when it comes back"
        );
    }
    Ok(doubts)
}

/// Adds the frames of the replicas that an edit brings: they may be missing.
fn add_frames_in_doubt(edit: &Edit, frames: &mut HashSet<FrameId>) {
    if let Some((object, extents)) = edit.new_extents() {
        frames.extend(extents.iter().map(|new| frame_in(object, &new.extent)));
    }
    if let Edit::Made { task, .. } = edit {
        frames.insert(frame_of(task));
    }
}
