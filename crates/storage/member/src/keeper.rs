//! The keeper's work, which one node does for all. If two do it, no harm is done: the catalog checks each step.

use std::time::{Duration, Instant};

use terrace_format::Step;

use crate::error::Result;
use crate::state::Shared;

pub fn keep(shared: &Shared, grace: Duration) -> Result<bool> {
    let incarnation = shared.state.lock().proposer.as_ref().map(|proposer| proposer.incarnation());
    let Some(incarnation) = incarnation else { return Ok(false) };
    if !shared.order.keep(incarnation)? {
        return Ok(false);
    }
    // Read before the fences: an incarnation that joins in between is in neither.
    let members = shared.catalog.members()?;
    let fences = shared.order.fences()?;
    let gone = members.iter().map(|(incarnation, _)| *incarnation).filter(|i| !fences.values().any(|fence| fence == i));
    let reported = members.iter().map(|(_, member)| member.reported);
    let synced = shared
        .catalog
        .all_served()?
        .into_iter()
        .filter(|(_, served)| served.persistent)
        .map(|(_, served)| served.synced);
    let sequence = reported.chain(synced).min().unwrap_or(0);
    // One snapshot is enough: it is durable in a folder that all nodes see. Who is further behind loads it.
    if let Some(newest) = shared.order.snapshots()?.into_values().map(|snapshot| snapshot.slot).max() {
        shared.order.trim(newest)?;
    }
    let floor = shared.catalog.floor()?;
    let mut state = shared.state.lock();
    gone.for_each(|incarnation| state.propose_own(Step::Leave { incarnation }));
    match state.next_floor {
        Some((since, _)) if since.elapsed() < grace => {}
        next => {
            if let Some((_, next)) = next.filter(|(_, next)| *next > floor) {
                state.propose_own(Step::Floor { sequence: next });
            }
            state.next_floor = Some((Instant::now(), sequence));
        }
    }
    shared.changed.notify_all();
    Ok(true)
}
