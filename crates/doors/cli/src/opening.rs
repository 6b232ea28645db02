//! Creates and opens stores.

use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use terrace::{Config, Store};

use crate::cluster::{self, LogAddress, NodePart};
use crate::globals::default_store;
use crate::output::{Show, count, note, path_name};

#[derive(Args)]
pub struct Init {
    /// Read tiers and defaults from this file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Share the store with other nodes. Its log is kept here: etcd://HOST:PORT,HOST:PORT.
    #[arg(long, value_name = "ADDRESS")]
    cluster: Option<LogAddress>,
    #[command(flatten)]
    part: NodePart,
}

pub fn init(dir: &Path, asked: &Init, show: Show) -> Result<bool> {
    let config = asked.config.as_deref();
    if let Some(log) = &asked.cluster {
        return cluster::init(dir, log, &asked.part, config, show);
    }
    if asked.part.is_given() {
        bail!("a node's name, snapshots and access to etcd are for a store that several share; give --cluster, too");
    }
    let given = match config {
        Some(path) => Some(Config::read(path)?),
        None => None,
    };
    let is_new = !dir.exists();
    let _alone = lock_store_directory(dir)?;
    let made = match given {
        Some(config) => Store::init(dir, &config).map_err(Into::into),
        None => create_default_store(dir, show),
    };
    let store = made.inspect_err(|_| {
        if is_new {
            // The error is the one to report. A folder with something in it stays.
            let _ = std::fs::remove_dir(dir);
        }
    })?;
    let tiers = store.config().tiers.len();
    let words = format!("a store with {} is ready in {}", count(tiers as u64, "tier"), path_name(dir));
    show.result(&json!({"store": dir.display().to_string(), "tiers": tiers}), &words)?;
    Ok(true)
}

/// Opens the store; creates the default store, in the user's data directory, on first use.
pub fn open(dir: &Path, show: Show) -> Result<Store> {
    let made = || dir.join("store").exists();
    if !made() && default_store().is_ok_and(|default| dir == default) {
        let _alone = lock_store_directory(dir)?;
        // Another process may have created it while this one waited.
        if !made() {
            return create_default_store(dir, show);
        }
    }
    Ok(Store::open(dir)?)
}

/// Locks the directory, so that no other process creates a store there meanwhile.
fn lock_store_directory(dir: &Path) -> Result<File> {
    // Check first, so that nothing is created where a store is impossible.
    Store::check_place(dir)?;
    let make = || {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let folder = File::open(dir)?;
        folder.lock()?;
        Ok::<_, std::io::Error>(folder)
    };
    make().with_context(|| format!("making {}", dir.display()))
}

/// Creates a store with the tiers found on this machine.
fn create_default_store(dir: &Path, show: Show) -> Result<Store> {
    let (config, why) =
        Config::discover(dir).with_context(|| format!("looking for tiers for a store in {}", dir.display()))?;
    let store = Store::init(dir, &config)?;
    if !show.quiet {
        note(&format!("made a store in {} with the tiers found on this machine", dir.display()));
        why.iter().for_each(|reason| note(reason));
    }
    Ok(store)
}
