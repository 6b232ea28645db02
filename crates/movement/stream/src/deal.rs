//! Deals the destinations of a stream over the nodes that run it.
//!
//! A destination belongs to one of 64 shares, by a hash of its name. Each node that runs the stream is a worker: it has a record, which it
//! changes every two seconds (`heartbeat.rs`). All workers compute from these records who gets which share. A worker claims its shares by conditional
//! changes, each once the worker that has it has given it up or is silent; and gives up a share that another one gets once none of its
//! requests is being delivered. Each commit of a destination's progress expects that the claim still holds.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace::{Batch, Locked, Object, Store};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::claim::{Claim, Claimant, find, holder, is_there, runner_key};
use crate::heartbeat::{HEARTBEAT_INTERVAL, Heartbeat, MAX_SILENCE, PLACE_ATTRIBUTE, WORKERS_FOLDER, is_silent};
use crate::request::Name;
use crate::{Error, Result};

const SHARE_COUNT: usize = 64;
const SHARES_FOLDER: &str = "/shares";
/// The share whose holder trims the log.
const TRIMMING_SHARE: usize = 0;

/// The delivery to the destinations that this process has.
pub trait Delivery {
    /// Returns whether no request to these destinations is being delivered.
    fn is_idle(&self, is_one: &dyn Fn(&[u8]) -> bool) -> bool;

    /// Forgets what it knows of these destinations, which this process will have: others may have delivered to them.
    fn forget(&self, is_one: &dyn Fn(&[u8]) -> bool);

    /// Tries destinations again to which the last write of this process failed.
    fn retry(&self, failed: Vec<Name>);
}

/// The shares of a stream's destinations that this process has.
pub struct Deal {
    store: Store,
    folder: String,
    stream: String,
    node: String,
    /// All workers deliver to the same place.
    heartbeat: Heartbeat,
    /// A leaf, held for a look or a change.
    shares: Mutex<Shares>,
    /// Held during a round of `tend`, which only one thread runs.
    heard: Mutex<Heard>,
    /// Released last.
    _lock: Locked,
}

#[derive(Default)]
struct Shares {
    held: HashMap<usize, Claim>,
    /// Held shares that other workers will have: their requests are not handed out any more.
    leaving: HashSet<usize>,
    /// Destinations whose last write failed: the pipeline holds no requests for them until it asks for these again.
    failing: HashSet<Name>,
    /// The number of times at which this process has got shares.
    gained: u64,
}

/// The shares whose requests this process hands out, at one moment.
#[derive(Clone, Copy)]
pub struct HeldShares {
    /// A bit for each share.
    bits: u64,
    /// The number of times at which this process has got shares. Until it changes, shares only go: a reader of the log that has left out a
    /// request hands out none that comes after it, and begins again once this has changed.
    pub gained: u64,
}

impl HeldShares {
    /// Returns whether this process hands out requests to a destination.
    pub fn has(self, destination: &[u8]) -> bool {
        self.bits & 1 << share_of(destination) != 0
    }
}

/// The workers, as far as this process has heard.
#[derive(Default)]
struct Heard {
    /// The time of the last look at the records.
    looked: Option<Instant>,
    /// The generation of each worker's record, and for how long this process has seen no other one.
    records: HashMap<String, (u64, Duration)>,
}

impl Deal {
    /// Joins the workers of the stream whose objects lie below `folder`. The first [`Deal::tend`] claims shares.
    ///
    /// # Errors
    /// [`Error::Running`] if a process runs the stream alone; [`Error::OtherPlace`] if a worker delivers to another place.
    pub fn join(store: &Store, folder: &str, stream: &str, node: String, place: String, lock: Locked) -> Result<Deal> {
        if let Some(runner) = find(store, &runner_key(folder))?
            && let Some(other) = holder(&runner).filter(|other| *other != node)
            && is_there(store, other)?
        {
            return Err(Error::Running(stream.to_owned()));
        }
        let deal = Deal {
            store: store.clone(),
            folder: folder.to_owned(),
            stream: stream.to_owned(),
            heartbeat: Heartbeat::new(store, folder, &node, place),
            node,
            shares: Mutex::default(),
            heard: Mutex::default(),
            _lock: lock,
        };
        deal.check_place()?;
        Ok(deal)
    }

    fn check_place(&self) -> Result<()> {
        for (node, object) in self.records()? {
            let place = object.attributes.user.get(PLACE_ATTRIBUTE).cloned().unwrap_or_default();
            // A record may be left of a process that was killed.
            let is_elsewhere = node != self.node && place != self.heartbeat.place();
            if is_elsewhere && !is_silent(&self.store, &self.folder, &node)? {
                return Err(Error::OtherPlace { stream: self.stream.clone(), node, place });
            }
        }
        Ok(())
    }

