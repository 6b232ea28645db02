//! Deleting, renaming, and keeping the store right.

use std::path::Path;

use anyhow::Result;
use indicatif::ProgressBar;
use serde_json::json;
use terrace::{Store, key};

use crate::look::each;
use crate::output::Show;

pub fn rm(store: &Store, key: &str, recursive: bool, dry_run: bool, show: Show) -> Result<bool> {
    let mut keys = Vec::new();
    if recursive {
        each(store, key.as_bytes(), |key, _| {
            keys.push(key.to_vec());
            Ok(())
        })?;
    } else {
        store.stat(key.as_bytes())?;
        keys.push(key.as_bytes().to_vec());
    }
    for key in keys {
        if dry_run {
            show.line(&format!("would delete {}", key::show(&key)));
        } else {
            store.remove(&key)?;
        }
    }
    Ok(true)
}

pub fn mv(store: &Store, from: &str, to: &str) -> Result<bool> {
    store.rename(from.as_bytes(), to.as_bytes())?;
    Ok(true)
}

pub fn sync(store: &Store, show: Show) -> Result<bool> {
    let bar = if show.quiet || show.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    store.sync_with(|owed| bar.set_message(format!("{owed} replicas owed")))?;
    bar.finish_and_clear();
    Ok(true)
}

pub fn scrub(
    store: &Store,
    prefix: Option<&str>,
    repair: bool,
    subset: Option<(u64, u64)>,
    show: Show,
) -> Result<bool> {
    let bar = if show.quiet || show.json { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let prefix = prefix.unwrap_or_default().as_bytes();
    let found =
        store.scrub(prefix, repair, subset, |found| bar.set_message(format!("{} replicas checked", found.checked)))?;
    bar.finish_and_clear();
    if show.json {
        show.value(&found)?;
    } else {
        show.line(&format!(
            "{} replicas checked, {} bad, {} repaired, {} extents lost",
            found.checked, found.bad, found.repaired, found.lost
        ));
    }
    Ok(found.lost == 0 && found.bad == found.repaired)
}

pub fn rebuild(dir: &Path, show: Show) -> Result<bool> {
    let store = Store::rebuild(dir)?;
    let objects = store.status()?.objects;
    if show.json {
        show.value(&json!({ "objects": objects }))?;
    } else {
        show.line(&format!("the catalog was made anew from the log: {objects} objects"));
    }
    Ok(true)
}
