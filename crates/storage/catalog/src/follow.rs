//! Carries out the records of a log that several nodes share. All nodes get the same records in the same order and reach the same
//! verdicts, because these depend on the catalog and the record only: never on a clock, a configuration, or what a node was asked.

use heed::RwTxn;
use serde::{Deserialize, Serialize};
use terrace_format::{Change, Proposal, Step};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::apply::Applier;
use super::environment::Environment;
use super::members::Member;
use super::verdict::Verdict;
use super::{Catalog, counts, decode, encode, keys};
use crate::{Error, Result};

/// The outcomes of this many changes of each session are kept. A client has fewer changes under way.
const MAX_KEPT_OUTCOMES: u64 = 64;

/// How far a catalog has followed a shared log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Followed {
    /// The place of the last record that was carried out; the first record has 1.
    pub slot: u64,
    /// A checksum over all records up to that one. Nodes whose chains differ at one slot have followed different logs.
    pub chain: u64,
    /// The highest time of these records, in seconds since 1970.
    pub time: u64,
}

impl Catalog {
    /// Returns how far this catalog has followed a shared log.
    pub fn followed(&self) -> Result<Followed> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        followed_in(&env, &txn)
    }

    /// Returns the verdict of a session's change, if it has been carried out or refused, and is not forgotten.
    pub fn verdict(&self, session: u64, number: u64) -> Result<Option<Verdict>> {
        self.read_record(&keys::outcome(session, number), "the outcome of a change")
    }

    /// Returns the sessions that have begun and not ended.
    pub fn sessions(&self) -> Result<Vec<u64>> {
        let env = self.env()?;
        let txn = env.read_txn()?;
        let keys = env.records.prefix_iter(&txn, &[keys::SESSION_LETTER])?;
        let mut sessions: Vec<u64> = Vec::new();
        for entry in keys {
            sessions.extend(keys::number(entry?.0, 1));
        }
        // The outcomes of a session follow it.
        sessions.dedup();
        Ok(sessions)
    }

    /// Carries out the records that come after those carried out before, the first of them at `slot`, in one transaction. Returns
    /// the verdicts of the steps of each record.
    ///
    /// # Errors
    /// [`Error::OutOfOrder`] if a record does not follow from the one before, or does not decode. After this and every other
    /// error, nothing of these records has been carried out, and none may be skipped.
    pub fn follow(&self, slot: u64, records: &[impl AsRef<[u8]>]) -> Result<Vec<Vec<Verdict>>> {
        let env = self.env()?;
        let mut txn = env.write_txn()?;
        let mut tail = self.tail_in(&env, &txn)?;
        let mut followed = followed_in(&env, &txn)?;
        let mut verdicts = Vec::with_capacity(records.len());
        for (slot, record) in (slot..).zip(records) {
            let record = record.as_ref();
            let proposal = Proposal::decode(record, self.log.store())
                .map_err(|e| Error::OutOfOrder { slot, reason: e.to_string() })?;
            self.check_order(&env, &mut txn, followed.slot, slot, &proposal)?;
            followed = Followed {
                slot,
                chain: xxh3_64_with_seed(record, followed.chain),
                time: followed.time.max(proposal.time),
            };
            let mut applier = Applier::new(env.records, &mut txn, tail.sequence, followed.time);
            let carry_out = |step| applier.carry_out(proposal.incarnation, step);
            verdicts.push(proposal.steps.iter().map(carry_out).collect::<Result<_>>()?);
            tail.sequence = applier.sequence;
            applier.finish()?;
        }
        env.records.put(&mut txn, keys::FOLLOWED_KEY, &encode(&followed)?)?;
        counts::put_tail(&env, &mut txn, &tail)?;
        self.environment.commit(txn)?;
        Ok(verdicts)
    }

    /// Checks that a record is the next one of the log and of its incarnation, and notes it.
    fn check_order(
        &self,
        env: &Environment,
        txn: &mut RwTxn<'_>,
        last: u64,
        slot: u64,
        proposal: &Proposal,
    ) -> Result<()> {
        let out_of_order = |reason| Err(Error::OutOfOrder { slot, reason });
        if slot != last + 1 {
            return out_of_order(format!("the last one that was carried out is {last}"));
        }
        let key = keys::incarnation(proposal.incarnation);
        let member: Member = match env.records.get(txn, &key)? {
            Some(value) => decode(value, "the record of an incarnation")?,
            None => Member::default(),
        };
        if proposal.number != member.next {
            let (Proposal { incarnation, number, .. }, next) = (proposal, member.next);
            return out_of_order(format!("it is number {number} of incarnation {incarnation}, and {next} is the next"));
        }
        Ok(env.records.put(txn, &key, &encode(&Member { next: member.next + 1, ..member })?)?)
    }
}