    /// Returns the shares whose requests this process hands out. It may have lost some without knowing it yet: nothing is written without
    /// [`Deal::claim_on`].
    pub fn held_shares(&self) -> HeldShares {
        let shares = self.shares.lock();
        let held = shares.held.keys().filter(|share| !shares.leaving.contains(share));
        HeldShares { bits: held.fold(0, |bits, share| bits | 1 << share), gained: shares.gained }
    }

    /// Returns whether this process hands out requests to a destination.
    pub fn has(&self, destination: &[u8]) -> bool {
        self.held_shares().has(destination)
    }

    /// Returns this process's claim on a destination, if no other process can have taken it. What was written under it is committed under it: another node may have delivered to the
    /// destination before this process has another claim.
    pub fn claim_on(&self, destination: &[u8]) -> Option<Claim> {
        let claim = self.shares.lock().held.get(&share_of(destination)).cloned();
        claim.filter(|_| self.heartbeat.is_fresh())
    }

    /// Returns whether this process trims the log.
    pub fn trims(&self) -> bool {
        self.heartbeat.is_fresh() && self.shares.lock().held.contains_key(&TRIMMING_SHARE)
    }

    /// Makes a batch expect that this process still has a destination, or the right to trim the log.
    ///
    /// # Errors
    /// [`Error::TakenOver`] if it has not.
    pub fn guard(&self, batch: &mut Batch<'_>, destination: Option<&[u8]>) -> Result<()> {
        let share = destination.map_or(TRIMMING_SHARE, share_of);
        match self.shares.lock().held.get(&share) {
            Some(claim) => {
                claim.guard(batch);
                Ok(())
            }
            None => Err(self.taken_over()),
        }
    }

    /// The error of a change of a destination that another node has.
    pub fn taken_over(&self) -> Error {
        Error::TakenOver(self.stream.clone())
    }

    /// Notes that a write to a destination failed, or that it is tried again.
    pub fn note(&self, destination: &Name, is_failing: bool) {
        let failing = &mut self.shares.lock().failing;
        match is_failing {
            true => drop(failing.insert(destination.clone())),
            false => drop(failing.remove(destination)),
        }
    }

    /// Returns whether the pipeline may hold requests for a destination that were handed out.
    pub fn may_be_moving(&self, destination: &Name) -> bool {
        !self.shares.lock().failing.contains(destination)
    }

    /// Says that this process is there, gives up shares, and claims others. Called about once a second.
    pub fn tend(&self, delivery: &dyn Delivery) -> Result<()> {
        let mut heard = self.heard.lock(); // see the field
        let begun = self.heartbeat.beat(None)?;
        let workers = self.workers(&mut heard)?;
        let owner =
            |share: usize| workers.iter().max_by_key(|worker| xxh3_64_with_seed(worker.as_bytes(), share as u64));
        let is_own = |share: usize| owner(share).is_some_and(|worker| *worker == self.node);
        let claims = shares(&self.store, &self.folder)?;
        {
            let Shares { held, leaving, gained, .. } = &mut *self.shares.lock();
            // Others have taken some if this process was paused. Its writes that are under way cannot be committed.
            held.retain(|share, claim| {
                claims.get(*share).and_then(|(_, now)| now.as_ref()).is_some_and(|now| claim.is(now))
            });
            leaving.retain(|share| held.contains_key(share));
            for &share in held.keys() {
                // Requests that came meanwhile were not handed out.
                *gained += u64::from(is_own(share) && leaving.remove(&share));
                if !is_own(share) {
                    leaving.insert(share);
                }
            }
        }
        // Only now: claims that others have taken are gone from `held`.
        self.heartbeat.confirm(begun);
        self.give_up(delivery)?;
        let held: HashSet<usize> = self.shares.lock().held.keys().copied().collect();
        let wanted: Vec<usize> = (0..SHARE_COUNT).filter(|share| is_own(*share) && !held.contains(share)).collect();
        if wanted.is_empty() { Ok(()) } else { self.claim(&wanted, &claims, &workers, delivery) }
    }

