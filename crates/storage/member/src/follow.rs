//! The thread that follows.

use std::thread;
use std::time::Duration;

use terrace_order::{OrderError, Records};

use crate::deliver::deliver;
use crate::error::Result;
use crate::state::Shared;

/// At most this number of records are carried out in one transaction.
const RECORDS_AT_ONCE: usize = 256;
/// After this time the thread looks whether the member ends.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// Follows the log into the catalog until the member ends. An error that is not a missing answer ends the member: no record may be
/// skipped.
pub fn run(shared: &Shared) {
    while !shared.state.lock().is_ended() {
        match follow(shared) {
            Ok(()) | Err(crate::MemberError::Order(OrderError::NoAnswer { .. })) => {}
            Err(error) => shared.halt(&error),
        }
    }
}

fn follow(shared: &Shared) -> Result<()> {
    let slot = shared.catalog.followed()?.slot;
    note_slot(shared, slot)?;
    match shared.order.read(slot, RECORDS_AT_ONCE)? {
        Records::Next(records) if records.is_empty() => Ok(shared.order.wait(slot, LONGEST_WAIT)?),
        Records::Next(records) => {
            shared.catalog.follow(slot + 1, &records)?;
            note_slot(shared, slot + records.len() as u64)
        }
        Records::Trimmed => load_snapshot(shared, slot),
    }
}

/// Goes on behind the newest snapshot, because the records after `slot` are gone.
fn load_snapshot(shared: &Shared, slot: u64) -> Result<()> {
    let newest = shared.order.snapshots()?.into_values().max_by_key(|snapshot| snapshot.slot);
    let Some(newest) = newest.filter(|newest| newest.slot > slot) else {
        shared.halt(&format!("the records after {slot} are gone, and no node offers a newer snapshot"));
        return Ok(());
    };
    let path = shared.snapshots.path(&newest);
    match shared.catalog.replace_by_snapshot(&path) {
        Ok(true) if shared.catalog.followed()?.chain == newest.chain => {
            tracing::info!(node = shared.name, slot = newest.slot, "loaded a snapshot of the shared log");
            note_slot(shared, newest.slot)
        }
        // Its node may just have replaced it by a newer one.
        Ok(false) | Err(terrace_catalog::Error::Io { .. }) => {
            thread::sleep(LONGEST_WAIT);
            Ok(())
        }
        Ok(true) => {
            shared.halt(&format!("the snapshot {} is of another log", path.display()));
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

fn note_slot(shared: &Shared, slot: u64) -> Result<()> {
    let incarnation = {
        let mut state = shared.state.lock();
        state.slot = state.slot.max(slot);
        state.proposer.as_ref().filter(|_| state.short.is_none()).map(|proposer| proposer.incarnation())
    };
    if let Some(incarnation) = incarnation {
        let short = shared.catalog.member(incarnation)?.map(|member| member.short).filter(|short| *short > 0);
        let mut state = shared.state.lock();
        // The incarnation may have ended meanwhile.
        if state.proposer.as_ref().is_some_and(|proposer| proposer.incarnation() == incarnation) {
            state.short = short;
        }
    }
    deliver(shared);
    Ok(())
}
