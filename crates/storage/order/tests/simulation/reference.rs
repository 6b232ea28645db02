//! The meaning of the log: each change in order, the first time that it comes, in a store without a shared log.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use terrace_catalog::log::Log as LocalLog;
use terrace_catalog::{Catalog, Error, Verdict};
use terrace_format::{Proposal, Step};

use crate::node::STORE_ID;

pub struct Reference {
    pub catalog: Catalog,
    sessions: HashSet<u64>,
    /// The slot and the verdict of each change that was decided, by session and number.
    pub verdicts: HashMap<(u64, u64), (u64, Verdict)>,
    /// The number of steps that came again.
    pub repeated: usize,
}

impl Reference {
    pub fn of(folder: &Path, records: &[Arc<[u8]>]) -> Reference {
        let log = LocalLog::open(&folder.join("log"), STORE_ID).unwrap();
        let catalog = Catalog::open(&folder.join("catalog"), log).unwrap();
        let (sessions, verdicts) = (HashSet::new(), HashMap::new());
        let mut reference = Reference { catalog, sessions, verdicts, repeated: 0 };
        for (slot, record) in (1..).zip(records) {
            for step in Proposal::decode(record, STORE_ID).unwrap().steps {
                reference.carry_out(slot, step);
            }
        }
        reference
    }

    fn carry_out(&mut self, slot: u64, step: Step) {
        match step {
            Step::Begin { session } => drop(self.sessions.insert(session)),
            Step::End { session } => drop(self.sessions.remove(&session)),
            Step::Change { session, .. } if !self.sessions.contains(&session) => {}
            Step::Change { session, number, .. } if self.verdicts.contains_key(&(session, number)) => {
                self.repeated += 1
            }
            Step::Change { session, number, change } => {
                let verdict = match self.catalog.commit(change) {
                    Ok(commit) => Verdict::Done(commit.sequence),
                    Err(Error::Conflict { .. }) => Verdict::Conflict,
                    Err(Error::NotFound { .. }) => Verdict::NotFound,
                    failed => failed.map(|_| Verdict::Forgotten).unwrap(),
                };
                self.verdicts.insert((session, number), (slot, verdict));
            }
        }
    }
}
