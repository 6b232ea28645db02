//! Moving data between tiers, and changing the tiers.

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use terrace::report::Moved;
use terrace::{Config, Store};

use crate::arguments::Tiers;
use crate::errors::read_text;
use crate::output::{Show, count};

/// Says what was moved; false where something had to stay.
pub fn moved(moved: &Moved, show: Show) -> Result<bool> {
    show.result(moved, &format!("{} made, {} dropped", count(moved.made, "replica"), moved.dropped))?;
    if moved.kept > 0 {
        show.line(&format!("{} stay as they are: no other failure domain takes them", moved.kept))?;
    }
    Ok(moved.kept == 0)
}

/// Says what was encoded more densely. What is as dense as can be stays, and that is well.
pub fn tuned(moved: &Moved, show: Show) -> Result<bool> {
    show.result(moved, &format!("{} made anew, more densely", count(moved.made, "replica")))?;
    Ok(true)
}

/// Adds tiers to a store, removes or renews one.
pub fn tiers(dir: &Path, change: &Tiers, show: Show) -> Result<bool> {
    match change {
        Tiers::Add { config, before } => {
            let added = Config::parse_tiers(&read_text(config)?, &config.display().to_string())?;
            let number = added.len();
            Store::add_tiers(dir, added, before.as_deref())?;
            show.result(&json!({"added": number}), &format!("{} added", count(number as u64, "tier")))?;
        }
        Tiers::Remove { tier } => {
            Store::remove_tier(dir, tier)?;
            let words = format!("tier {tier} removed; its directories may be deleted");
            show.result(&json!({"removed": tier}), &words)?;
        }
        Tiers::Renew { tier } => {
            let owed = Store::renew_tier(dir, tier)?.status()?.owed;
            let replicas = count(owed, "replica");
            let words = format!("tier {tier} renewed; {replicas} owed, and `terrace sync` makes them");
            show.result(&json!({"renewed": tier, "owed": owed}), &words)?;
        }
    }
    Ok(true)
}
