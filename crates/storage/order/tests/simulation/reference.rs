//! The meaning of the log: each change in order, the first time that it comes, in a store without a shared log.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use terrace_catalog::log::Log as LocalLog;
use terrace_catalog::{Catalog, Error, Verdict};
use terrace_format::{Change, Edit, Expect, Place, Proposal, Step, TargetId};

use crate::members::Members;
use crate::node::STORE_ID;

pub struct Reference {
    pub catalog: Catalog,
    sessions: HashSet<u64>,
    /// The slot and the verdict of each change that was decided, by session and number.
    pub verdicts: HashMap<(u64, u64), (u64, Verdict)>,
    /// The pieces of changes, by session, change and number.
    pieces: HashMap<(u64, u64, u32), Vec<u8>>,
    /// The number of steps that came again.
    pub repeated: usize,
    pub members: Members,
    /// Every replica that each frame ever had.
    pub replicas: HashMap<Frame, HashSet<(TargetId, Place)>>,
    /// The number of replicas that were not dropped because no other one is synced, and of those that were.
    pub kept: usize,
    pub dropped: usize,
}

/// A frame: its object, its write, and its offset.
pub type Frame = (u64, (u64, u64));

impl Reference {
    pub fn of(folder: &Path, records: &[Arc<[u8]>]) -> Reference {
        let log = LocalLog::open(&folder.join("log"), STORE_ID).unwrap();
        let catalog = Catalog::open(&folder.join("catalog"), log).unwrap();
        let (sessions, verdicts) = (HashSet::new(), HashMap::new());
        let (members, replicas) = (Members::default(), HashMap::new());
        let mut reference = Reference {
            catalog,
            sessions,
            verdicts,
            pieces: HashMap::new(),
            repeated: 0,
            members,
            replicas,
            kept: 0,
            dropped: 0,
        };
        for (slot, record) in (1..).zip(records) {
            let proposal = Proposal::decode(record, STORE_ID).unwrap();
            for step in proposal.steps {
                reference.carry_out(slot, proposal.incarnation, step);
            }
        }
        reference
    }

    fn carry_out(&mut self, slot: u64, incarnation: u64, step: Step) {
        match step {
            Step::Begin { session } => drop(self.sessions.insert(session)),
            Step::End { session } => drop(self.sessions.remove(&session)),
            Step::Change { session, .. } if !self.sessions.contains(&session) => {}
            Step::Change { session, number, .. } if self.verdicts.contains_key(&(session, number)) => {
                self.repeated += 1
            }
            Step::Change { session, number, change } => {
                let verdict = self.decide(change);
                self.verdicts.insert((session, number), (slot, verdict));
            }
            Step::Piece { session, number, piece, bytes } => drop(self.pieces.insert((session, number, piece), bytes)),
            Step::Whole { session, number, pieces } => {
                let of_piece = |piece| self.pieces[&(session, number, piece)].clone();
                let change = Step::join(&(0..pieces).flat_map(of_piece).collect::<Vec<u8>>()).unwrap();
                self.carry_out(slot, incarnation, Step::Change { session, number, change });
            }
            step => {
                let now = self.catalog.tail().unwrap().sequence;
                self.members.carry_out(&self.catalog, incarnation, step, now);
            }
        }
    }

    fn decide(&mut self, mut change: Change) -> Verdict {
        if self.members.is_stale(&change) {
            return Verdict::Stale;
        }
        // A store without a shared log does not know this condition.
        let (synced, others) = change.expect.into_iter().partition(|e| matches!(e, Expect::KeepsSynced { .. }));
        change.expect = others;
        for expect in &synced {
            let Expect::KeepsSynced { task, key } = expect else { continue };
            if !self.members.keeps_synced(&self.catalog, task, key) {
                self.kept += 1;
                return Verdict::Conflict;
            }
        }
        let done = change.clone();
        match self.catalog.commit(change) {
            Ok(commit) => {
                self.dropped += synced.len();
                self.members.note(&done, commit.sequence);
                self.note_replicas(&done);
                Verdict::Done(commit.sequence)
            }
            Err(Error::Conflict { .. }) => Verdict::Conflict,
            Err(Error::NotFound { .. }) => Verdict::NotFound,
            failed => failed.map(|_| Verdict::Forgotten).unwrap(),
        }
    }

    fn note_replicas(&mut self, change: &Change) {
        for edit in &change.edits {
            if let Edit::Made { task, replica } = edit {
                let frame = (task.object, (task.write, task.frame_offset));
                self.replicas.entry(frame).or_default().insert((replica.target, replica.place));
            }
            for (object, new) in
                edit.new_extents().into_iter().flat_map(|(object, new)| new.iter().map(move |n| (object, n)))
            {
                let replicas = new.extent.replicas.iter().map(|replica| (replica.target, replica.place));
                self.replicas.entry((object, new.extent.frame())).or_default().extend(replicas);
            }
        }
    }
}