    /// Gives up the shares that other workers will have, once they are idle.
    fn give_up(&self, delivery: &dyn Delivery) -> Result<()> {
        let leaving: Vec<usize> = self.shares.lock().leaving.iter().copied().collect();
        for share in leaving {
            if delivery.is_idle(&|destination| share_of(destination) == share) {
                let Some(claim) = self.shares.lock().held.get(&share).cloned() else { continue };
                let mut batch = self.store.batch();
                claim.release(&mut batch);
                match batch.commit() {
                    // Or another worker has taken it.
                    Ok(_) | Err(terrace::Error::Conflict { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                let Shares { held, leaving, .. } = &mut *self.shares.lock();
                held.remove(&share);
                leaving.remove(&share);
            }
        }
        Ok(())
    }

    /// Claims those of these shares that no living worker has.
    fn claim(
        &self,
        wanted: &[usize],
        claims: &[(Vec<u8>, Option<Object>)],
        workers: &[String],
        delivery: &dyn Delivery,
    ) -> Result<()> {
        let claimant = Claimant::new(&self.store, &self.node)?;
        let is_free = |share: &Option<Object>| {
            let other = share.as_ref().and_then(holder);
            other.is_none_or(|other| other == self.node || !workers.iter().any(|worker| worker == other))
        };
        let free = wanted.iter().filter(|share| claims.get(**share).is_some_and(|(_, object)| is_free(object)));
        let free: HashSet<usize> = free.copied().collect();
        if free.is_empty() {
            return Ok(());
        }
        let mut batch = self.store.batch();
        let runner = runner_key(&self.folder);
        match find(&self.store, &runner)? {
            Some(object) if is_free(&Some(object.clone())) => {
                batch.unchanged(&runner, &object);
                batch.remove(&runner);
            }
            // It may still be there.
            Some(_) => return Ok(()),
            None => batch.absent(&runner),
        }
        for share in &free {
            if let Some((key, object)) = claims.get(*share) {
                claimant.claim(&mut batch, key, object.as_ref())?;
            }
        }
        match batch.commit() {
            Ok(_) => {}
            // Another worker was quicker with one of them. The next round looks again.
            Err(terrace::Error::Conflict { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        // Before the shares are there: what is known of their destinations is from the time before others had them.
        let is_one = |destination: &[u8]| free.contains(&share_of(destination));
        delivery.forget(&is_one);
        let now = shares(&self.store, &self.folder)?;
        let own = now.iter().enumerate().filter(|(share, _)| free.contains(share));
        let own = own.filter_map(|(share, (key, object))| Some((share, claimant.own(key, object.as_ref()?)?)));
        let failed: Vec<Name> = {
            let Shares { held, failing, gained, .. } = &mut *self.shares.lock();
            held.extend(own);
            *gained += 1;
            failing.iter().filter(|one| is_one(one)).cloned().collect()
        };
        delivery.retry(failed);
        Ok(())
    }

    /// Returns the records of all workers.
    fn records(&self) -> Result<Vec<(String, Object)>> {
        let folder = format!("{}{WORKERS_FOLDER}", self.folder);
        let listed = self.store.list(folder.as_bytes(), None, usize::MAX)?;
        let name = |key: &[u8]| String::from_utf8_lossy(key.get(folder.len() + 1..).unwrap_or_default()).into_owned();
        Ok(listed.into_iter().map(|(key, object)| (name(&key), object)).collect())
    }

    /// Returns the names of the workers that are there, this one included.
    fn workers(&self, heard: &mut Heard) -> Result<Vec<String>> {
        let records = self.records()?;
        let since = heard.looked.replace(Instant::now()).map_or(Duration::ZERO, |looked| looked.elapsed());
        // While the log did not answer, nobody was heard: all would take over from each other as soon as it answers.
        let listened = since.min(HEARTBEAT_INTERVAL);
        let mut workers = Vec::new();
        for (node, object) in records {
            let (generation, silence) =
                heard.records.entry(node.clone()).or_insert((object.generation, Duration::ZERO));
            (*generation, *silence) = match *generation == object.generation {
                true => (*generation, *silence + listened),
                false => (object.generation, Duration::ZERO),
            };
            // Also those whose nodes are away: a process that does not know it may deliver for a while.
            if node == self.node || *silence < MAX_SILENCE {
                workers.push(node);
            }
        }
        Ok(workers)
    }
}

impl Drop for Deal {
    /// Gives up all shares. The pipeline has ended, so no request is being delivered.
    fn drop(&mut self) {
        let mut batch = self.store.batch();
        self.shares.lock().held.values().for_each(|claim| claim.release(&mut batch));
        if let Err(error) = batch.commit() {
            // Other workers take the shares once this one has been silent for a while.
            tracing::debug!(%error, "shares of a stream were not given up");
        }
        self.heartbeat.end();
    }
}

fn share_of(destination: &[u8]) -> usize {
    (xxh3_64(destination) % SHARE_COUNT as u64) as usize
}

/// Returns the keys of the claims on all shares, and the claims that are there.
pub fn shares(store: &Store, folder: &str) -> Result<Vec<(Vec<u8>, Option<Object>)>> {
    let listed = store.list(format!("{folder}{SHARES_FOLDER}").as_bytes(), None, SHARE_COUNT)?;
    let mut claimed: HashMap<Vec<u8>, Object> = listed.into_iter().collect();
    let key = |share: usize| format!("{folder}{SHARES_FOLDER}/{share:02}").into_bytes();
    Ok((0..SHARE_COUNT).map(key).map(|key| (key.clone(), claimed.remove(&key))).collect())
}
