//! The commands that move data between tiers and change the tiers.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Subcommand;
use serde_json::json;
use terrace::config::TargetConfig;
use terrace::report::Moved;
use terrace::{Cluster, Config, SharedNode, Store};

use crate::errors::read_text;
use crate::node::NodeChange;
use crate::objects::tell_lost;
use crate::output::{Show, complain, count, name, size};

#[derive(Subcommand)]
pub enum Tiers {
    /// Add tiers from a file with `[[tier]]` sections.
    Add {
        /// The file.
        #[arg(value_name = "FILE")]
        config: PathBuf,
        /// Insert them before this tier, which is slower [default: last].
        #[arg(long, value_name = "TIER")]
        before: Option<String>,
    },
    /// Remove a tier that `terrace drain` has emptied, with the store's files on it. Files of other programs stay.
    Remove {
        /// The emptied tier.
        tier: String,
    },
    /// Accept a tier's empty directories or empty bucket in place of lost ones, and make its replicas again.
    ///
    /// Refuses if the lost ones had the only copies of objects: the tier may merely not be mounted.
    Renew {
        /// The tier whose content was lost.
        tier: String,
        /// Give up the objects that have their only copy there. Exits with 1, and tells of them.
        #[arg(long)]
        force: bool,
    },
}

/// Reports moved data; returns false if some had to stay.
pub fn report_moved(moved: &Moved, show: Show) -> Result<bool> {
    show.result(moved, &format!("{} made, {} dropped", count(moved.made, "replica"), moved.dropped))?;
    let changed: u64 = moved.changed.values().sum();
    let unplaced = moved.kept.saturating_sub(moved.kept_from_memory + moved.kept_unread + moved.kept_busy + changed);
    if unplaced > 0 {
        show.line(&format!("{unplaced} stay as they are: no other failure domain takes them, or has room"))?;
    }
    if moved.kept_from_memory > 0 {
        show.line(&format!(
            "{} stay as they are: the other tiers are in memory, and so not persistent; add a persistent tier, or allow \
             `volatile` in a rule",
            moved.kept_from_memory
        ))?;
    }
    if moved.kept_busy > 0 {
        show.line(&format!(
            "{} stay as they are: they were written or moved meanwhile; repeat the command",
            moved.kept_busy
        ))?;
    }
    if moved.kept_unread > 0 {
        show.line(&format!(
            "{} stay as they are: no replica of their bytes can be read now; see `terrace status` for tiers that are away, and `terrace scrub` for \
             damage",
            moved.kept_unread
        ))?;
    }
    if changed > 0 {
        show.line(&format!(
            "{changed} stay as they are, or were not made: the owners of these adopted files have changed them; adopt them again, or remove \
             their objects"
        ))?;
        show.objects(moved.changed.keys().map(|key| format!("  {}", name(key.as_bytes()))))?;
    }
    if moved.thinned > 0 {
        let extents = count(moved.thinned, "extent");
        show.line(&format!(
            "{extents} now with fewer replicas than wanted: no other failure domain that their rules allow takes one"
        ))?;
    }
    Ok(moved.kept == 0)
}

/// Fetches what origins have at or below a prefix, and copies all of it to a tier. Returns false if some had to stay.
pub fn stage(store: &Store, prefix: &[u8], tier: &str, limit: Option<u64>, show: Show) -> Result<bool> {
    let bar = show.spinner();
    let fetched = store.fetch_origins(prefix, limit.unwrap_or(u64::MAX), &mut |done| {
        bar.set_message(format!("{} fetched from {}", size(done.fetched), count(done.files, "file")));
        bar.tick();
    });
    bar.finish_and_clear();
    let fetched = fetched?;
    let is_moved = report_moved(&store.stage(prefix, tier)?, show)?;
    if fetched.files > 0 && !show.json {
        let words = format!("{} fetched from {}", size(fetched.fetched), count(fetched.files, "file"));
        show.line(&words)?;
    }
    let is_full = fetched.left > 0 && fetched.refused == 0 && limit.is_none_or(|limit| fetched.fetched < limit);
    if is_full {
        complain(&format!("{} stay at the origin: the tiers have no room for them", size(fetched.left)));
    }
    if fetched.refused > 0 {
        complain(&format!("{} left out: the origin refuses to show them", count(fetched.refused, "file")));
    }
    Ok(is_moved && !is_full && fetched.refused == 0)
}

