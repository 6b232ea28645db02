//! The expected cost of storing bytes and of reading them, by the cost model, for those who choose what to store.

use terrace_cost::{Affine, EncodingRates, Expected, TargetRates, Weights, measured};
use terrace_format::frame::MAX_EXTENT_BYTES;
use terrace_plan::plan::Piece;

use super::Store;
use crate::place::{MIN_EXPECTED_READS, PlanRequest, PutOptions, UNKNOWN_ENCODING_COST};
use crate::{Error, Result};

/// The expected cost of all replicas of some bytes. Times are in seconds: a part for each operation, and one for each byte before encoding.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Stored bytes of all replicas for each byte.
    pub stored: f64,
    /// The time to encode and write all replicas.
    pub write: Affine,
    /// The time to read and decode the replica that is read soonest.
    pub read: Affine,
    /// The speed of reading by which readers choose among objects with the same bytes, as [`Store::reading_rate`] returns it.
    pub rate: f64,
}

/// The length of a read that decides which replica is read soonest.
const TYPICAL_READ_BYTES: f64 = (64 << 10) as f64;

impl Store {
    /// Returns the price of a block of bytes if it is stored under `key`. None if no tier has room for it.
    ///
    /// # Errors
    /// If the state of the tiers cannot be read.
    pub fn price(&self, key: &[u8], block: &[u8], options: &PutOptions) -> Result<Option<Price>> {
        let planning = &self.engine.planning;
        let (mut policy, resolutions) = planning.explained_policy(key, options);
        policy.wanted.raw_first &= planning.pinned(key).is_none();
        let costs = self.survey(key, block, options.element, &policy.wanted);
        let snapshot = self.supposed(&[])?;
        let request = PlanRequest { wanted: policy.wanted, beside: &[], reads: MIN_EXPECTED_READS, hash: 0 };
        let explained = planning.planner.explain(&snapshot, block.len() as u64, &request, &costs, &resolutions);
        let mut price = Price::NO_REPLICAS;
        for replica in &explained.replicas {
            let rates = |piece: &Piece| {
                let rates = snapshot.rates().get(usize::from(piece.target))?;
                let encoding = costs.rates().iter().find(|rates| rates.encoding == piece.encoding)?;
                Some((*rates, encoding.expected, f64::from(piece.pages)))
            };
            let pieces: Vec<_> = replica.pieces.iter().filter_map(rates).collect();
            price.add(&pieces);
        }
        Ok((price.stored > 0.0).then_some(price))
    }

    /// Returns the price of an object as it is stored: that of its first bytes. None if it has no stored bytes there.
    ///
    /// # Errors
    /// [`Error::NotFound`], and [`Error::Unreadable`] if no good replica is left.
    pub fn stored_price(&self, key: &[u8]) -> Result<Option<Price>> {
        let engine = &self.engine;
        let located = engine.catalog.locate(key, 0, u64::from(MAX_EXTENT_BYTES))?;
        let (_, extents) = located.ok_or_else(|| Error::not_found(key))?;
        let Some(extent) = extents.first() else { return Ok(None) };
        let (policy, _) = engine.planning.explained_policy(key, &PutOptions::default());
        let costs = self.survey(key, &self.first_block(key)?, None, &policy.wanted);
        let snapshot = self.supposed(&[])?;
        let mut price = Price::NO_REPLICAS;
        for replica in &extent.replicas {
            let rates = engine.tiers.position(replica.target).and_then(|at| snapshot.rates().get(at));
            let stored = f64::from(replica.stored.max(1)) / f64::from(extent.raw_len.max(1));
            let known = costs.rates().iter().find(|rates: &&EncodingRates| rates.encoding == replica.encoding);
            let expected = match known {
                Some(known) => Expected { stored, ..known.expected },
                None => Expected { stored, ..UNKNOWN_ENCODING_COST },
            };
            price.add(&rates.map(|rates| (*rates, expected, 1.0)).into_iter().collect::<Vec<_>>());
        }
        Ok((price.stored > 0.0).then_some(price))
    }
}

impl Price {
    const NO_REPLICAS: Price = Price {
        stored: 0.0,
        write: Affine { fixed: 0.0, per_byte: 0.0 },
        read: Affine { fixed: f64::INFINITY, per_byte: 0.0 },
        rate: 0.0,
    };

    /// Adds a replica of these pieces, each with its share of the bytes.
    fn add(&mut self, pieces: &[(TargetRates, Expected, f64)]) {
        let all: f64 = pieces.iter().map(|(_, _, share)| share).sum();
        let (mut stored, mut write, mut read, mut transfer) =
            (0.0, Price::NO_REPLICAS.write, Price::NO_REPLICAS.write, 0.0);
        for (rates, expected, share) in pieces {
            let share = share / all;
            let once = measured(rates, expected, &Weights::EQUAL, 0.0);
            let twice = measured(rates, expected, &Weights::EQUAL, 1.0);
            stored += share * expected.stored;
            write.fixed += once.fixed;
            write.per_byte += share * once.per_byte;
            read.fixed += share * (twice.fixed - once.fixed);
            read.per_byte += share * (twice.per_byte - once.per_byte);
            transfer += share * expected.stored * rates.read;
        }
        if pieces.is_empty() {
            return;
        }
        self.stored += stored;
        self.write.fixed += write.fixed;
        self.write.per_byte += write.per_byte;
        self.rate = self.rate.max(1.0 / transfer.max(f64::MIN_POSITIVE));
        let time = |read: &Affine| read.fixed + TYPICAL_READ_BYTES * read.per_byte;
        if time(&read) < time(&self.read) {
            self.read = read;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_replicas_are_written_and_the_soonest_is_read() {
        let (disk, memory) = (TargetRates::from_speeds(100e6, 200e6, 0.01), TargetRates::from_speeds(1e9, 2e9, 0.0));
        let halved = Expected { stored: 0.5, encode: 1e-9, decode: 2e-9 };
        let mut price = Price::NO_REPLICAS;
        price.add(&[(disk, halved, 10.0)]);
        price.add(&[(memory, Expected::NONE, 10.0)]);
        price.add(&[]);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-15;
        assert!(close(price.stored, 1.5));
        assert!(close(price.write.fixed, 0.01) && close(price.write.per_byte, 1e-9 + 0.5 / 100e6 + 1e-9), "{price:?}");
        assert!(close(price.read.fixed, 0.0) && close(price.read.per_byte, 0.5e-9), "{price:?}");
        assert!((price.rate - 2e9).abs() < 1.0, "{price:?}");
    }
}
