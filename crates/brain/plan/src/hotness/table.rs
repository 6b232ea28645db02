//! [`Hotness`]: scores of keys.

/// The number of entries in a bucket; a lookup examines one bucket.
const ENTRIES_PER_BUCKET: usize = 8;

/// The scores of the hottest keys, in a table with a fixed size. A new key replaces the coldest one in its bucket.
///
/// A key is any 64-bit identifier of an extent or a range; it need not be a hash. Times are seconds of any clock.
#[derive(Clone, Debug)]
pub struct Hotness {
    buckets: Vec<[Entry; ENTRIES_PER_BUCKET]>,
    half_life: f64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    key: u64,
    score: f64,
    at: f64,
}

const EMPTY_ENTRY: Entry = Entry { key: 0, score: 0.0, at: 0.0 };

impl Entry {
    /// Returns the score at time `now`. If the clock went back, the score does not decay.
    fn now(&self, now: f64, half_life: f64) -> f64 {
        self.score * (-(now - self.at).max(0.0) / half_life).exp2()
    }
}

impl Hotness {
    /// Creates a table of at least `keys` entries (24 bytes each) whose scores halve in `half_life` seconds.
    pub fn new(keys: usize, half_life: f64) -> Hotness {
        let buckets = keys.div_ceil(ENTRIES_PER_BUCKET).next_power_of_two();
        Hotness {
            buckets: vec![[EMPTY_ENTRY; ENTRIES_PER_BUCKET]; buckets],
            half_life: half_life.max(f64::MIN_POSITIVE),
        }
    }

    /// Adds `weight` (1 for an access, or the accessed share of the range) to a key's score, and returns the score.
    pub fn touch(&mut self, key: u64, weight: f64, now: f64) -> f64 {
        let half_life = self.half_life;
        let bucket = self.bucket(key);
        let entries = &mut self.buckets[bucket];
        let found = entries.iter().position(|entry| entry.key == key && entry.score > 0.0);
        let slot = found.unwrap_or_else(|| {
            let scores = entries.map(|entry| entry.now(now, half_life));
            let coldest = (0..ENTRIES_PER_BUCKET).min_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap_or(0);
            entries[coldest] = EMPTY_ENTRY;
            coldest
        });
        let entry = &mut entries[slot];
        let score = entry.now(now, half_life) + weight;
        *entry = Entry { key, score, at: now.max(entry.at) };
        score
    }

    /// Returns a key's score; 0 if it is not in the table.
    pub fn score(&self, key: u64, now: f64) -> f64 {
        let entries = &self.buckets[self.bucket(key)];
        entries.iter().find(|entry| entry.key == key).map_or(0.0, |entry| entry.now(now, self.half_life))
    }

    /// Returns every key in the table with its score, in arbitrary order.
    pub fn scores(&self, now: f64) -> impl Iterator<Item = (u64, f64)> {
        let entries = self.buckets.iter().flatten().filter(|entry| entry.score > 0.0);
        entries.map(move |entry| (entry.key, entry.now(now, self.half_life)))
    }

    /// Removes a key.
    pub fn forget(&mut self, key: u64) {
        let bucket = self.bucket(key);
        if let Some(entry) = self.buckets[bucket].iter_mut().find(|entry| entry.key == key) {
            *entry = EMPTY_ENTRY;
        }
    }

    fn bucket(&self, key: u64) -> usize {
        (crate::mix::mix(0, key) >> 32) as usize & (self.buckets.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scores_add_up_and_halve() {
        let mut hotness = Hotness::new(64, 10.0);
        assert_eq!(hotness.touch(7, 1.0, 0.0), 1.0);
        assert_eq!(hotness.touch(7, 1.0, 10.0), 1.5);
        assert_eq!(hotness.score(7, 20.0), 0.75);
        assert_eq!(hotness.score(8, 20.0), 0.0);
        assert_eq!(hotness.touch(7, 1.0, 5.0), 2.5, "a clock that goes back cools nothing");
        hotness.forget(7);
        assert_eq!(hotness.score(7, 20.0), 0.0);
    }

    #[test]
    fn a_full_table_keeps_hot_keys() {
        let mut hotness = Hotness::new(64, 1000.0);
        for round in 0..1000u64 {
            for hot in 0..4 {
                hotness.touch(hot, 1.0, round as f64);
            }
            hotness.touch(1_000_000 + round, 1.0, round as f64);
        }
        assert_eq!(hotness.scores(1000.0).count(), 64);
        let mut hottest: Vec<(u64, f64)> = hotness.scores(1000.0).collect();
        hottest.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut keys: Vec<u64> = hottest[..4].iter().map(|(key, _)| *key).collect();
        keys.sort();
        assert_eq!(keys, [0, 1, 2, 3]);
    }

    proptest! {
        #[test]
        fn scores_are_decayed_sums(touches in prop::collection::vec((0u64..6, 0.0f64..2.0, 0.0f64..20.0), 0..100)) {
            let (mut hotness, mut now) = (Hotness::new(1024, 10.0), 0.0);
            let mut all = Vec::new();
            for (key, weight, later) in touches {
                now += later;
                hotness.touch(key, weight, now);
                all.push((key, weight, now));
            }
            for key in 0..6 {
                let of = all.iter().filter(|touch| touch.0 == key);
                let sum: f64 = of.map(|(_, weight, at)| weight * 0.5f64.powf((now - at) / 10.0)).sum();
                prop_assert!((hotness.score(key, now) - sum).abs() <= 1e-9 * sum.max(1.0));
            }
        }
    }
}