/// Reports re-encoded data. Data that is as dense as possible stays, which is not a failure.
pub fn report_tuned(moved: &Moved, show: Show) -> Result<bool> {
    show.result(moved, &format!("{} replaced by denser ones", count(moved.made, "replica")))?;
    Ok(true)
}

/// Adds a target of a node, moves data off a node, or removes a node from the store.
pub fn node(store: &Store, change: &NodeChange, show: Show) -> Result<bool> {
    match change {
        NodeChange::Add { name, tier, target, fingerprint } => {
            let fingerprint = fingerprint.iter().map(|hex| ("fingerprint".to_owned(), hex.clone()));
            let options = fingerprint.collect();
            store.add_target(tier, &TargetConfig { node: Some(name.clone()), options, ..TargetConfig::at(target) })?;
            let words = format!("tier {tier} has the target {} of node {name}", target.display());
            show.result(&json!({"node": name, "tier": tier}), &words)?;
            Ok(true)
        }
        NodeChange::Drain { name } => report_moved(&store.drain_node(name)?, show),
        NodeChange::Remove { name, force } => {
            let done = store.remove_node(name, *force)?;
            // With `force`, replicas without another place are lost, so that is no failure.
            report_moved(&done, show)?;
            show.line(&format!("node {name} is not part of the store any more"))?;
            Ok(true)
        }
    }
}

/// Adds, removes or replaces the tiers of a store.
pub fn tiers(dir: &Path, change: &Tiers, show: Show) -> Result<bool> {
    match change {
        Tiers::Add { config, before } => {
            let added = Config::parse_tiers(&read_text(config)?, &config.display().to_string())?;
            let number = added.len();
            Store::add_tiers(dir, added, before.as_deref())?;
            show.result(&json!({"added": number}), &format!("{} added", count(number as u64, "tier")))?;
        }
        Tiers::Remove { tier } => {
            let remains = Store::remove_tier(dir, tier)?;
            let kept: Vec<String> = remains.kept.iter().map(|path| path.display().to_string()).collect();
            for target in &remains.left {
                complain(&format!(
                    "left behind: what is on tier {tier} in {}: {}; the store needs nothing of it, so delete it once it is back",
                    target.target, target.reason
                ));
            }
            let with = if remains.left.is_empty() { ", with what the store had put there" } else { "" };
            let mut words = format!("tier {tier} removed{with}");
            for path in &kept {
                words += &format!("\nkept, as it is not the store's: {path}");
            }
            show.result(&json!({"removed": tier, "kept": kept, "left": remains.left}), &words)?;
            return Ok(remains.left.is_empty());
        }
        Tiers::Renew { tier, .. } if Cluster::read(dir)?.is_some() => {
            let targets = SharedNode::renew_targets(dir, tier)?;
            let words = format!(
                "when this machine's node starts, it makes an empty target in place of each of the {} of tier {tier} that it does not find, and \
                 lists what was there as pending",
                count(targets as u64, "target")
            );
            show.result(&json!({"renewed": tier, "targets": targets}), &words)?;
        }
        Tiers::Renew { tier, force } => {
            let Some(store) = Store::renew_tier(dir, tier, *force)? else {
                let words = format!(
                    "tier {tier} gets empty targets when `terrace rebuild`, or `terrace rebuild --salvage`, has made the store again"
                );
                show.result(&json!({"renewed": tier}), &words)?;
                return Ok(true);
            };
            let owed = store.status()?.owed;
            let pending = count(owed, "pending replica");
            let words = format!("tier {tier} renewed; {pending}, which `terrace sync` makes");
            show.result(&json!({"renewed": tier, "owed": owed}), &words)?;
            return Ok(!tell_lost(&store)?);
        }
    }
    Ok(true)
}
