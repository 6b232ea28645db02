//! Counts what a `put` does, and says it at the end.

use anyhow::Result;
use indicatif::ProgressBar;
use serde_json::json;
use terrace::{Budget, Receipt, Store, key};

use super::adopt::AdoptedCounts;
use crate::output::{Show, complain, count, name, size};

/// A write with fewer replicas than it asked for.
pub struct ReplicaShortfall {
    pub have: u8,
    pub asked: u8,
    pub possible: u8,
    pub memory_left_out: bool,
}

/// The progress of a `put`.
#[derive(Default)]
pub struct Progress {
    pub written: u64,
    pub unchanged: u64,
    pub failed: u64,
    pub bytes: u64,
    pub would_write: Vec<Vec<u8>>,
    /// If fewer replicas than requested are possible.
    pub fewer: Option<ReplicaShortfall>,
    /// The number of objects over the budget, and the largest ratio of stored bytes to bytes.
    pub over_budget: (u64, f64),
    /// The number of objects whose first replica is on a target above the requested latency.
    pub slow: u64,
    /// The number of stored objects with pending replicas. After the first, the command waits for no further object's replicas.
    pub late: u64,
    /// The number of those whose acknowledgement waits for these replicas.
    pub unmet: u64,
    pub adopted: AdoptedCounts,
    /// The number of objects that are durable when the command returns.
    pub durable: u64,
}

impl Progress {
    /// Adds what another thread has done.
    pub fn add(&mut self, other: Progress) {
        let Progress {
            over_budget: (objects, times),
            written,
            unchanged,
            failed,
            bytes,
            would_write,
            fewer,
            slow,
            late,
            unmet,
            durable,
            adopted,
        } = other;
        self.adopted.add(adopted);
        self.written += written;
        self.unchanged += unchanged;
        self.failed += failed;
        self.bytes += bytes;
        self.would_write.extend(would_write);
        self.fewer = self.fewer.take().into_iter().chain(fewer).min_by_key(|fewer| fewer.have);
        self.over_budget = (self.over_budget.0 + objects, self.over_budget.1.max(times));
        self.slow += slow;
        self.late += late;
        self.unmet += unmet;
        self.durable += durable;
    }

    /// Counts an object that was stored.
    pub fn add_written(&mut self, receipt: &Receipt) {
        self.written += 1;
        self.bytes += receipt.bytes;
        self.slow += u64::from(receipt.is_slow);
        self.durable += u64::from(receipt.durable);
        // The mover may have given some up, because the budget does not pay for them.
        let have = if receipt.owed == 0 { receipt.have.min(receipt.want) } else { receipt.want };
        if have < receipt.asked {
            let Receipt { asked, possible, memory_left_out, .. } = *receipt;
            let fewer = ReplicaShortfall { have, asked, possible, memory_left_out };
            self.fewer = self.fewer.take().into_iter().chain([fewer]).min_by_key(|fewer| fewer.have);
        }
    }

    /// Counts an object that exceeds the budget.
    pub fn check_budget(&mut self, store: &Store, key: &[u8], Budget(most): Budget) -> Result<()> {
        let location = store.locate(key)?;
        let (stored, bytes) = location.extents.iter().fold((0, 0), |(stored, bytes), extent| {
            (stored + extent.replicas.iter().map(|replica| replica.stored).sum::<u64>(), bytes + extent.length)
        });
        let times = stored as f64 / bytes.max(1) as f64;
        if times > most {
            self.over_budget = (self.over_budget.0 + 1, self.over_budget.1.max(times));
        }
        Ok(())
    }

    /// Counts and names a file that was not put.
    pub fn add_failed(&mut self, text: &str, bar: &ProgressBar) {
        self.failed += 1;
        bar.suspend(|| complain(text));
    }

    /// Prints the counts. Returns whether all files were put.
    pub fn report(self, dry_run: bool, has_budget: bool, show: Show) -> Result<bool> {
        let Progress { written, unchanged, failed, bytes, would_write, fewer, over_budget, slow, late, .. } = self;
        if dry_run {
            for key in &would_write {
                show.line(&format!("would write {}", name(key)))?;
            }
            let would_write: Vec<String> = would_write.iter().map(|key| key::show(key)).collect();
            let words = format!("{} to write, {unchanged} unchanged", count(would_write.len() as u64, "object"));
            let value = json!({"would_write": would_write, "unchanged": unchanged, "failed": failed});
            show.result(&value, &words)?;
            return Ok(failed == 0);
        }
        let value = json!({"written": written, "unchanged": unchanged, "failed": failed, "bytes": bytes, "late": late, "slow": slow});
        let written = count(written, "object");
        show.result(&value, &format!("{written} written ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
        if let Some(ReplicaShortfall { have, asked, possible, memory_left_out }) = fewer {
            let replicas = count(have.into(), "replica");
            let least = if have < possible { "at least " } else { "" };
            let why = match (have < possible, has_budget, memory_left_out) {
                (true, true, _) => "the budget pays for no more, or other tiers have no room",
                (true, false, _) => "other tiers have no room",
                (false, _, true) => "they have to be persistent, and the other tiers are in memory",
                (false, _, false) => "there are no more failure domains",
            };
            show.line(&format!("{least}{replicas} each, not {asked}: {why}"))?;
        }
        if let (objects @ 1.., times) = over_budget {
            let objects = count(objects, "object");
            show.line(&format!("{objects} above the budget, up to {times:.2}x: one replica takes as much"))?;
        }
        if slow > 0 {
            show.line(&format!("{} on a target above max_latency: none is as quick", count(slow, "object")))?;
        }
        Ok(failed == 0)
    }
}
