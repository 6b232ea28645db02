//! Deleting, renaming, and keeping the store right.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::json;
use terrace::report::Scrubbed;
use terrace::{Error, Store, key};
use terrace_datasets::Datasets;

use crate::look::{each, there};
use crate::output::{Show, count, size};

/// Objects that are named, at most, where extents are lost.
const NAMED: usize = 20;

pub fn rm(store: &Store, key: &OsStr, recursive: bool, dry_run: bool, show: Show) -> Result<bool> {
    let key = key.as_bytes();
    let mut keys = Vec::new();
    if recursive {
        there(store, key)?;
        each(store, key, |key, _| {
            keys.push(key.to_vec());
            Ok(())
        })?;
    } else {
        match store.stat(key) {
            Err(e @ (Error::NotFound { .. } | Error::BadKey { .. })) if there(store, key).is_err() => bail!(e),
            Err(Error::NotFound { .. } | Error::BadKey { .. }) => {
                bail!("{:?} holds objects and is none itself; `terrace rm -r` deletes them", key::show(key))
            }
            found => found?,
        };
        keys.push(key.to_vec());
    }
    if dry_run {
        let keys: Vec<String> = keys.iter().map(|key| key::show(key)).collect();
        for key in &keys {
            show.line(&format!("would delete {key}"))?;
        }
        show.result(&json!({"would_delete": keys}), &format!("{} to delete", count(keys.len() as u64, "object")))?;
        return Ok(true);
    }
    let mut deleted = 0;
    for key in &keys {
        match store.remove(key) {
            // Somebody else was quicker.
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
    store.rename(from, to)?;
    store.replan_renamed()?;
    let (from, to) = (key::show(from), key::show(to));
    show.result(&json!({"from": from, "to": to}), &format!("{from} is now {to}"))?;
    Ok(true)
}

pub fn sync(store: &Store, show: Show) -> Result<bool> {
    let bar = show.steps(0).with_message("owed replicas made");
    let mut most = 0;
    store.sync_with(|owed| {
        most = most.max(owed);
        bar.set_length(most);
        bar.set_position(most - owed);
    })?;
    bar.finish_and_clear();
    show.result(&json!({"owed": 0}), "nothing is owed, and all is durable")?;
    Ok(true)
}

pub fn scrub(
    store: &Store,
    prefix: Option<&OsStr>,
    repair: bool,
    subset: Option<(u64, u64)>,
    show: Show,
) -> Result<bool> {
    let spinner = show.spinner();
    let prefix = prefix.unwrap_or_default().as_bytes();
    let scrub = || {
        store.scrub(prefix, repair, subset, |found| {
            spinner.set_message(format!("{} checked", count(found.checked, "replica")));
        })
    };
    let mut found = scrub()?;
    if repair && repair_datasets(store, prefix, found.lost > 0)? {
        let Scrubbed { bad, repaired, lost, lost_of, .. } = scrub()?;
        found.repaired = (found.bad + repaired).saturating_sub(bad);
        (found.lost, found.lost_of) = (lost, lost_of);
    }
    spinner.finish_and_clear();
    // What a dataset's other replicas have is not lost, as long as nobody has tried.
    let needs = if repair { 0 } else { take_of_datasets(store, &mut found)? };
    let good = found.lost == 0 && needs == 0 && found.bad == found.repaired;
    let mut words = format!(
        "{} checked, {} bad, {} repaired, {} lost",
        count(found.checked, "replica"),
        found.bad,
        found.repaired,
        count(found.lost, "extent")
    );
    if needs > 0 {
        words.push_str(&format!(", {} to be made of other replicas of a dataset", count(needs, "extent")));
    }
    show.result(&Found { found: &found, needs_dataset: needs }, &words)?;
    for (key, extents) in found.lost_of.iter().take(NAMED) {
        show.line(&format!("no good replica is left of {} of {key}; put it again", count(*extents, "extent")))?;
    }
    if found.lost_of.len() > NAMED {
        show.line(&format!("and so of {} more; --json names all", found.lost_of.len() - NAMED))?;
    }
    if found.bad > found.repaired + found.lost && !repair {
        show.line("`terrace repair` makes bad replicas anew from good ones")?;
    }
    Ok(good)
}

/// What a scrub found, with the extents that only their dataset can make.
#[derive(Serialize)]
struct Found<'a> {
    #[serde(flatten)]
    found: &'a Scrubbed,
    #[serde(skip_serializing_if = "is_none")]
    needs_dataset: u64,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

/// Takes the extents of datasets' replicas out of those that are lost, and counts them.
fn take_of_datasets(store: &Store, found: &mut Scrubbed) -> Result<u64> {
    if found.lost == 0 {
        return Ok(0);
    }
    let folders: Vec<_> = Datasets::new(store).list()?.iter().map(|name| format!("datasets/{name}/")).collect();
    let of_dataset = |key: &String, _: &mut u64| folders.iter().any(|folder| key.starts_with(folder));
    let needs = found.lost_of.extract_if(.., of_dataset).map(|(_, extents)| extents).sum();
    found.lost -= needs;
    Ok(needs)
}

/// Makes what replicas of datasets lack of others in other layouts. False where there was nothing to do.
fn repair_datasets(store: &Store, prefix: &[u8], lost: bool) -> Result<bool> {
    let datasets = Datasets::new(store);
    let mut repaired = false;
    for name in datasets.list()? {
        let folder = format!("datasets/{name}").into_bytes();
        let dataset = datasets.open(&name)?;
        let behind = dataset.replicas()?.iter().any(|(_, _, behind)| *behind);
        if (behind || lost) && (key::below(&folder, prefix) || key::below(prefix, &folder)) {
            dataset.repair(false)?;
            repaired = true;
        }
    }
    Ok(repaired)
}

pub fn rebuild(dir: &Path, salvage: bool, show: Show) -> Result<bool> {
    if salvage {
        let (_, found) = Store::salvage(dir)?;
        let words = format!(
            "{} ({}) below salvaged/, without their names; {} incomplete; deleted ones may be among them",
            count(found.objects, "object"),
            size(found.bytes),
            count(found.incomplete, "object"),
        );
        show.result(&found, &words)?;
        return Ok(true);
    }
    let store = Store::rebuild(dir)?;
    let objects = store.status()?.objects;
    let words = format!("the catalog was made anew from the log: {}", count(objects, "object"));
    show.result(&json!({ "objects": objects }), &words)?;
    Ok(true)
}
