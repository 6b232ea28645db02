//! [`Session`]: a client's changes, each carried out at most once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_catalog::Verdict;
use terrace_format::{Change, Step};
use terrace_order::steps_of;

use crate::error::{MemberError, Result};
use crate::state::{BEGIN_NUMBER, END_NUMBER, Outcome, Shared, State};

/// The bits of a session's number below the short number of the incarnation that began it.
pub const SESSION_COUNTER_BITS: u32 = 40;

/// The changes of one client. They are carried out in the order in which they are asked for.
pub struct Session {
    shared: Arc<Shared>,
    number: u64,
    /// The number of the last change.
    last: u64,
}

impl Session {
    pub(crate) fn begin(shared: Arc<Shared>, patience: Duration) -> Result<Session> {
        let until = Instant::now() + patience;
        let silent = || MemberError::Silent { waited: patience };
        loop {
            let number = shared.wait(until, |state| {
                let short = state.short?;
                state.sessions += 1;
                Some((u64::from(short) << SESSION_COUNTER_BITS) | state.sessions)
            })?;
            let number = number.ok_or_else(silent)?;
            let session = Session { shared: shared.clone(), number, last: 0 };
            // If the fence went, the number is that of an incarnation that has ended. Another one is taken.
            let begin = vec![(BEGIN_NUMBER, vec![Step::Begin { session: number }])];
            let begun = session.ask(begin, until)?.ok_or_else(silent)?;
            if begun.iter().all(|(_, outcome)| matches!(outcome, Outcome::Decided(_))) {
                return Ok(session);
            }
        }
    }

    /// Goes on with a session that an earlier incarnation of this node began.
    pub(crate) fn resume(shared: Arc<Shared>, number: u64) -> Session {
        Session { shared, number, last: 0 }
    }

    /// Returns the session's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Asks for a change, and waits until it is in the log and in this node's catalog.
    ///
    /// # Errors
    /// [`MemberError::Unknown`] after `patience`: then only [`Session::ask_again`] may follow. [`MemberError::TooLarge`] if it is too
    /// large for the log; nothing has happened then.
    pub fn change(&mut self, change: &Change, patience: Duration) -> Result<Verdict> {
        self.last += 1;
        self.ask_again(change, patience)
    }

    /// Asks for the last change again, whose outcome is not known.
    ///
    /// # Errors
    /// As [`Session::change`].
    pub fn ask_again(&mut self, change: &Change, patience: Duration) -> Result<Verdict> {
        let verdicts = self.carry_out(self.last, std::slice::from_ref(change), patience)?;
        Ok(verdicts.into_iter().next().unwrap_or(Verdict::Forgotten))
    }

    /// Asks for changes, whose numbers begin with `first`, and waits until all are in the log and in this node's catalog. Those that
    /// have been carried out before keep their verdicts.
    ///
    /// # Errors
    /// As [`Session::change`]. After [`MemberError::Unknown`], any of them may have been carried out.
    pub fn carry_out(&self, first: u64, changes: &[Change], patience: Duration) -> Result<Vec<Verdict>> {
        let (until, session) = (Instant::now() + patience, self.number);
        let mut verdicts: Vec<Option<Verdict>> = vec![None; changes.len()];
        loop {
            let left = (first..).zip(changes).zip(&verdicts).filter(|(_, verdict)| verdict.is_none());
            let steps = left.map(|((number, change), _)| Ok((number, steps_of(session, number, change)?)));
            let wanted = steps.collect::<Result<Vec<_>>>()?;
            if wanted.is_empty() {
                return Ok(verdicts.into_iter().flatten().collect());
            }
            let unknown = || MemberError::Unknown { number: first, waited: patience };
            for (number, outcome) in self.ask(wanted, until)?.ok_or_else(unknown)? {
                // Otherwise the fence went before. The new incarnation asks with the same number.
                if let Outcome::Decided(verdict) = outcome {
                    verdicts[(number - first) as usize] = Some(verdict);
                }
            }
        }
    }

    /// Proposes the steps of each number as soon as this node has joined, and waits for the outcomes of the last ones. None if one has
    /// none in time.
    fn ask(&self, steps: Vec<(u64, Vec<Step>)>, until: Instant) -> Result<Option<Vec<(u64, Outcome)>>> {
        let numbers: Vec<u64> = steps.iter().map(|(number, _)| *number).collect();
        let mut steps = Some(steps);
        // All under one lock: if the fence goes, the steps from one of them on are not in the log.
        let proposed = self.shared.wait(until, |state| {
            let proposer = state.proposer.as_mut()?;
            for (number, mut steps) in steps.take().into_iter().flatten() {
                let whose = (self.number, number);
                let last = steps.pop().map(|last| (Some(whose), last));
                for (whose, step) in steps.into_iter().map(|step| (None, step)).chain(last) {
                    if let Err(error) = proposer.propose(whose, step) {
                        return Some(Err(error));
                    }
                }
                state.outcomes.insert(whose, None);
            }
            Some(Ok(()))
        })?;
        match proposed {
            Some(proposed) => proposed?,
            None => return Ok(None),
        }
        self.shared.changed.notify_all();
        let all_known = |state: &mut State| {
            let known = |number: &u64| Some((*number, state.outcomes.get(&(self.number, *number)).cloned().flatten()?));
            numbers.iter().map(known).collect()
        };
        let outcomes = self.shared.wait(until, all_known);
        let mut state = self.shared.state.lock();
        for number in numbers {
            state.outcomes.remove(&(self.number, number));
        }
        outcomes
    }
}

impl Drop for Session {
    /// Tells all nodes that the session has ended. If this is lost, its number is never used again.
    fn drop(&mut self) {
        let whose = Some((self.number, END_NUMBER));
        let mut state = self.shared.state.lock();
        if let Some(proposer) = &mut state.proposer {
            // The step is small, so it fits.
            let _ = proposer.propose(whose, Step::End { session: self.number });
            self.shared.changed.notify_all();
        }
    }
}
