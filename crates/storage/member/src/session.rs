//! [`Session`]: a client's changes, each carried out at most once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_catalog::Verdict;
use terrace_format::{Change, Step};

use crate::error::{MemberError, Result};
use crate::state::{BEGIN_NUMBER, END_NUMBER, Outcome, Shared};

/// The bits of a session's number below the short number of the incarnation that began it.
const SESSION_COUNTER_BITS: u32 = 40;

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
            match session.ask(BEGIN_NUMBER, Step::Begin { session: number }, until)?.ok_or_else(silent)? {
                Outcome::Decided(_) => return Ok(session),
                Outcome::NotCarriedOut => {}
            }
        }
    }

    /// Asks for a change, and waits until it is in the log and in this node's catalog.
    ///
    /// # Errors
    /// [`MemberError::Unknown`] after `patience`: then only [`Session::ask_again`] may follow. [`MemberError::TooLarge`] if it does not
    /// fit into a record; nothing has happened then.
    pub fn change(&mut self, change: &Change, patience: Duration) -> Result<Verdict> {
        self.last += 1;
        self.ask_again(change, patience)
    }

    /// Asks for the last change again, whose outcome is not known.
    ///
    /// # Errors
    /// As [`Session::change`].
    pub fn ask_again(&mut self, change: &Change, patience: Duration) -> Result<Verdict> {
        let (until, session, number) = (Instant::now() + patience, self.number, self.last);
        loop {
            let step = Step::Change { session, number, change: change.clone() };
            match self.ask(number, step, until)? {
                Some(Outcome::Decided(verdict)) => return Ok(verdict),
                // The fence went before. The new incarnation asks with the same number.
                Some(Outcome::NotCarriedOut) => {}
                None => return Err(MemberError::Unknown { number, waited: patience }),
            }
        }
    }

    /// Proposes a step as soon as this node has joined, and waits for its outcome. None if there is none in time.
    fn ask(&self, number: u64, step: Step, until: Instant) -> Result<Option<Outcome>> {
        let whose = (self.number, number);
        let mut step = Some(step);
        let proposed = self.shared.wait(until, |state| {
            let proposer = state.proposer.as_mut()?;
            let proposed = step.take().map_or(Ok(()), |step| proposer.propose(Some(whose), step));
            if proposed.is_ok() {
                state.outcomes.insert(whose, None);
            }
            Some(proposed)
        })?;
        match proposed {
            Some(proposed) => proposed?,
            None => return Ok(None),
        }
        self.shared.changed.notify_all();
        let outcome = self.shared.wait(until, |state| state.outcomes.get(&whose).cloned().flatten());
        self.shared.state.lock().outcomes.remove(&whose);
        outcome
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
