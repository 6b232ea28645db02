//! The commands that mend and destroy a store.

mod scrub;

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use terrace::Store;
use terrace::report::RemainState;

pub use scrub::scrub;

use crate::output::{Show, complain, count, note, path_name, size};

pub fn rebuild(dir: &Path, salvage: bool, show: Show) -> Result<bool> {
    if salvage {
        let (_, found) = Store::salvage(dir)?;
        let words = format!(
            "{} ({}) below salvaged/, without their names; {} incomplete; deleted ones may be among them",
            count(found.objects, "object"),
            size(found.bytes),
            count(found.incomplete, "object"),
        );
        if found.log_was_damaged {
            complain(
                "the commit log was damaged or lost, and commits are missing: names, deletions and overwritten ranges since then are lost",
            );
        }
        show.result(&found, &words)?;
        return Ok(!found.log_was_damaged);
    }
    let store = Store::rebuild(dir)?;
    let objects = store.status()?.objects;
    let words = format!("the catalog was rebuilt: {}", count(objects, "object"));
    show.result(&json!({ "objects": objects }), &words)?;
    Ok(true)
}

pub fn prune(store: &Store, force: bool, show: Show) -> Result<bool> {
    let freed = store.prune(force)?;
    show.result(&json!({ "freed_bytes": freed }), &format!("{} given back", size(freed)))?;
    Ok(true)
}

pub fn destroy(dir: &Path, force: bool, dry_run: bool, show: Show) -> Result<bool> {
    let remains = if dry_run { Store::remains(dir)? } else { Store::destroy(dir, force)? };
    let verb = if dry_run { "would be removed" } else { "removed" };
    for target in remains.targets.iter().filter(|target| target.state == RemainState::Present) {
        show.line(&format!("{verb}: {} of tier {} in {}", size(target.used), target.tier, target.target))?;
    }
    let mut good = true;
    for target in remains.targets.iter().filter(|target| target.state == RemainState::Away) {
        good = dry_run;
        complain(&format!("left behind: what is on tier {} in {}: {}", target.tier, target.target, target.reason));
    }
    for kept in &remains.kept {
        note(&format!("kept, as it is not the store's: {}", path_name(kept)));
    }
    let held = match (remains.objects, remains.bytes) {
        (Some(objects), Some(bytes)) => format!("{} ({})", count(objects, "object"), size(bytes)),
        _ => "objects that could not be counted".to_owned(),
    };
    let verb = if dry_run { "would be destroyed" } else { "is destroyed" };
    show.result(&remains, &format!("the store in {} {verb}: {held}", path_name(dir)))?;
    Ok(good)
}
