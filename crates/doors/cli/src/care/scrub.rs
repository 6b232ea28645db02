//! `terrace scrub`: finds and repairs damage.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use serde::Serialize;
use terrace::report::{Scrubbed, TierState};
use terrace::{Store, key};
use terrace_datasets::Datasets;

use crate::inspect::check_has_objects;
use crate::output::{Show, complain, count, name};

pub fn scrub(
    store: &Store,
    prefix: Option<&OsStr>,
    repair: bool,
    subset: Option<(u64, u64)>,
    show: Show,
) -> Result<bool> {
    let prefix = prefix.unwrap_or_default().as_bytes();
    check_has_objects(store, prefix)?;
    let mut found = scrub_with_datasets(store, prefix, repair, subset, show)?;
    // Bytes that other replicas of a dataset hold are not lost until their repair has failed.
    let needs_dataset = if repair { 0 } else { take_of_datasets(store, &mut found)? };
    show.result(&Found { found: &found, needs_dataset }, &describe(&found, needs_dataset))?;
    show_advice(store, &found, repair, show)?;
    Ok(needs_dataset == 0 && is_good(&found))
}

/// Scrubs the store. With `repair`, repairs datasets from their other replicas, too, and then scrubs once more.
fn scrub_with_datasets(
    store: &Store,
    prefix: &[u8],
    repair: bool,
    subset: Option<(u64, u64)>,
    show: Show,
) -> Result<Scrubbed> {
    let spinner = show.spinner();
    let scrub = || {
        store.scrub(prefix, repair, subset, |found| {
            spinner.set_message(format!("{} checked", count(found.checked, "replica")));
        })
    };
    let mut found = scrub()?;
    if repair && repair_datasets(store, prefix, found.lost > 0)? {
        add_second_scrub(&mut found, scrub()?);
    }
    spinner.finish_and_clear();
    Ok(found)
}

/// Adds the result of a second scrub, before which datasets were repaired: sums for what the scrubs did, and the later state.
fn add_second_scrub(found: &mut Scrubbed, second: Scrubbed) {
    found.repaired = (found.bad + second.repaired).saturating_sub(second.bad);
    (found.owed, found.redirected) = (found.owed + second.owed, found.redirected + second.redirected);
    (found.lost, found.lost_of, found.away) = (second.lost, second.lost_of, second.away);
    (found.one_copy, found.few_copies) = (second.one_copy, second.few_copies);
    (found.changed, found.changed_of) = (second.changed, second.changed_of);
}

/// Returns whether a scrub found no damage, or repaired all of it.
fn is_good(found: &Scrubbed) -> bool {
    found.lost == 0
        && found.bad == found.repaired
        && found.miscounted == 0
        && found.away == 0
        && found.changed == 0
        && found.log_damaged == 0
        && found.log_copies_damaged == 0
        && found.log_copies_behind == 0
}

/// Describes the result in one line.
fn describe(found: &Scrubbed, needs_dataset: u64) -> String {
    let mut words = format!(
        "{} checked, {} bad, {} repaired, {} lost",
        count(found.checked, "replica"),
        found.bad,
        found.repaired,
        count(found.lost, "extent")
    );
    if needs_dataset > 0 {
        words.push_str(&format!(", {} to be made of other replicas of a dataset", count(needs_dataset, "extent")));
    }
    if found.owed > 0 {
        words.push_str(&format!(", {} pending in place of bad ones", found.owed));
    }
    if found.redirected > 0 {
        words.push_str(&format!(", {} made elsewhere, because their targets are away", found.redirected));
    }
    if found.away > 0 {
        words.push_str(&format!(", {} not read, because their targets are away", found.away));
    }
    if found.changed > 0 {
        words.push_str(&format!(", {} in adopted files that their owners have changed", found.changed));
    }
    if found.one_copy > 0 {
        words.push_str(&format!(", {} with one replica that are to have more", count(found.one_copy, "extent")));
    }
    if found.few_copies > 0 {
        words.push_str(&format!(
            ", {} with some, but fewer replicas than they are to have",
            count(found.few_copies, "extent")
        ));
    }
    if found.miscounted > 0 {
        words.push_str(&format!(", {} with a wrong number of owners", count(found.miscounted, "shared frame")));
    }
    if found.log_damaged > 0 {
        words.push_str(&format!(", {} of the commit log", count(found.log_damaged, "damaged file")));
    }
    if found.log_copies_damaged > 0 {
        words.push_str(&format!(", {} of copies of the commit log", count(found.log_copies_damaged, "damaged file")));
    }
    if found.log_copies_behind > 0 {
        words.push_str(&format!(
            ", {} of the commit log behind",
            if found.log_copies_behind == 1 {
                "1 copy".to_owned()
            } else {
                format!("{} copies", found.log_copies_behind)
            }
        ));
    }
    words
}

