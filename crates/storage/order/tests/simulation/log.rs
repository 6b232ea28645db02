//! The log, as etcd keeps it: fences, records, and a network that delays, repeats and loses.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use terrace_order::{Answer, Append};

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
pub struct Log {
    fences: HashMap<usize, Fence>,
    incarnations: u64,
    entries: BTreeMap<u64, Entry>,
    head: u64,
    /// All records up to this slot are gone.
    trimmed: u64,
    /// The number of the next record of each incarnation, as of the trimmed slot.
    trimmed_next: HashMap<u64, u64>,
    /// Every record that was ever appended, for the laws.
    pub all: Vec<Arc<[u8]>>,
}

impl Log {
    /// Gives a node a new fence, instead of any older one.
    pub fn join(&mut self, node: usize) -> u64 {
        self.incarnations += 1;
        self.fences.insert(node, Fence { incarnation: self.incarnations, next: 0 });
        self.incarnations
    }

    /// Removes a node's fence, as when its lease has run out.
    pub fn expel(&mut self, node: usize) {
        self.fences.remove(&node);
    }

    /// Carries out an append of a node: one transaction of etcd.
    pub fn append(&mut self, node: usize, append: &Append) -> Answer {
        let Append { incarnation, number, record } = append.clone();
        if let Some(fence) = self.fences.get_mut(&node)
            && *fence == (Fence { incarnation, next: number })
        {
            fence.next += 1;
            self.head += 1;
            self.all.push(record.clone());
            self.entries.insert(self.head, Entry { incarnation, number, record });
            return Answer::At(self.head);
        }
        let held = self.entries.iter().find(|(_, e)| (e.incarnation, e.number) == (incarnation, number));
        match held {
            Some((slot, _)) => Answer::At(*slot),
            None if self.trimmed_next.get(&incarnation).is_some_and(|next| number < *next) => Answer::Trimmed,
            None => Answer::Fenced,
        }
    }

    pub fn has_fence(&self, node: usize, incarnation: u64) -> bool {
        self.fences.get(&node).is_some_and(|fence| fence.incarnation == incarnation)
    }

    pub fn has_any_fence(&self, incarnation: u64) -> bool {
        self.fences.values().any(|fence| fence.incarnation == incarnation)
    }

    pub fn head(&self) -> u64 {
        self.head
    }

    /// The records after a slot, at most `most` of them. `None` if some of them are gone.
    pub fn read(&self, after: u64, most: usize) -> Option<Vec<Arc<[u8]>>> {
        (after >= self.trimmed)
            .then(|| self.entries.range(after + 1..).take(most).map(|(_, e)| e.record.clone()).collect())
    }

    pub fn trim(&mut self, to: u64) {
        while let Some(first) = self.entries.first_entry().filter(|first| *first.key() <= to) {
            let Entry { incarnation, number, .. } = first.remove();
            self.trimmed_next.insert(incarnation, number + 1);
            self.trimmed += 1;
        }
    }
}
