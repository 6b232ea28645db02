//! The numbers of objects, and of the pending replicas of each target, which the catalog keeps so that nobody has to count them.
//!
//! A program that does not know these counts leaves them as they are when it commits. So the record of the log's tail says, in a byte
//! behind the tail, that all commits up to this one have kept them. Such a program reads only the tail, and writes it without the byte.

use std::collections::BTreeMap;

use heed::{RoTxn, RwTxn};
use terrace_format::TargetId;
use terrace_format::key::{RESERVED_FOLDER, below};

use super::apply::Applier;
use super::count_changes::CountChanges;
use super::environment::Environment;
use super::{Catalog, decode, encode, keys};
use crate::Result;
use crate::log::Tail;

/// Follows the tail in its record if the counts are right.
const COUNTS_KEPT_MARK: u8 = 2;

/// Numbers of a catalog's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// The objects of users.
    pub objects: u64,
    /// The pending replicas of each target that has any.
    pub owed: BTreeMap<TargetId, u64>,
}

impl Catalog {
    /// The number of users' objects. Only the first call counts them, unless programs that do not keep the counts change the store, too.
    pub fn count(&self) -> Result<u64> {
        Ok(self.counts()?.objects)
    }

    /// Returns how many replicas each target owes, if it owes any. As [`Catalog::count`], it does not count them.
    pub fn owed_by_target(&self) -> Result<BTreeMap<TargetId, u64>> {
        Ok(self.counts()?.owed)
    }

    fn counts(&self) -> Result<Counts> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        if are_counts_kept(&env, &txn)? {
            return read_counts(&env, &txn);
        }
        let counted = count_records(&env, &txn)?;
        // Reopening the environment waits until nobody has it.
        drop(txn);
        drop(env);
        if let Err(error) = self.reserve.run_with(|| self.keep_counts()) {
            // Nothing but the time of the next call depends on it.
            tracing::debug!(%error, "the numbers of objects and of pending replicas could not be kept");
        }
        Ok(counted)
    }

    fn keep_counts(&self) -> Result<()> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        for target in read_counts(&env, &txn)?.owed.into_keys() {
            env.records.delete(&mut txn, &keys::owed_count(target))?;
        }
        let counted = count_records(&env, &txn)?;
        env.records.put(&mut txn, keys::OBJECT_COUNT_KEY, &encode(&counted.objects)?)?;
        for (target, owed) in counted.owed {
            env.records.put(&mut txn, &keys::owed_count(target), &encode(&owed)?)?;
        }
        let tail = self.tail_in(&env, &txn)?;
        put_marked_tail(&env, &mut txn, &tail)?;
        self.environment.commit(txn)
    }
}

/// Writes the log's end, and whether the counts are still right.
pub(super) fn put_tail(env: &Environment, txn: &mut RwTxn<'_>, tail: &Tail) -> Result<()> {
    match are_counts_kept(env, txn)? {
        true => put_marked_tail(env, txn, tail),
        false => Ok(env.records.put(txn, keys::TAIL_KEY, &encode(tail)?)?),
    }
}

fn put_marked_tail(env: &Environment, txn: &mut RwTxn<'_>, tail: &Tail) -> Result<()> {
    let mut value = encode(tail)?;
    value.push(COUNTS_KEPT_MARK);
    Ok(env.records.put(txn, keys::TAIL_KEY, &value)?)
}

/// Returns whether the counts are right. In a new catalog they are.
fn are_counts_kept(env: &Environment, txn: &RoTxn<'_>) -> Result<bool> {
    let Some(value) = env.records.get(txn, keys::TAIL_KEY)? else { return Ok(true) };
    Ok(value.strip_prefix(encode(&decode::<Tail>(value, "the log's tail")?)?.as_slice()) == Some(&[COUNTS_KEPT_MARK]))
}

fn read_counts(env: &Environment, txn: &RoTxn<'_>) -> Result<Counts> {
    let objects = env.records.get(txn, keys::OBJECT_COUNT_KEY)?;
    let objects = objects.map_or(Ok(0), |value| decode(value, "the number of objects"))?;
    let mut owed = BTreeMap::new();
    for entry in env.records.prefix_iter(txn, &[keys::OWED_COUNT_LETTER])? {
        let (key, value) = entry?;
        if let Some(target) = keys::owed_count_target(key) {
            owed.insert(target, decode(value, "the number of a target's pending replicas")?);
        }
    }
    Ok(Counts { objects, owed })
}

