//! Moving data between tiers, and changing the tiers.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use terrace::report::Moved;
use terrace::{Config, Store};

use crate::arguments::Tiers;
use crate::output::Show;

/// Says what was moved; false where something had to stay.
pub fn moved(moved: &Moved, show: Show) -> Result<bool> {
    if show.json {
        show.value(moved)?;
    } else {
        show.line(&format!("{} replicas made, {} dropped", moved.made, moved.dropped));
        if moved.kept > 0 {
            show.line(&format!("{} stay as they are: no other failure domain takes them", moved.kept));
        }
    }
    Ok(moved.kept == 0)
}

/// Adds tiers to a store, removes or renews one.
pub fn tiers(dir: &Path, change: &Tiers, show: Show) -> Result<bool> {
    match change {
        Tiers::Add { config, before } => {
            let text = fs::read_to_string(config).with_context(|| format!("reading {}", config.display()))?;
            let added = Config::parse_tiers(&text, &config.display().to_string())?;
            let count = added.len();
            Store::add_tiers(dir, added, before.as_deref())?;
            show.line(&format!("{count} tiers added"));
        }
        Tiers::Remove { tier } => {
            Store::remove_tier(dir, tier)?;
            show.line(&format!("tier {tier} removed; its directories may be deleted"));
        }
        Tiers::Renew { tier } => {
            let owed = Store::renew_tier(dir, tier)?.status()?.owed;
            show.line(&format!("tier {tier} renewed; {owed} replicas are owed, and `terrace sync` makes them"));
        }
    }
    Ok(true)
}
