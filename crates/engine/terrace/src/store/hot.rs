//! The ranges that are read most.

use serde::Serialize;
use terrace_format::key;
use terrace_plan::hotness::Span;

use super::Store;
use crate::Result;
use crate::hotness::COLD_SCORE;

/// A range of an object and how hot it is.
#[derive(Clone, Debug, Serialize)]
pub struct HotRange {
    /// The object's key, printed lossily.
    pub key: String,
    /// The range's first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
    /// The number of reads of the whole range. The weight of a read halves every hour.
    pub score: f64,
    /// The tier of its nearest replica.
    pub tier: String,
}

impl Store {
    /// Returns the hottest ranges at or below `prefix`, hottest first.
    pub fn hot(&self, prefix: &[u8], limit: usize) -> Result<Vec<HotRange>> {
        let engine = &self.engine;
        engine.hotness.fold();
        let mut found = Vec::new();
        for key in engine.hotness.objects().iter().filter(|key| key::below(key, prefix)) {
            let Some(object) = engine.catalog.object(key)? else { continue };
            for Span { offset, length, score } in engine.hotness.spans(key, object.length) {
                if score > COLD_SCORE {
                    found.push((score, key.clone(), offset, length));
                }
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (&a.1, a.2).cmp(&(&b.1, b.2))));
        found.truncate(limit);
        let range = |(score, key, offset, length): (f64, Vec<u8>, u64, u64)| {
            let tier = self.nearest_tier(&key, offset)?;
            Ok(HotRange { key: key::show(&key), offset, length, score, tier })
        };
        found.into_iter().map(range).collect()
    }
}

impl Store {
    /// Returns the tier of the nearest replica of a byte, or an empty name if it has none.
    fn nearest_tier(&self, key: &[u8], offset: u64) -> Result<String> {
        let located = self.engine.catalog.locate(key, offset, offset + 1)?;
        let replicas = located.iter().flat_map(|(_, extents)| extents).flat_map(|extent| &extent.replicas);
        let devices = replicas.filter_map(|replica| self.engine.tiers.device(replica.target).ok());
        let nearest = devices.min_by_key(|device| device.tier);
        Ok(nearest.map_or_else(String::new, |device| self.engine.tiers.tier(device).name.clone()))
    }
}
