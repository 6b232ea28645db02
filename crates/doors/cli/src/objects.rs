//! The commands that delete, rename, copy and sync objects.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Result, bail};
use serde_json::json;
use terrace::{Error, Files, Store, key};
use terrace_datasets::Datasets;

use crate::inspect::{check_has_objects, each};
use crate::output::{Show, complain, count, name};

/// Refuses an empty key, unless it was said that it means all objects: in a script it is often a variable that was never set.
pub fn check_prefix(key: &OsStr, may_be_all: bool) -> Result<()> {
    if key.is_empty() && !may_be_all {
        bail!("an empty key stands for all objects; `terrace rm -r --all ''` deletes them");
    }
    Ok(())
}

pub fn rm(store: &Store, key: &OsStr, recursive: bool, dry_run: bool, show: Show) -> Result<bool> {
    let key = key.as_bytes();
    let mut keys = Vec::new();
    if recursive {
        check_has_objects(store, key)?;
        each(store, key, |key, _| {
            keys.push(key.to_vec());
            Ok(())
        })?;
    } else {
        match store.stat(key) {
            Err(e @ (Error::NotFound { .. } | Error::BadKey { .. })) if check_has_objects(store, key).is_err() => {
                bail!(e)
            }
            Err(Error::NotFound { .. } | Error::BadKey { .. }) => {
                bail!("{:?} holds objects and is none itself; `terrace rm -r` deletes them", key::show(key))
            }
            found => found?,
        };
        keys.push(key.to_vec());
    }
    if dry_run {
        for key in &keys {
            show.line(&format!("would delete {}", name(key)))?;
        }
        let keys: Vec<String> = keys.iter().map(|key| key::show(key)).collect();
        show.result(&json!({"would_delete": keys}), &format!("{} to delete", count(keys.len() as u64, "object")))?;
        return Ok(true);
    }
    let mut deleted = 0;
    for key in &keys {
        match store.remove(key) {
            // Another process has deleted it already.
            Err(Error::NotFound { .. }) if recursive => {}
            removed => {
                removed?;
                deleted += 1;
            }
        }
    }
    show.result(&json!({"deleted": deleted}), &format!("{} deleted", count(deleted, "object")))?;
    Ok(true)
}

pub fn mv(store: &Store, from: &OsStr, to: &OsStr, show: Show) -> Result<bool> {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    Files::new(store)?.rename_tree(from, to)?;
    store.replan_renamed()?;
    let words = format!("{} is now {}", name(from), name(to));
    show.result(&json!({"from": key::show(from), "to": key::show(to)}), &words)?;
    Ok(true)
}

pub fn cp(store: &Store, from: &OsStr, to: &OsStr, show: Show) -> Result<bool> {
    let (from, to) = (from.as_bytes(), to.as_bytes());
    store.copy(from, to)?;
    store.replan_renamed()?;
    let words = format!("{} is a copy of {}", name(to), name(from));
    show.result(&json!({"from": key::show(from), "to": key::show(to)}), &words)?;
    Ok(true)
}

/// Complains about objects that are known to have lost bytes. Returns whether there are any.
pub fn tell_lost(store: &Store) -> Result<bool> {
    let lost = store.find_lost()?;
    if let Some(first) = lost.first() {
        let more = if lost.len() > 1 { format!(" and {} more", lost.len() - 1) } else { String::new() };
        complain(&format!("no good replica is left of bytes of {}{more}; put them again, or remove them", name(first)));
    }
    Ok(!lost.is_empty())
}

pub fn sync(store: &Store, show: Show) -> Result<bool> {
    let (datasets, mut good) = (Datasets::new(store), true);
    for dataset in datasets.list()? {
        // Updates between replicas of datasets are pending work, too.
        let settled = datasets.open(&dataset).and_then(|dataset| {
            dataset.settle()?;
            Ok(dataset.replicas()?.iter().any(|(_, _, behind)| *behind))
        });
        let why = match settled {
            Ok(false) => continue,
            Ok(true) => "it lacks what no replica has; `terrace dataset repair` tells more".to_owned(),
            Err(error) => error.to_string(),
        };
        good = false;
        complain(&format!("the dataset {dataset}: {why}"));
    }
    let bar = show.steps(0).with_message("pending replicas made");
    let mut most = 0;
    store.sync_with(|owed| {
        most = most.max(owed);
        bar.set_length(most);
        bar.set_position(most - owed);
    })?;
    bar.finish_and_clear();
    let lost = tell_lost(store)?;
    let volatile = store.find_volatile()?;
    let words = match volatile.first {
        Some(first) => format!(
            "no replica is pending; {} only in memory, as rules or requirements allow: {}{}; all else is durable",
            count(volatile.objects, "object"),
            name(&first),
            if volatile.objects > 1 { ", ..." } else { "" }
        ),
        None if lost => "no replica is pending, and all that is left is durable".to_owned(),
        None => "no replica is pending, and all is durable".to_owned(),
    };
    let unplanned = store.status()?.unplanned;
    if unplanned.waiting > 0 {
        complain(&format!(
            "{} too few replicas on the tiers that the rules name, because a tier is away or has no room; bring it back or free some space, and run `terrace sync` again",
            if unplanned.waiting == 1 {
                "1 object has".to_owned()
            } else {
                format!("{} objects have", unplanned.waiting)
            }
        ));
    }
    show.result(&json!({"owed": 0, "volatile": volatile.objects, "unplanned": unplanned}), &words)?;
    Ok(good && !lost && unplanned.waiting == 0)
}
