//! Displacement: evicts bytes from a full tier for others that are read more often.

use terrace_plan::hotness::{Entry, promotions};
use terrace_plan::snapshot::Snapshot;

use super::Mover;
use super::leaving::{MAX_WARMTH, find_warmth};
use crate::Result;
use crate::devices::TierList;

impl Mover {
    /// Evicts replicas that are of a colder class than these entries, from the targets to which the entries would move if there was
    /// room. A later promotion finds the space free. Otherwise, bytes that nobody reads keep a full tier once nothing is written.
    pub(super) fn displace_colder(&self, tiers: &TierList, entries: &[Entry], mut snapshot: Snapshot) -> Result<()> {
        for (at, device) in tiers.devices.iter().enumerate() {
            snapshot.set_space(at, device.capacity_below(tiers.tier(device).high_watermark), 0);
        }
        let moves = promotions(entries, &snapshot);
        for (at, device) in tiers.devices.iter().enumerate().filter(|(_, device)| self.reaper.is_own(device)) {
            let mut wanted = [0; MAX_WARMTH + 1];
            for hint in moves.iter().filter(|hint| usize::from(hint.to) == at) {
                let entry = entries.iter().find(|entry| entry.key == hint.key);
                entry.into_iter().for_each(|entry| wanted[find_warmth(entry.score)] += entry.bytes);
            }
            if wanted.iter().sum::<u64>() == 0 {
                continue;
            }
            let free = device.free_below(tiers.tier(device).high_watermark);
            let mut coming = free + self.count_evicted(device)?;
            // What becomes free is for the warmest.
            for warmth in (1..=MAX_WARMTH).rev() {
                match wanted[warmth].saturating_sub(coming) {
                    0 => {}
                    lacking => self.evict_from(device, lacking, warmth - 1)?,
                }
                coming = coming.saturating_sub(wanted[warmth]);
            }
        }
        Ok(())
    }
}
