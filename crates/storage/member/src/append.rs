//! The thread that joins the shared log and appends this node's records.

use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use terrace_format::Step;
use terrace_order::{Answer, OrderError, Proposer};
use terrace_system::fail;

use crate::deliver::deliver;
use crate::state::Shared;

/// The pause before an append or a fence is tried again. The calls themselves have longer time limits.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// The pause before a join is tried again while another process may have this node's name.
const TAKEN_PAUSE: Duration = Duration::from_millis(200);

/// If the node's name is taken for longer than this, in milliseconds, another process uses it. Longer than the lease of a process that
/// has died.
const MAX_TAKEN_MILLISECONDS: u64 = 20_000;

/// Joins, and appends what clients ask for, until the member ends. A record that is being appended at the end may still come into
/// the log.
pub fn run(shared: &Shared) {
    let patience = Duration::from_millis(fail::limit("TERRACE_TAKEN_MILLISECONDS", MAX_TAKEN_MILLISECONDS));
    let mut taken_since = None;
    while !shared.state.lock().is_ended() {
        let has_joined = shared.state.lock().proposer.is_some();
        let done = if has_joined { append(shared) } else { join(shared) };
        match done {
            Ok(()) => taken_since = None,
            // The outcome may be unknown, so the same call is tried again.
            Err(OrderError::NoAnswer { .. } | OrderError::Full { .. }) => thread::sleep(RETRY_PAUSE),
            // An earlier fence of this node has to end, or another process has its name.
            Err(OrderError::Taken { .. }) if taken_since.get_or_insert_with(Instant::now).elapsed() < patience => {
                thread::sleep(TAKEN_PAUSE)
            }
            Err(error) => shared.halt(&error),
        }
    }
}

fn join(shared: &Shared) -> Result<(), OrderError> {
    let last = shared.state.lock().last_incarnation;
    let incarnation = shared.order.join(last)?;
    let mut state = shared.state.lock();
    (state.last_incarnation, state.short) = (Some(incarnation), None);
    (state.sessions, state.numbers) = (0, 0);
    state.proposer = Some(Proposer::new(shared.catalog.log().store(), incarnation));
    // All go into one record, so no reader of the log sees an incarnation without its targets.
    state.propose_own(Step::Join { node: shared.name.clone() });
    for own in state.targets.clone() {
        state.propose_own(own.step());
    }
    tracing::info!(node = shared.name, incarnation, "joined the shared log");
    Ok(())
}

/// Appends one record, once there is one.
fn append(shared: &Shared) -> Result<(), OrderError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut state = shared.state.lock();
    let append = loop {
        if state.is_ended() {
            return Ok(());
        }
        let Some(proposer) = &mut state.proposer else { return Ok(()) };
        match proposer.append(now) {
            Some(append) => break append.clone(),
            None => state = shared.changed.wait(state),
        }
    };
    drop(state);
    let answer = shared.order.append(&append)?;
    // The head is read before the answer is processed. If this fails, the same append gets the same answer.
    let head = if answer == Answer::Trimmed { shared.order.head()? } else { 0 };
    let mut state = shared.state.lock();
    if let Some(proposer) = &mut state.proposer {
        let (fates, is_fenced) = (proposer.answer(append.number, answer), proposer.is_fenced());
        if is_fenced {
            tracing::warn!(node = shared.name, incarnation = append.incarnation, "lost the fence; joins again");
            (state.proposer, state.short) = (None, None);
        }
        state.note_fates(fates, head);
    }
    drop(state);
    deliver(shared);
    Ok(())
}
