//! Proposes replicas in other layouts, from how a dataset is read: those by which the reads that were noted would fetch fewer bytes.

mod candidates;
mod estimate;
mod report;
mod tiles;

use std::sync::Arc;

use terrace::{Affine, Price, PutOptions};
use terrace_views::model::Sizes;

use crate::access::{Access, Run, Shape};
use crate::attempt::AttemptError;
use crate::dataset::Dataset;
use crate::declared::Declared;
use crate::loaded::{Loaded, Projection};
use crate::shared::Shared;
use crate::state::State;
use crate::ways::Ways;
use crate::{Error, Result};
use candidates::{Candidate, candidates};
use estimate::{Fetch, estimate};

pub use report::{Advice, NotedAccess, NotedField, Proposal, Verdict};

/// A layout by which reads fetch more than this share of the bytes is not worth a replica.
const MAX_FETCHED_SHARE: f64 = 0.9;
/// The number of places of a candidate, and the bytes there, by which its encoding is estimated.
const SAMPLE_COUNT: u64 = 3;
const SAMPLE_BYTES: u64 = 256 << 10;
/// The price of a replica without stored bytes.
const UNKNOWN_READ_PRICE: Affine = Affine { fixed: 0.0, per_byte: 1e-9 };
/// The store divides objects into extents of at most this length. Each is an operation of its target.
const EXTENT_BYTES: f64 = (1 << 20) as f64;

impl Dataset {
    /// Compares the replicas with others that could be added, for the reads that were noted.
    pub fn advise(&self) -> Result<Advice> {
        let (loaded, state) = self.shared.load()?;
        let accesses = self.shared.accesses.list(&loaded);
        let advisor = Advisor::new(&self.shared, loaded, state, accesses)?;
        let mut proposals: Vec<Proposal> = Vec::new();
        let mut known = Vec::new();
        for candidate in candidates(&advisor.loaded.declared.model, &advisor.accesses) {
            let Some(next) = advisor.with(&candidate)? else { continue };
            let layouts = || next.replicas.iter().rev().map(|replica| &replica.layout);
            let Some(new) = layouts().next() else { continue };
            if layouts().skip(1).chain(&known).any(|other| other.is_same(new)) {
                continue;
            }
            known.push(new.clone());
            proposals.extend(advisor.weigh(&candidate, &next)?);
        }
        proposals.sort_by(|a, b| b.net_seconds().total_cmp(&a.net_seconds()));
        let accesses = advisor.accesses.iter().zip(&advisor.now);
        let accesses = accesses.map(|((access, shape), now)| NotedAccess::new(&advisor.loaded, access, shape, now));
        Ok(Advice { dataset: self.name().to_owned(), accesses: accesses.collect(), proposals })
    }

    /// Adds a proposed replica, and makes it from the others.
    ///
    /// # Errors
    /// Those of [`Dataset::change`].
    pub fn add_proposed(&self, proposal: &Proposal) -> Result<()> {
        self.change(&Declared::parse(&format!("{}\n{}", self.declaration()?, proposal.declaration))?)
    }
}

/// A dataset, how it is read, and the prices of that.
struct Advisor<'a> {
    shared: &'a Shared,
    loaded: Arc<Loaded>,
    state: State,
    accesses: Vec<(Access, Shape)>,
    /// The replicas that lack nothing.
    used: Vec<bool>,
    /// The times to read from each file, and the rates of the replicas.
    prices: Vec<Affine>,
    rates: Vec<f64>,
    /// The bytes that each access fetches now, and the time.
    now: Vec<Fetch>,
}

