//! [`Member`]: starts and stops a node's threads.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix_futex_sync::{Condvar, Mutex};
use terrace_catalog::{Catalog, first_number};
use terrace_format::{Ids, Step, TargetId};
use terrace_order::Order;

use crate::error::{MemberError, Result};
use crate::heads::Heads;
use crate::session::Session;
use crate::snapshots::SnapshotFolder;
use crate::state::{OwnTarget, Shared, State};
use crate::{append, follow, keeper};

/// A segment waits for so long for a node that has lost its fence and joins again.
const NUMBER_PATIENCE: Duration = Duration::from_secs(5);

/// One node of a store whose log several nodes share.
pub struct Member {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Member {
    /// Joins the log as the node `name`, and begins to follow it. No other process is the node of this catalog. If one was and was killed,
    /// this one does not wait for the end of its lease.
    ///
    /// # Errors
    /// If the catalog cannot be read, or a thread cannot be started.
    pub fn start(
        order: Box<dyn Order + Send + Sync>,
        catalog: Arc<Catalog>,
        name: &str,
        snapshots: SnapshotFolder,
    ) -> Result<Member> {
        let own = catalog.members()?.into_iter().filter(|(_, member)| member.node == name);
        let last = own.map(|(incarnation, _)| incarnation).max();
        let state = Mutex::new(State { last_incarnation: last, ..State::default() });
        let (name, changed, heads) = (name.to_owned(), Condvar::new(), Heads::default());
        let shared = Arc::new(Shared { order, catalog, name, snapshots, state, changed, heads });
        let mut member = Member { shared, threads: Vec::new() };
        for (name, run) in [("terrace-append", append::run as fn(&Shared)), ("terrace-follow", follow::run)] {
            let shared = member.shared.clone();
            let thread = thread::Builder::new().name(name.into()).spawn(move || run(&shared));
            member.threads.push(thread.map_err(MemberError::NoThread)?);
        }
        Ok(member)
    }

