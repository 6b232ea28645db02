//! Snapshots: the whole catalog at one commit, from which a rebuild starts. See `docs/format.md`.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use heed::{PutFlags, RoTxn, RwTxn};

use super::chunks::{self, Chunks};
use super::environment::Environment;
use super::follow::{Followed, followed_in};
use super::members::Served;
use super::{Catalog, decode, encode, keys};
use crate::log::Tail;
use crate::{Error, Result};

/// A lost log had fewer incarnations than this that the catalog of its successor has not seen.
const MAX_UNKNOWN_INCARNATIONS: u32 = 1024;

impl Catalog {
    /// Writes every record, as of one commit, into a new file, and makes the file durable. Returns the log's end at that commit,
    /// and the last commit that a sync mark covers.
    pub fn write_snapshot(&self, path: &Path) -> Result<(Tail, u64)> {
        let describe = |env: &Environment, txn: &RoTxn<'_>| Ok((self.tail_in(env, txn)?, self.synced_in(env, txn)?));
        self.write_all_records(path, describe, |_, value| Ok(Some(Cow::Borrowed(value))))
    }

    /// Like [`Catalog::write_snapshot`], for other nodes of a shared log. Returns how far the snapshot has followed it.
    pub fn write_snapshot_for_others(&self, path: &Path) -> Result<Followed> {
        self.write_all_records(path, followed_in, |_, value| Ok(Some(Cow::Borrowed(value))))
    }

    /// Like [`Catalog::write_snapshot_for_others`], with which a new log begins in the place of a lost one, as if this were its first
    /// record, and left this `chain`. No node has joined that log, and no client is known there.
    pub fn write_snapshot_for_new_log(&self, path: &Path, chain: u64) -> Result<Followed> {
        let begin = |env: &Environment, txn: &RoTxn<'_>| Ok(Followed { slot: 1, chain, ..followed_in(env, txn)? });
        self.write_all_records(path, begin, |key, value| match key.first() {
            Some(&keys::INCARNATION_LETTER | &keys::SESSION_LETTER) => Ok(None),
            // The new log gives numbers to incarnations from the beginning.
            Some(&keys::SERVED_LETTER) => {
                let served: Served = decode(value, "the record of a served target")?;
                Ok(Some(Cow::Owned(encode(&Served { incarnation: 0, ..served })?)))
            }
            // Those that joined the lost log unknown to this catalog have made segments, which must not be made again.
            _ if key == keys::JOINED_KEY => {
                let joined: u32 = decode(value, "the number of incarnations")?;
                Ok(Some(Cow::Owned(encode(&joined.saturating_add(MAX_UNKNOWN_INCARNATIONS))?)))
            }
            _ if key == keys::FOLLOWED_KEY => {
                let followed: Followed = decode(value, "the place in the shared log")?;
                Ok(Some(Cow::Owned(encode(&Followed { slot: 1, chain, ..followed })?)))
            }
            _ => Ok(Some(Cow::Borrowed(value))),
        })
    }

    fn write_all_records<T>(
        &self,
        path: &Path,
        describe: impl FnOnce(&Environment, &RoTxn<'_>) -> Result<T>,
        change: impl for<'v> Fn(&[u8], &'v [u8]) -> Result<Option<Cow<'v, [u8]>>>,
    ) -> Result<T> {
        let context = || format!("writing {}", path.display());
        // A file that is there may keep room for this one, which a full disk would not give a second time.
        let file = File::options().create(true).write(true).truncate(false).mode(0o600).open(path);
        let mut out = BufWriter::new(file.map_err(Error::io(context()))?);
        let env = self.env()?;
        let txn = env.read_txn()?;
        let described = describe(&env, &txn)?;
        let mut chunks = Chunks::begin(self.log.store(), &mut out).map_err(Error::io(context()))?;
        for entry in env.records.iter(&txn)? {
            let (key, value) = entry?;
            if key.first() == Some(&keys::LEASE_LETTER) {
                continue;
            }
            if let Some(value) = change(key, value)? {
                chunks.add(key, &value).map_err(Error::io(context()))?;
            }
        }
        chunks.end().map_err(Error::io(context()))?;
        // Before the file is synced, which may take seconds: meanwhile LMDB could use no page again that a commit frees.
        drop(txn);
        let mut file = out.into_inner().map_err(|e| Error::io(context())(e.into_error()))?;
        file.stream_position().and_then(|length| file.set_len(length)).map_err(Error::io(context()))?;
        // The caller renames the file and then deletes the log that it replaces, so its bytes must be durable before that.
        file.sync_all().map_err(Error::io(context()))?;
        Ok(described)
    }