impl<'a> Advisor<'a> {
    fn new(
        shared: &'a Shared,
        loaded: Arc<Loaded>,
        state: State,
        mut accesses: Vec<(Access, Shape)>,
    ) -> Result<Advisor<'a>> {
        let used = state.current(&loaded);
        // What no replica has in full is repaired first.
        let is_whole =
            |access: &Access| loaded.view(&access.view).is_ok_and(|view| loaded.has_all(Projection::View(view), &used));
        accesses.retain(|(access, _)| is_whole(access));
        let (mut prices, mut rates) = (Vec::new(), Vec::new());
        for replica in &loaded.replicas {
            let first = loaded.files.get(replica.first_file).filter(|_| !accesses.is_empty());
            let price = match first.map(|file| shared.store.stored_price(&file.key)).transpose() {
                Err(terrace::Error::NotFound { .. } | terrace::Error::Unreadable { .. }) => None,
                price => price?.flatten(),
            };
            prices.extend(replica.files().map(|_| price.map_or(UNKNOWN_READ_PRICE, |price| price.read)));
            rates.push(price.map_or(1.0 / UNKNOWN_READ_PRICE.per_byte, |price| price.rate));
        }
        let mut advisor = Advisor { shared, loaded, state, accesses, used, prices, rates, now: Vec::new() };
        advisor.now = advisor.fetches(&advisor.loaded, &advisor.used, &advisor.rates, UNKNOWN_READ_PRICE)?;
        Ok(advisor)
    }

    /// Returns what each access fetches, if these replicas of `loaded` are read at these rates. Files that are not there yet are read at the
    /// price `new`.
    fn fetches(&self, loaded: &Loaded, used: &[bool], rates: &[f64], new: Affine) -> Result<Vec<Fetch>> {
        let fetch = |(access, _): &(Access, Shape)| {
            let ways = loaded.ways_at(Projection::View(loaded.view(&access.view)?), used, rates)?;
            self.fetch(&ways, &access.run(), new)
        };
        self.accesses.iter().map(fetch).collect()
    }

    fn fetch(&self, ways: &Ways, run: &Run, new: Affine) -> Result<Fetch> {
        estimate(ways, run, |file| self.prices.get(file).copied().unwrap_or(new))
    }

    /// Returns the dataset with a candidate as its last replica. None if that is not possible.
    fn with(&self, candidate: &Candidate) -> Result<Option<Loaded>> {
        let Ok(declared) = Declared::parse(&format!("{}\n{}", self.loaded.declared.text, candidate.text)) else {
            return Ok(None);
        };
        let fits = |sizes: Sizes| Loaded::new(&self.shared.name, self.loaded.object.clone(), declared.clone(), sizes);
        // Arrays of variable length may shrink to nothing.
        let (Ok(_), Ok(next)) = (fits(Sizes::new()), fits(self.loaded.sizes.clone())) else { return Ok(None) };
        let sources: Vec<usize> = (0..self.used.len()).filter(|number| self.used.get(*number) == Some(&true)).collect();
        let made = next.declared.model.replicas.last().is_some_and(|new| next.declared.model.made_of(new, &sources));
        Ok(made.then_some(next))
    }

    /// Compares a candidate with what there is. None if reads would hardly fetch fewer bytes.
    fn weigh(&self, candidate: &Candidate, next: &Loaded) -> Result<Option<Proposal>> {
        let fastest = self.rates.iter().copied().fold(0.0, f64::max);
        let bytes = |fetched: &[Fetch]| {
            let times = self.accesses.iter().map(|(access, _)| access.times);
            times.zip(fetched).map(|(times, fetch)| times * fetch.bytes).sum::<f64>()
        };
        let then = self.then(next, fastest, UNKNOWN_READ_PRICE)?;
        if bytes(&then) > MAX_FETCHED_SHARE * bytes(&self.now) {
            return Ok(None);
        }
        let price = self.price(next)?;
        let (read, rate) = price.map_or((UNKNOWN_READ_PRICE, fastest), |price| (price.read, price.rate));
        let then = self.then(next, rate, read)?;
        let mut proposal = Proposal::new(candidate);
        let served = self.accesses.iter().zip(&self.now).zip(&then).filter(|((_, now), then)| now != then);
        let served: Vec<_> = served.map(|(((access, _), now), then)| (access.times, *now, *then)).collect();
        proposal.serve(&served);
        let length: u64 = self.new_files(next).filter_map(|file| next.files.get(file)).map(|file| file.length()).sum();
        if let Some(price) = price {
            let extents = (length as f64 / EXTENT_BYTES).ceil();
            let write = length as f64 * price.write.per_byte + extents * price.write.fixed;
            proposal.make_seconds = self.collect(next)? + write;
            proposal.stored_bytes = (length as f64 * price.stored) as u64;
        }
        let has_room = price.is_some() && proposal.stored_bytes < self.shared.store.room().free;
        proposal.judge(has_room);
        Ok(Some(proposal))
    }

    /// Returns what each access fetches with the new replica.
    fn then(&self, next: &Loaded, rate: f64, price: Affine) -> Result<Vec<Fetch>> {
        let (mut used, mut rates) = (self.used.clone(), self.rates.clone());
        used.push(true);
        rates.push(rate);
        self.fetches(next, &used, &rates, price)
    }

    fn new_files(&self, next: &Loaded) -> std::ops::Range<usize> {
        self.loaded.files.len()..next.files.len()
    }

    /// Returns the ways to make a file of the new replica from the others.
    fn ways_to_make(&self, next: &Loaded, file: usize) -> Result<Ways> {
        let mut used = self.used.clone();
        used.push(false);
        next.ways_at(Projection::File(file), &used, &self.rates)
    }

    /// Returns the time to read what the new replica is made of.
    fn collect(&self, next: &Loaded) -> Result<f64> {
        let mut seconds = 0.0;
        for file in self.new_files(next) {
            let length = next.files.get(file).map_or(0, |file| file.length());
            let ways = self.ways_to_make(next, file)?;
            seconds += self.fetch(&ways, &Run::new("", 0, length), UNKNOWN_READ_PRICE)?.seconds;
        }
        Ok(seconds)
    }

    /// Returns the price of the new replica, by samples of its bytes. None if no tier has room.
    fn price(&self, next: &Loaded) -> Result<Option<Price>> {
        let mut prices: Vec<Price> = Vec::new();
        for file in self.new_files(next) {
            let Some(stored) = next.files.get(file) else { continue };
            let ways = self.ways_to_make(next, file)?;
            let length = SAMPLE_BYTES.min(stored.length());
            for number in 0..SAMPLE_COUNT {
                let offset = stored.length().saturating_sub(length) / (SAMPLE_COUNT - 1) * number;
                let mut sample = vec![0; length as usize];
                match self.shared.read_with_plan(next, &self.state, &ways.mixed, offset, &mut sample, false) {
                    Ok(()) => {}
                    Err(AttemptError::Failed(error)) => return Err(error),
                    // It is written just now, or damaged: the next command finds it as it is then.
                    Err(AttemptError::Changed | AttemptError::Damaged { .. }) => {
                        return Err(Error::Busy(self.shared.name.clone()));
                    }
                }
                let options = PutOptions { element: stored.element, ..PutOptions::default() };
                match self.shared.store.price(&stored.key, &sample, &options)? {
                    Some(price) => prices.push(price),
                    None if length > 0 => return Ok(None),
                    None => {}
                }
            }
        }
        let mean = |of: fn(&Price) -> f64| prices.iter().map(of).sum::<f64>() / prices.len() as f64;
        Ok(prices.first().map(|first| {
            let mut price = *first;
            price.stored = mean(|price| price.stored);
            price.rate = mean(|price| price.rate);
            price.write =
                Affine { fixed: mean(|price| price.write.fixed), per_byte: mean(|price| price.write.per_byte) };
            price.read = Affine { fixed: mean(|price| price.read.fixed), per_byte: mean(|price| price.read.per_byte) };
            price
        }))
    }
}
