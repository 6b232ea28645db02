//! `terrace rebuild`: makes a catalog, or a whole store, from a commit log.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use terrace::report::Salvaged;
use terrace::tier::ServiceAddress;
use terrace::{RebuildFrom, Store, key};

use crate::output::{Show, complain, count, name, note, path_name, size, time};

#[derive(Args)]
pub struct Rebuild {
    /// Continue if commits are missing. Keeps what the log still tells, and adds other intact objects on the targets as
    /// salvaged/NUMBER; deleted objects may be among them. Needs all tiers. If it is stopped, repeat it: until then, no other command opens
    /// the store.
    #[arg(long)]
    salvage: bool,
    /// Make a store from this bucket, whose node is lost: SERVICE://BUCKET/PATH.
    #[arg(long, value_name = "PLACE")]
    from: Option<OsString>,
    /// Set an option of the service, such as region=eu-1. Can be repeated.
    #[arg(short = 'o', long = "option", value_name = "NAME=VALUE", requires = "from")]
    options: Vec<String>,
    /// Take the bucket even if the lost node may still use it.
    #[arg(long, requires = "from")]
    force: bool,
}

pub fn rebuild(dir: &Path, asked: &Rebuild, show: Show) -> Result<bool> {
    if let Some(from) = &asked.from {
        return rebuild_from(dir, from, asked, show);
    }
    if asked.salvage {
        let (store, salvaged) = Store::salvage(dir)?;
        let lost = find_lost(&store)?;
        let words = describe_salvaged(&salvaged);
        let is_whole = lost.is_empty() && !salvaged.log_was_damaged;
        show.result(&SalvagedAndLost { salvaged, lost: &lost }, &words)?;
        name_lost(&lost, show)?;
        return Ok(is_whole);
    }
    let store = Store::rebuild(dir)?;
    let objects = store.status()?.objects;
    let lost = find_lost(&store)?;
    let words = format!("the catalog was rebuilt: {}{}", count(objects, "object"), describe_lost(&lost));
    show.result(&json!({ "objects": objects, "lost": lost }), &words)?;
    name_lost(&lost, show)?;
    Ok(lost.is_empty())
}

/// The result of a salvage, for scripts.
#[derive(Serialize)]
struct SalvagedAndLost<'a> {
    #[serde(flatten)]
    salvaged: Salvaged,
    /// The keys of the objects that the log names, and that have lost bytes.
    lost: &'a [String],
}

/// Returns the keys of the objects that have lost bytes, as they are shown.
fn find_lost(store: &Store) -> Result<Vec<String>> {
    Ok(store.find_lost()?.iter().map(|lost| key::show(lost)).collect())
}

fn describe_lost(lost: &[String]) -> String {
    if lost.is_empty() { String::new() } else { format!(", {} of them with lost bytes", lost.len()) }
}

/// Names the objects that have lost bytes, and says what to do.
fn name_lost(lost: &[String], show: Show) -> Result<()> {
    show.objects(
        lost.iter().map(|key| {
            format!("no good replica is left of bytes of {}; put it again, or remove it", name(key.as_bytes()))
        }),
    )
}

fn rebuild_from(dir: &Path, from: &OsStr, asked: &Rebuild, show: Show) -> Result<bool> {
    let address = ServiceAddress::parse(from)
        .context("a store is made again from a service; name it as SERVICE://BUCKET/PATH, such as s3://runs/terrace")?;
    let settings = address.settings(&asked.options)?;
    let (_store, made) =
        Store::rebuild_from(dir, &settings, RebuildFrom { force: asked.force, salvage: asked.salvage })?;
    for target in &made.targets {
        let (before, now) = (path_name(&target.before), path_name(&target.now));
        note(&format!("tier {}: {before} is gone; an empty target in {now} takes its place", target.tier));
    }
    if let Some(copied) = made.copied_at {
        let at = time(i64::try_from(copied).unwrap_or(i64::MAX).saturating_mul(1_000_000_000));
        note(&format!(
            "the bucket's copy of the log is of {at} UTC; later commits are in the store only if a disk has a newer copy"
        ));
    }
    let salvaged = made.salvaged.map_or(String::new(), |found| format!("; {}", describe_salvaged(&found)));
    let words = format!(
        "the store is in {}: {}, {} of them with lost bytes{salvaged}",
        path_name(dir),
        count(made.objects, "object"),
        made.lost.len()
    );
    show.result(&made, &words)?;
    name_lost(&made.lost, show)?;
    Ok(made.lost.is_empty() && !made.salvaged.is_some_and(|found| found.log_was_damaged))
}

/// Describes what was salvaged, and complains of a damaged log.
fn describe_salvaged(found: &Salvaged) -> String {
    if found.log_was_damaged {
        complain(
            "the commit log was damaged or lost, and commits are missing: names, deletions and overwritten ranges since then are lost",
        );
    }
    let found_again = match found.found_again {
        0 => String::new(),
        extents => format!("; {} of other objects found at new places", count(extents, "extent")),
    };
    format!(
        "{} ({}) below salvaged/, without their names; {} incomplete; deleted ones may be among them{found_again}",
        count(found.objects, "object"),
        size(found.bytes),
        count(found.incomplete, "object"),
    )
}