    /// Replaces all records by those of a snapshot that has followed the shared log further, in one transaction: readers see the old or
    /// the new ones. This node's leases and its next number stay. Returns false, and changes nothing, if the snapshot is not whole or
    /// not newer.
    pub fn replace_by_snapshot(&self, path: &Path) -> Result<bool> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        let before = followed_in(&env, &txn)?.slot;
        let mut own: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        for prefix in [&[keys::LEASE_LETTER][..], keys::NEXT_ID] {
            for entry in env.records.prefix_iter(&txn, prefix)? {
                own.push(entry.map(|(key, value)| (key.to_vec(), value.to_vec()))?);
            }
        }
        env.records.clear(&mut txn)?;
        if !self.fill(&env, &mut txn, path)? || followed_in(&env, &txn)?.slot <= before {
            txn.abort();
            return Ok(false);
        }
        for (key, value) in own {
            env.records.put(&mut txn, &key, &value)?;
        }
        self.environment.commit(txn)?;
        Ok(true)
    }

    /// Fills this new catalog from a snapshot. Returns false, and changes nothing, if the snapshot is not whole.
    pub fn load_snapshot(&self, path: &Path) -> Result<bool> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        let whole = self.fill(&env, &mut txn, path)?;
        if whole {
            self.environment.commit(txn)?
        } else {
            txn.abort()
        }
        Ok(whole)
    }

    /// Adds the records of a snapshot where there are none. Returns whether the snapshot is whole.
    fn fill(&self, env: &Environment, txn: &mut RwTxn<'_>, path: &Path) -> Result<bool> {
        chunks::read_file(path, self.log.store(), |key, value| {
            Ok(env.records.put_with_flags(txn, PutFlags::APPEND, key, value)?)
        })
    }
}

/// Reads the log's end from a snapshot. `None` if the snapshot is not whole.
pub fn snapshot_tail(path: &Path, store: u64) -> Result<Option<Tail>> {
    let mut tail = None;
    let whole = chunks::read_file(path, store, |key, value| {
        if key == keys::TAIL_KEY {
            tail = Some(decode(value, "the log's tail")?);
        }
        Ok(())
    })?;
    Ok(tail.filter(|_| whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes joined a log after its last snapshot was written, and made segments, before all was lost but the snapshot.
    #[test]
    fn a_new_log_gives_no_number_of_an_incarnation_that_it_does_not_know() {
        let dir = tempfile::tempdir().expect("a folder");
        let open = |name: &str| {
            let log = crate::log::Log::open(&dir.path().join(name).join("log"), 1).expect("a log");
            Catalog::open(&dir.path().join(name).join("catalog"), log).expect("a catalog")
        };
        let join = |catalog: &Catalog, slot: u64, incarnation: u64| {
            let steps = vec![terrace_format::Step::Join { node: incarnation.to_string() }];
            let proposal = terrace_format::Proposal { incarnation, number: 0, time: 0, steps };
            catalog.follow(slot, &[proposal.encode(1)]).expect("follows");
            catalog.member(incarnation).expect("reads").expect("has joined").short
        };
        let old = open("old");
        join(&old, 1, 10);
        let file = dir.path().join("snapshot");
        old.write_snapshot_for_new_log(&file, 7).expect("writes");
        let unknown: Vec<u32> = (2..100).map(|slot| join(&old, slot, 10 + slot)).collect();
        let new = open("new");
        assert!(new.load_snapshot(&file).expect("reads"));
        // The new log's incarnations begin with lower numbers.
        let short = join(&new, 2, 3);
        assert!(!unknown.contains(&short) && new.member(10).expect("reads").is_none());
    }
}
