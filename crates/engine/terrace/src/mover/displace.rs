//! Displacement: evicts bytes from a full tier for others that are read more often.

use terrace_plan::hotness::{Entry, promotions};
use terrace_plan::snapshot::Snapshot;

use super::Mover;
use super::eviction::Purpose;
use super::leaving::{MAX_WARMTH, find_warmth};
use super::promote::Candidate;
use crate::Result;
use crate::devices::TierList;

impl Mover {
    /// Evicts replicas that are of a colder class than these entries, from the targets to which the entries would move if there was
    /// room. No extent has fewer replicas than it wants then. A later promotion finds the space free. Otherwise, bytes that nobody reads keep a
    /// full tier once nothing is written.
    pub(super) fn displace_colder(
        &self,
        tiers: &TierList,
        candidates: &[Candidate],
        entries: &[Entry],
        mut snapshot: Snapshot,
    ) -> Result<()> {
        // What leaves, or comes, once a pending replica is made is not counted yet.
        if entries.is_empty() || self.catalog.owed_count(None)? > 0 {
            return Ok(());
        }
        for (at, device) in tiers.devices.iter().enumerate() {
            snapshot.set_space(at, device.capacity_below(tiers.tier(device).high_watermark), 0);
        }
        let moves = promotions(entries, &snapshot);
        for (at, device) in tiers.devices.iter().enumerate().filter(|(_, device)| self.reaper.is_own(device)) {
            let mut wanted = [0; MAX_WARMTH + 1];
            for hint in moves.iter().filter(|hint| usize::from(hint.to) == at) {
                let Candidate { key, entry, .. } = &candidates[hint.key as usize];
                if self.may_be_on(key, device) {
                    wanted[find_warmth(entry.score)] += entry.bytes;
                }
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
                    lacking => self.evict_from(device, lacking, Purpose::Displace { max_warmth: warmth - 1 })?,
                }
                coming = coming.saturating_sub(wanted[warmth]);
            }
        }
        Ok(())
    }
}
