//! [`Table`]: how often each kind of access occurs.

use serde::{Deserialize, Serialize};

use super::run::Run;

/// The number of kinds of accesses that are kept. Those that read the fewest bytes are dropped.
const MAX_KINDS: usize = 32;
/// The weight of an access is halved after this time.
const HALF_LIFE_SECONDS: f64 = 7.0 * 24.0 * 3600.0;
/// A kind with a lower weight is dropped.
const MIN_TIMES: f64 = 1.0 / 16.0;

/// The kinds of accesses, each with its weight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Table {
    kinds: Vec<Access>,
}

/// Accesses that read the same fields in the same shape, though perhaps elsewhere.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Access {
    /// A hash of the fields and the shape.
    pub shape: u64,
    /// The last such access: its view, and its bytes there.
    pub view: String,
    /// The first byte.
    pub offset: u64,
    /// The length of each part.
    pub length: u64,
    /// The distance of the parts.
    pub stride: u64,
    /// The number of parts.
    pub count: u64,
    /// The number of accesses at the time `at`. Each counts half as much after a week.
    pub times: f64,
    /// The time of the last access, in seconds since 1970.
    pub at: f64,
}

impl Access {
    pub fn new(run: Run, shape: u64, at: f64) -> Access {
        let Run { view, offset, length, stride, count } = run;
        Access { shape, view, offset, length, stride, count, times: 1.0, at }
    }

    /// Returns the requests of the last such access.
    pub fn run(&self) -> Run {
        let Access { view, offset, length, stride, count, .. } = self;
        // A damaged file may say anything.
        Run { view: view.clone(), offset: *offset, length: *length, stride: *stride, count: (*count).max(1) }
    }

    /// Returns the number of accesses as they count at a time.
    pub fn times_at(&self, now: f64) -> f64 {
        self.times * 0.5f64.powf((now - self.at).max(0.0) / HALF_LIFE_SECONDS)
    }
}

impl Table {
    /// Adds accesses of a kind.
    pub fn add(&mut self, added: Access) {
        let Some(known) = self.kinds.iter_mut().find(|known| known.shape == added.shape && known.view == added.view)
        else {
            self.kinds.push(added);
            return self.drop_least();
        };
        let (old, new) = if known.at <= added.at { (known.clone(), added) } else { (added, known.clone()) };
        *known = Access { times: new.times + old.times_at(new.at), ..new };
    }

    /// Moves all accesses of another table into this one.
    pub fn merge(&mut self, other: Table) {
        other.kinds.into_iter().for_each(|kind| self.add(kind));
    }

    /// Returns the kinds that still count at a time, with their weights then, those first that read the most bytes.
    pub fn kinds_at(self, now: f64) -> Vec<Access> {
        let faded = |kind: Access| Access { times: kind.times_at(now), at: now, ..kind };
        let mut kinds: Vec<Access> = self.kinds.into_iter().map(faded).collect();
        kinds.retain(|kind| kind.times >= MIN_TIMES);
        kinds.sort_by(|a, b| weight(b, now).total_cmp(&weight(a, now)));
        kinds
    }

    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Drops a kind if there are too many.
    fn drop_least(&mut self) {
        if self.kinds.len() <= MAX_KINDS {
            return;
        }
        let now = self.kinds.iter().map(|kind| kind.at).fold(0.0, f64::max);
        let of = |(_, kind): &(usize, &Access)| weight(kind, now);
        let least = self.kinds.iter().enumerate().min_by(|a, b| of(a).total_cmp(&of(b))).map(|(number, _)| number);
        if let Some(least) = least {
            self.kinds.swap_remove(least);
        }
    }
}

fn weight(kind: &Access, now: f64) -> f64 {
    kind.times_at(now) * kind.run().bytes() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(shape: u64, at: f64) -> Access {
        Access::new(Run::new("v", shape, 100 + shape), shape, at)
    }

    #[test]
    fn accesses_of_a_kind_add_up_and_fade() {
        let mut table = Table::default();
        (0..3).for_each(|_| table.add(access(1, 1000.0)));
        table.add(access(1, 1000.0 + HALF_LIFE_SECONDS));
        // It comes late, and from another process.
        table.add(access(1, 1000.0));
        let kinds = table.clone().kinds_at(1000.0 + HALF_LIFE_SECONDS);
        assert!(kinds.len() == 1 && (kinds[0].times - 3.0).abs() < 1e-9, "{kinds:?}");
        assert!(table.kinds_at(1000.0 + 7.0 * HALF_LIFE_SECONDS).is_empty());
    }

    #[test]
    fn a_table_stays_small_and_keeps_those_that_read_most() {
        let mut table = Table::default();
        (0..1000).for_each(|shape| table.add(access(shape, 1.0)));
        let kinds = table.kinds_at(1.0);
        assert_eq!((kinds.len(), kinds[0].shape), (MAX_KINDS, 999));
        let bytes = serde_json::to_vec(&Table { kinds }).unwrap().len();
        assert!(bytes < 8 << 10, "{bytes}");
    }
}
