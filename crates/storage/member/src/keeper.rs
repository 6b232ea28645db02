//! The keeper's work, which one node does for all. If two do it, no harm is done: the catalog checks each step.

use std::time::{Duration, Instant};

use terrace_catalog::Member as CatalogMember;
use terrace_format::Step;

use crate::error::Result;
use crate::session::SESSION_COUNTER_BITS;
use crate::state::Shared;

/// A client whose node was started again may ask for an outcome for so long.
const ORPHAN_GRACE: Duration = Duration::from_secs(600);

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
    let sequence = reported.min().unwrap_or(0).min(shared.catalog.settled()?);
    // One snapshot is enough: it is durable in a folder that all nodes see. Who is further behind loads it.
    if let Some(newest) = shared.order.snapshots()?.into_values().map(|snapshot| snapshot.slot).max() {
        shared.order.trim(newest)?;
    }
    let floor = shared.catalog.floor()?;
    let orphans = find_orphans(shared, &members)?;
    let mut state = shared.state.lock();
    orphans.into_iter().for_each(|session| state.propose_own(Step::End { session }));
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

/// Returns the sessions that nodes began in incarnations that are over since long: their clients have gone, or begin another session.
fn find_orphans(shared: &Shared, members: &[(u64, CatalogMember)]) -> Result<Vec<u64>> {
    let is_live = |session: &u64| {
        let short = session >> SESSION_COUNTER_BITS;
        members.iter().any(|(_, member)| u64::from(member.short) == short)
    };
    let orphans: Vec<u64> = shared.catalog.sessions()?.into_iter().filter(|session| !is_live(session)).collect();
    let mut state = shared.state.lock();
    state.orphans.retain(|session, _| orphans.contains(session));
    let mut over = Vec::new();
    for session in orphans {
        let since = *state.orphans.entry(session).or_insert_with(Instant::now);
        if since.elapsed() > ORPHAN_GRACE {
            over.push(session);
        }
    }
    Ok(over)
}