    /// Says that this node serves these targets, now and after each time that it joins again.
    ///
    /// # Errors
    /// [`MemberError::Halted`].
    pub fn serve(&self, targets: Vec<OwnTarget>) -> Result<()> {
        let mut state = self.shared.state.lock();
        state.check()?;
        for own in &targets {
            state.propose_own(own.step());
        }
        state.targets = targets;
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Begins a client's session.
    ///
    /// # Errors
    /// [`MemberError::Silent`] if the log does not answer for as long as `patience`.
    pub fn begin(&self, patience: Duration) -> Result<Session> {
        Session::begin(self.shared.clone(), patience)
    }

    /// Goes on with a session that an earlier incarnation of this node began, for a client that still waits for an outcome.
    pub(crate) fn resume(&self, session: u64) -> Session {
        Session::resume(self.shared.clone(), session)
    }

    /// The number of the store.
    pub(crate) fn store(&self) -> u64 {
        self.shared.catalog.log().store()
    }

    /// Returns the first of `count` numbers for objects, writes and segments that nobody else has. They hold the short number of this
    /// incarnation, so this needs no record in the log.
    ///
    /// # Errors
    /// [`MemberError::Silent`] if this node has not joined in time.
    pub fn claim_numbers(&self, count: u64, patience: Duration) -> Result<u64> {
        let claimed = self.shared.wait(Instant::now() + patience, |state| {
            let first = first_number(state.short?) + state.numbers;
            state.numbers += count;
            Some(first)
        })?;
        claimed.ok_or(MemberError::Silent { waited: patience })
    }

    /// Ends all waits, and takes no more records.
    pub(crate) fn stop(&self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.changed.notify_all();
    }

    /// Waits until this node's catalog has all that any node had acknowledged before this call.
    ///
    /// # Errors
    /// [`MemberError::Silent`] as [`Member::begin`].
    pub fn catch_up(&self, patience: Duration) -> Result<u64> {
        let until = Instant::now() + patience;
        let silent = || MemberError::Silent { waited: patience };
        let head = self.shared.heads.read(&*self.shared.order, until)?.ok_or_else(silent)?;
        self.shared.wait(until, |state| (state.slot >= head).then_some(head))?.ok_or_else(silent)
    }

    /// Says how far this node's catalog is, and which objects its clients read: `pins` are objects with their generations.
    pub fn report(&self, pins: Vec<(u64, u64)>) -> Result<()> {
        self.report_until(self.shared.catalog.tail()?.sequence, pins)
    }

    /// Like [`Member::report`], as if this node's catalog ended with an earlier commit: no node gives back what later ones have freed.
    pub fn report_until(&self, sequence: u64, pins: Vec<(u64, u64)>) -> Result<()> {
        self.propose_own(Step::Report { sequence, pins })
    }

    /// Says that all frames on a target of this node that commits up to `sequence` name are whole and synced.
    pub fn note_synced(&self, target: TargetId, sequence: u64) -> Result<()> {
        self.propose_own(Step::Synced { target, sequence })
    }

    /// Does the keeper's work, if this node is the keeper: notes which incarnations have gone, and raises the floor to commits that all
    /// nodes have had for as long as `grace`. Returns whether it is.
    pub fn keep(&self, grace: Duration) -> Result<bool> {
        keeper::keep(&self.shared, grace)
    }

    /// Leaves a snapshot of this node's catalog for others, and tells the log of it. The keeper may then trim the log up to there.
    ///
    /// # Errors
    /// [`MemberError::Snapshot`] if the folder takes none.
    pub fn offer_snapshot(&self) -> Result<()> {
        let Shared { order, catalog, name, snapshots, .. } = &*self.shared;
        let offered = snapshots.write(catalog, name)?;
        order.offer_snapshot(&offered)?;
        if let Err(error) = snapshots.remove_old(name, &offered) {
            tracing::warn!(node = name, %error, "old snapshots of this node were not removed");
        }
        Ok(())
    }

    /// Returns an error if this node follows the log no more.
    ///
    /// # Errors
    /// [`MemberError::Halted`].
    pub fn check(&self) -> Result<()> {
        self.shared.state.lock().check()
    }

    /// Returns numbers of this node for the segments of its targets.
    pub fn numbers(self: &Arc<Self>) -> Arc<dyn Ids> {
        Arc::new(Numbers(self.clone()))
    }

    /// Returns the incarnation of this node and its short number, once it has joined and its catalog knows that.
    pub fn incarnation(&self) -> Option<(u64, u32)> {
        let state = self.shared.state.lock();
        state.proposer.as_ref().map(|proposer| proposer.incarnation()).zip(state.short)
    }

    fn propose_own(&self, step: Step) -> Result<()> {
        let mut state = self.shared.state.lock();
        state.check()?;
        state.propose_own(step);
        self.shared.changed.notify_all();
        Ok(())
    }
}

/// The numbers of a node. No segment of an earlier incarnation is appended to, because changes must not name its frames.
struct Numbers(Arc<Member>);

impl Ids for Numbers {
    fn next(&self) -> io::Result<u64> {
        self.0.claim_numbers(1, NUMBER_PATIENCE).map_err(io::Error::other)
    }

    fn oldest(&self) -> u64 {
        u64::MAX
    }

    fn oldest_in_use(&self) -> u64 {
        self.0.incarnation().map_or(u64::MAX, |(_, short)| first_number(short))
    }
}

impl Drop for Member {
    /// Ends the threads, and gives the fence back. Changes that wait are not carried out, or have unknown outcomes.
    fn drop(&mut self) {
        self.stop();
        for thread in self.threads.drain(..) {
            // A thread that has panicked has printed why.
            let _ = thread.join();
        }
        let incarnation = self.shared.state.lock().last_incarnation;
        if let Some(incarnation) = incarnation {
            // If this fails, the fence ends with its lease.
            let _ = self.shared.order.leave(incarnation);
        }
    }
}
