//! A log in memory, which does what a real one promises. Tests and simulations use it; it survives nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use rustix_futex_sync::{Condvar, Mutex};

use crate::{Answer, Append, LogIdentity, OfferedSnapshot, Order, OrderError, Records};

/// A node's fence: its incarnation, and the number of records that this has appended.
#[derive(Clone, Copy, PartialEq)]
struct Fence {
    incarnation: u64,
    next: u64,
}

struct Entry {
    incarnation: u64,
    number: u64,
    record: Arc<[u8]>,
}

#[derive(Default)]
struct Log {
    fences: HashMap<String, Fence>,
    incarnations: u64,
    entries: BTreeMap<u64, Entry>,
    head: u64,
    /// All records up to this slot are gone.
    trimmed: u64,
    /// The number of the next record of each incarnation, as of the trimmed slot.
    trimmed_next: HashMap<u64, u64>,
    /// The incarnation of the keeper.
    keeper: Option<u64>,
    snapshots: BTreeMap<String, OfferedSnapshot>,
    /// Every record that was ever appended, for the laws.
    all: Vec<Arc<[u8]>>,
}

/// A log in memory, as one node uses it.
pub struct ModelOrder {
    log: Arc<Mutex<Log>>,
    /// Told of with the lock held, and waited for with it.
    appended: Arc<Condvar>,
    node: String,
}

impl ModelOrder {
    /// One for each node, all of the same log.
    pub fn for_nodes(nodes: &[&str]) -> Vec<ModelOrder> {
        let (log, appended) = Default::default();
        let of =
            |node: &&str| ModelOrder { log: Arc::clone(&log), appended: Arc::clone(&appended), node: node.to_string() };
        nodes.iter().map(of).collect()
    }

    /// Removes the node's fence, as when its lease has run out.
    pub fn expel(&self) {
        self.log.lock().fences.remove(&self.node);
    }

    /// Every record that was ever appended.
    pub fn all(&self) -> Vec<Arc<[u8]>> {
        self.log.lock().all.clone()
    }
}

impl Order for ModelOrder {
    fn join(&self, last: Option<u64>) -> Result<u64, OrderError> {
        let mut log = self.log.lock();
        if let Some(Fence { incarnation, .. }) =
            log.fences.get(&self.node).filter(|fence| Some(fence.incarnation) != last)
        {
            return Err(OrderError::Taken { node: self.node.clone(), incarnation: *incarnation });
        }
        log.incarnations += 1;
        let incarnation = log.incarnations;
        log.fences.insert(self.node.clone(), Fence { incarnation, next: 0 });
        Ok(incarnation)
    }

    fn append(&self, append: &Append) -> Result<Answer, OrderError> {
        let log = &mut *self.log.lock();
        let Append { incarnation, number, record } = append.clone();
        if let Some(fence) = log.fences.get_mut(&self.node)
            && *fence == (Fence { incarnation, next: number })
        {
            fence.next += 1;
            log.head += 1;
            log.all.push(record.clone());
            log.entries.insert(log.head, Entry { incarnation, number, record });
            self.appended.notify_all();
            return Ok(Answer::At(log.head));
        }
        let held = log.entries.iter().find(|(_, e)| (e.incarnation, e.number) == (incarnation, number));
        Ok(match held {
            Some((slot, _)) => Answer::At(*slot),
            None if log.trimmed_next.get(&incarnation).is_some_and(|next| number < *next) => Answer::Trimmed,
            None => Answer::Fenced,
        })
    }

    fn head(&self) -> Result<u64, OrderError> {
        Ok(self.log.lock().head)
    }

    fn read(&self, after: u64, most: usize) -> Result<Records, OrderError> {
        let log = self.log.lock();
        if after < log.trimmed {
            return Ok(Records::Trimmed);
        }
        Ok(Records::Next(log.entries.range(after + 1..).take(most).map(|(_, e)| e.record.clone()).collect()))
    }

    fn wait(&self, after: u64, timeout: Duration) -> Result<(), OrderError> {
        let log = self.log.lock();
        if log.head <= after {
            // A wake-up too early does no harm.
            drop(self.appended.wait_timeout(log, timeout));
        }
        Ok(())
    }

    fn trim(&self, to: u64) -> Result<(), OrderError> {
        let mut log = self.log.lock();
        while let Some(first) = log.entries.first_entry().filter(|first| *first.key() <= to) {
            let Entry { incarnation, number, .. } = first.remove();
            log.trimmed_next.insert(incarnation, number + 1);
            log.trimmed += 1;
        }
        Ok(())
    }

    fn offer_snapshot(&self, snapshot: &OfferedSnapshot) -> Result<(), OrderError> {
        self.log.lock().snapshots.insert(self.node.clone(), snapshot.clone());
        Ok(())
    }

    fn snapshots(&self) -> Result<BTreeMap<String, OfferedSnapshot>, OrderError> {
        Ok(self.log.lock().snapshots.clone())
    }

    fn fences(&self) -> Result<BTreeMap<String, u64>, OrderError> {
        let log = self.log.lock();
        Ok(log.fences.iter().map(|(node, fence)| (node.clone(), fence.incarnation)).collect())
    }

    fn keep(&self, incarnation: u64) -> Result<bool, OrderError> {
        let log = &mut *self.log.lock();
        let has_fence = |incarnation| log.fences.values().any(|fence| fence.incarnation == incarnation);
        if !log.keeper.is_some_and(has_fence) {
            log.keeper = has_fence(incarnation).then_some(incarnation);
        }
        Ok(log.keeper == Some(incarnation))
    }

    fn identity(&self) -> LogIdentity {
        LogIdentity { number: 0, before: None }
    }

    fn leave(&self, incarnation: u64) -> Result<(), OrderError> {
        let fences = &mut self.log.lock().fences;
        if fences.get(&self.node).is_some_and(|fence| fence.incarnation == incarnation) {
            fences.remove(&self.node);
        }
        Ok(())
    }
}