/// Prints which objects are damaged, and the commands that help.
fn show_advice(store: &Store, found: &Scrubbed, repair: bool, show: Show) -> Result<()> {
    show.objects(found.lost_of.iter().map(|(key, extents)| {
        let next = match terrace_dump::is_pack(key) {
            true => "`terrace restore` takes what it needs from other nodes' stores, and the next dump stores it again",
            false => "put it again",
        };
        format!("no good replica is left of {} of {}; {next}", count(*extents, "extent"), name(key.as_bytes()))
    }))?;
    if found.bad > found.repaired + found.lost && !repair {
        show.line("`terrace repair` replaces bad replicas from good ones")?;
    }
    show.objects(found.changed_of.iter().map(|(key, replicas)| {
        let (replicas, key) = (count(*replicas, "replica"), name(key.as_bytes()));
        format!("{replicas} of {key}: their owner has changed the file")
    }))?;
    if found.changed > 0 {
        show.line("`terrace adopt` takes the changed files as they are now; `terrace repair` keeps their objects as they were where another replica is left")?;
    }
    if found.away > 0 {
        show.line("`terrace status` names the targets that are away; bring them back, and repeat this")?;
    }
    let status = store.status()?;
    if status.owed > 0 {
        let pending = count(status.owed, "pending replica");
        let waits = status.tiers.iter().any(|tier| tier.queue > 0 && tier.state == TierState::Away);
        let next = if waits { "`terrace health` says what they wait for" } else { "`terrace sync` makes them" };
        show.line(&format!("{pending}; {next}"))?;
    }
    if found.log_damaged > 0 {
        show.line("`terrace rebuild` makes the commit log whole")?;
    }
    if found.log_copies_damaged > 0 {
        show.line("`terrace repair` writes the copies of the commit log again")?;
    }
    if found.log_copies_behind > 0 {
        show.line(
            "a copy of the commit log lacks the last changes: make room on its tier, or make it writable, and run `terrace sync`",
        )?;
    }
    if found.miscounted > 0 {
        show.line("`terrace rebuild` counts the owners of shared frames again")?;
    }
    Ok(())
}

/// The result of a scrub, with the extents that only their dataset can restore.
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

/// Removes extents of datasets' replicas from the lost ones, and counts them.
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

/// Updates replicas of datasets from those in other layouts. Returns false if there was nothing to do.
fn repair_datasets(store: &Store, prefix: &[u8], lost: bool) -> Result<bool> {
    let datasets = Datasets::new(store);
    let mut repaired = false;
    for dataset in datasets.list()? {
        let folder = format!("datasets/{dataset}").into_bytes();
        let dataset = match datasets.open(&dataset) {
            Ok(dataset) => dataset,
            Err(error) => {
                complain(&format!("the dataset {dataset} is left as it is: {error}"));
                continue;
            }
        };
        let behind = dataset.replicas()?.iter().any(|(_, _, behind)| *behind);
        if (behind || lost) && (key::below(&folder, prefix) || key::below(prefix, &folder)) {
            dataset.repair(false)?;
            repaired = true;
        }
    }
    Ok(repaired)
}
