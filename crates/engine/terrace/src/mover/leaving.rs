//! The replicas that may be evicted from a target: those that came first, and among them the coldest.
//!
//! This process remembers what it has put on targets ([`Arrivals`](crate::arrivals::Arrivals)). What others have put is found by a search of
//! the catalog, which takes the longer, the more objects the store has: once at the first eviction, and then rarely.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use terrace_catalog::{Extent, Object, TargetId, Task, frames};

use super::Mover;
use super::edits::replica_on;
use crate::Result;
use crate::arrivals::Arrival;
use crate::devices::Device;

/// The scores that separate classes of hotness. The coldest class is evicted first.
const WARMTH_SCORES: [f64; 3] = [0.5, 4.0, 32.0];
/// The warmest class. The coldest is 0.
pub(super) const MAX_WARMTH: usize = WARMTH_SCORES.len();
/// The ranks of replicas of the coldest class.
const COLD_RANKS: usize = 2;
/// The coldest replicas are chosen among those that take this many times the bytes that have to leave, and are at least
/// [`MIN_COMPARED_REPLICAS`].
const COMPARED_PER_LEAVING_BYTE: u64 = 16;
const MIN_COMPARED_REPLICAS: usize = 256;
/// A search pauses once it has found this many replicas. The next eviction goes on with it.
const MAX_FOUND_REPLICAS: usize = 1 << 16;
/// The time after which a search begins again, for replicas that other processes have put.
const SEARCH_INTERVAL: Duration = Duration::from_secs(600);
/// The same if too little is known that is cold. Searches take at most a tenth of the time then.
const MIN_SEARCH_INTERVAL: Duration = Duration::from_secs(1);
const PAUSE_PER_SEARCH_TIME: u32 = 9;

/// A replica that may be evicted.
pub(super) struct Leaving {
    /// The order of eviction: colder ones first, and among equally cold ones those that can be dropped without a new replica.
    rank: usize,
    pub key: Vec<u8>,
    /// The extent's offset in the object.
    pub offset: u64,
}

impl Leaving {
    /// Returns the class of its hotness.
    pub fn warmth(&self) -> usize {
        self.rank / 2
    }
}

/// Returns the class of a hotness score.
pub(super) fn find_warmth(score: f64) -> usize {
    WARMTH_SCORES.iter().filter(|least| score > **least).count()
}

/// The searches of the catalog for replicas on each target.
pub(super) type Searches = HashMap<TargetId, Search>;

/// A search of the catalog for the replicas on a target.
#[derive(Default)]
pub(super) struct Search {
    /// The last object that it has looked at. None if it is not under way.
    after: Option<Vec<u8>>,
    /// When the last one came to the end.
    ended: Option<Instant>,
    /// The time that its last part took.
    took: Duration,
}

impl Search {
    fn is_due(&self, interval: Duration) -> bool {
        let pause = interval.max(self.took * PAUSE_PER_SEARCH_TIME);
        self.after.is_some() || self.ended.is_none_or(|ended| ended.elapsed() > pause)
    }
}

impl Mover {
    /// Returns replicas that may leave a target for `excess` bytes, in the order of their eviction.
    pub(super) fn find_leaving(&self, device: &Device, excess: u64) -> Result<Vec<Leaving>> {
        let (all, frames) = (Vec::new(), HashSet::new());
        let mut found = Found { mover: self, device, excess, all, frames, spare_bytes: 0, cold_bytes: 0, bytes: 0 };
        if self.is_search_due(device, SEARCH_INTERVAL) {
            found.search()?;
        }
        while !found.is_enough()
            && let Some(Arrival { key, offset }) = self.planning.arrivals.take_first(device.id)
        {
            if let Some((object, extents)) = self.catalog.locate(&key, offset, offset + 1)? {
                found.add(&key, &object, &extents)?;
            }
        }
        if found.cold_bytes < excess && self.is_search_due(device, MIN_SEARCH_INTERVAL) {
            found.search()?;
        }
        found.all.sort_by_key(|leaving| leaving.rank);
        Ok(found.all)
    }

    /// Remembers replicas that have not left. Warm ones come last when they are looked at again.
    pub(super) fn remember_staying(&self, device: &Device, staying: impl Iterator<Item = Leaving>) {
        let (cold, warm): (Vec<Leaving>, Vec<Leaving>) = staying.partition(|leaving| leaving.rank < COLD_RANKS);
        let arrival = |Leaving { key, offset, .. }| Arrival { key, offset };
        self.planning.arrivals.put_first(device.id, cold.into_iter().map(arrival));
        warm.into_iter().for_each(|leaving| self.planning.arrivals.add(device.id, arrival(leaving)));
    }

    fn is_search_due(&self, device: &Device, interval: Duration) -> bool {
        self.state.searches.lock().get(&device.id).is_none_or(|search| search.is_due(interval))
    }
}

/// The replicas that were found so far.
struct Found<'m> {
    mover: &'m Mover,
    device: &'m Device,
    excess: u64,
    all: Vec<Leaving>,
    /// The frames of these. One of several owners of a shared frame is enough.
    frames: HashSet<Task>,
    /// The bytes of those of the lowest rank, of the coldest class, and of all.
    spare_bytes: u64,
    cold_bytes: u64,
    bytes: u64,
}

impl Found<'_> {
    fn is_enough(&self) -> bool {
        let is_compared = self.all.len() >= MIN_COMPARED_REPLICAS
            && self.bytes >= self.excess.saturating_mul(COMPARED_PER_LEAVING_BYTE);
        self.spare_bytes >= self.excess || is_compared
    }

    fn add(&mut self, key: &[u8], object: &Object, extents: &[Extent]) -> Result<()> {
        for extent in frames(extents) {
            let Some(replica) = replica_on(extent, self.device) else { continue };
            if !self.frames.insert(extent.task(object.id, 0)) {
                continue;
            }
            let score = self.mover.planning.hotness.score(key, extent.offset, object.length);
            let rank = 2 * find_warmth(score) + usize::from(!self.mover.is_spare(self.device, object, extent)?);
            let length = u64::from(replica.place.length);
            self.spare_bytes += if rank == 0 { length } else { 0 };
            self.cold_bytes += if rank < COLD_RANKS { length } else { 0 };
            self.bytes += length;
            self.all.push(Leaving { rank, key: key.to_vec(), offset: extent.offset });
        }
        Ok(())
    }

    /// Searches the catalog, or goes on with a search. What is found counts as older than what is remembered.
    fn search(&mut self) -> Result<()> {
        let Mover { catalog, state, planning, .. } = self.mover;
        // Only for this moment: two threads that search at once find the same replicas, and each leaves once.
        let after = state.searches.lock().entry(self.device.id).or_default().after.take();
        if after.is_none() {
            // All of them are found again.
            planning.arrivals.clear(self.device.id);
        }
        let (known, mut last, begun) = (self.all.len(), None, Instant::now());
        catalog.each_object_after(b"", after, |key, object, extents| {
            self.add(key, object, extents)?;
            last = (self.all.len() - known >= MAX_FOUND_REPLICAS).then(|| key.to_vec());
            Ok::<_, crate::Error>(last.is_none())
        })?;
        self.all.rotate_left(known);
        let ended = last.is_none().then(Instant::now);
        let mut searches = state.searches.lock();
        let search = searches.entry(self.device.id).or_default();
        *search = Search { after: last, ended: ended.or(search.ended), took: begun.elapsed() };
        Ok(())
    }
}