pub(super) fn followed_in(env: &Environment, txn: &heed::RoTxn<'_>) -> Result<Followed> {
    let value = env.records.get(txn, keys::FOLLOWED_KEY)?;
    value.map_or(Ok(Followed::default()), |value| decode(value, "the place in the shared log"))
}

impl Applier<'_, '_> {
    fn carry_out(&mut self, incarnation: u64, step: &Step) -> Result<Verdict> {
        match step {
            Step::Join { node } => self.join(incarnation, node),
            Step::Leave { incarnation } => self.leave(*incarnation),
            Step::Report { sequence, pins } => self.report(incarnation, *sequence, pins),
            Step::Serve { target, persistent, doubtful } => self.serve(incarnation, *target, *persistent, *doubtful),
            Step::Synced { target, sequence } => self.note_synced(incarnation, *target, *sequence),
            Step::Floor { sequence } => self.raise_floor(*sequence),
            Step::Begin { session } => {
                self.records.put(self.txn, &keys::session(*session), &[])?;
                Ok(Verdict::Done(self.sequence))
            }
            Step::End { session } => {
                for prefix in [keys::session(*session), keys::pieces(*session)] {
                    let kept =
                        self.records.prefix_iter(self.txn, &prefix)?.map(|entry| entry.map(|(key, _)| key.to_vec()));
                    for key in kept.collect::<Result<Vec<_>, _>>()? {
                        self.records.delete(self.txn, &key)?;
                    }
                }
                Ok(Verdict::Done(self.sequence))
            }
            Step::Change { session, number, change } => match self.earlier_verdict(*session, *number)? {
                Some(verdict) => Ok(verdict),
                None => self.decide_for(*session, *number, Some(change)),
            },
            Step::Piece { session, number, piece, bytes } => match self.earlier_verdict(*session, *number)? {
                Some(verdict) => Ok(verdict),
                None => {
                    self.records.put(self.txn, &keys::piece(*session, *number, *piece), bytes)?;
                    Ok(Verdict::Done(self.sequence))
                }
            },
            Step::Whole { session, number, pieces } => match self.earlier_verdict(*session, *number)? {
                Some(verdict) => Ok(verdict),
                None => {
                    let change = self.take_pieces(*session, *number, *pieces)?;
                    self.decide_for(*session, *number, change.as_ref())
                }
            },
        }
    }

    /// Decides a change that has not been decided before, and keeps the verdict. One whose pieces are not all there is refused.
    fn decide_for(&mut self, session: u64, number: u64, change: Option<&Change>) -> Result<Verdict> {
        let verdict = change.map_or(Ok(Verdict::Refused), |change| self.decide(change))?;
        self.put(&keys::outcome(session, number), &verdict)?;
        if let Some(old) = number.checked_sub(MAX_KEPT_OUTCOMES) {
            self.records.delete(self.txn, &keys::outcome(session, old))?;
        }
        Ok(verdict)
    }

    /// Joins the pieces of a change, which are not needed any more. None if one is missing.
    fn take_pieces(&mut self, session: u64, number: u64, pieces: u32) -> Result<Option<Change>> {
        let mut bytes = Vec::new();
        for key in (0..pieces).map(|piece| keys::piece(session, number, piece)) {
            bytes.extend_from_slice(self.records.get(self.txn, &key)?.unwrap_or_default());
            self.records.delete(self.txn, &key)?;
        }
        Ok(Step::join(&bytes))
    }

    /// Returns the verdict of a change without carrying it out: it is repeated, or its session does not allow it.
    fn earlier_verdict(&self, session: u64, number: u64) -> Result<Option<Verdict>> {
        if self.records.get(self.txn, &keys::session(session))?.is_none() {
            return Ok(Some(Verdict::NoSession));
        }
        if let Some(value) = self.records.get(self.txn, &keys::outcome(session, number))? {
            return Ok(Some(decode(value, "the outcome of a change")?));
        }
        let newest = self.records.rev_prefix_iter(self.txn, &keys::session(session))?.next().transpose()?;
        let newest = newest.and_then(|(key, _)| keys::number(key, 9)).unwrap_or(0);
        Ok((newest >= number.saturating_add(MAX_KEPT_OUTCOMES)).then_some(Verdict::Forgotten))
    }

    /// Checks a change and, if its expectations hold, applies it.
    fn decide(&mut self, change: &Change) -> Result<Verdict> {
        if self.names_stale_frame(change)? {
            return Ok(Verdict::Stale);
        }
        match self.check(change) {
            Ok(()) => {}
            Err(Error::Conflict { .. }) => return Ok(Verdict::Conflict),
            Err(Error::NotFound { .. }) => return Ok(Verdict::NotFound),
            // Not a verdict: another node may not meet this error.
            Err(e) => return Err(e),
        }
        self.begin(self.sequence + 1, &change.edits);
        for edit in &change.edits {
            self.apply(edit)?;
        }
        Ok(Verdict::Done(self.sequence))
    }
}