fn count_records(env: &Environment, txn: &RoTxn<'_>) -> Result<Counts> {
    let mut owed = BTreeMap::new();
    for entry in env.records.prefix_iter(txn, &[keys::OWED_LETTER])? {
        if let Some(task) = keys::task(entry?.0) {
            *owed.entry(task.target).or_default() += 1;
        }
    }
    let mut objects = 0;
    for entry in env.records.prefix_iter(txn, &[keys::OBJECT_LETTER])? {
        objects += u64::from(entry?.0.get(1..).is_some_and(|key| !below(key, RESERVED_FOLDER)));
    }
    Ok(Counts { objects, owed })
}

impl Applier<'_, '_> {
    /// Writes the counts that have changed. If they were not right before, they are not read until all are counted again.
    pub(super) fn finish_counts(&mut self) -> Result<()> {
        let CountChanges { objects, owed } = std::mem::take(&mut self.changes);
        if objects != 0 {
            self.change_count(keys::OBJECT_COUNT_KEY, objects)?;
        }
        owed.into_iter().try_for_each(|(target, change)| self.change_count(&keys::owed_count(target), change))
    }

    fn change_count(&mut self, key: &[u8], change: i64) -> Result<()> {
        let before = self.records.get(self.txn, key)?;
        let before: u64 = before.map_or(Ok(0), |value| decode(value, "a number of records"))?;
        match before.saturating_add_signed(change) {
            0 => {
                self.records.delete(self.txn, key)?;
                Ok(())
            }
            now => self.put(key, &now),
        }
    }
}

#[cfg(test)]
mod tests {
    use terrace_format::{Edit, Extent, NewExtent, Task};

    use super::*;
    use crate::log::Log;

    fn write(catalog: &Catalog, offset: u64, targets: &[TargetId]) {
        let write = catalog.next_id().expect("a number");
        let replicas = smallvec::SmallVec::new();
        let extent = Extent { offset, length: 10, skip: 0, raw_len: 10, write, replicas, source: None };
        let extents = vec![NewExtent { extent, owed: targets.to_vec() }];
        let object = catalog.object(b"a").expect("reads").map_or(write, |object| object.id);
        let write = Edit::Write { key: b"a".to_vec(), object, want: 1, mtime: 0, extents };
        catalog.commit(write.into()).expect("commits");
    }

    /// Takes the mark behind the tail away, as the commit of a program does that does not know it.
    fn write_bare_tail(catalog: &Catalog) {
        let env = catalog.env().expect("an environment");
        let mut txn = env.write_txn().expect("a transaction");
        let tail = catalog.tail_in(&env, &txn).expect("a tail");
        env.records.put(&mut txn, keys::TAIL_KEY, &encode(&tail).expect("encodes")).expect("puts");
        txn.commit().expect("commits");
    }

    fn delete_owed_records(catalog: &Catalog) {
        let env = catalog.env().expect("an environment");
        let tasks: Vec<Task> = catalog.owed(None, 100).expect("reads").into_iter().map(|(task, _)| task).collect();
        let mut txn = env.write_txn().expect("a transaction");
        for task in tasks {
            assert!(env.records.delete(&mut txn, &keys::owed(&task)).expect("deletes"));
        }
        txn.commit().expect("commits");
    }

    #[test]
    fn records_are_counted_once_and_again_after_a_program_that_keeps_no_counts() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = Log::open(&dir.path().join("log"), 7).expect("a log");
        let catalog = Catalog::open(&dir.path().join("catalog"), log).expect("a catalog");
        let owed = |catalog: &Catalog| catalog.owed_by_target().expect("counts");
        let objects = |catalog: &Catalog| catalog.count().expect("counts");
        assert_eq!((objects(&catalog), owed(&catalog)), (0, BTreeMap::new()));
        write(&catalog, 0, &[1, 2]);
        // Changed by a program that knows no counts, and then by this one.
        write_bare_tail(&catalog);
        write(&catalog, 10, &[2]);
        let tail = catalog.tail().expect("a tail");
        assert_eq!((objects(&catalog), owed(&catalog)), (1, BTreeMap::from([(1, 1), (2, 2)])));
        assert_eq!(catalog.tail().expect("a tail"), tail);
        write(&catalog, 20, &[2, 3]);
        // Nobody reads the records of pending replicas any more to know their number.
        delete_owed_records(&catalog);
        assert_eq!(owed(&catalog), BTreeMap::from([(1, 1), (2, 3), (3, 1)]));
        write_bare_tail(&catalog);
        assert_eq!(owed(&catalog), BTreeMap::new());
        catalog.commit(Edit::Remove { key: b"a".to_vec() }.into()).expect("commits");
        write(&catalog, 0, &[5]);
        assert_eq!((objects(&catalog), owed(&catalog)), (1, BTreeMap::from([(5, 1)])));
    }
}
