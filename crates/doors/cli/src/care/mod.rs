//! The commands that mend and destroy a store.

mod rebuild;
mod scrub;

use std::path::Path;

use anyhow::Result;
use serde_json::json;
use terrace::Store;
use terrace::report::RemainState;

pub use rebuild::{Rebuild, rebuild};
pub use scrub::scrub;

use crate::output::{Show, complain, count, note, path_name, size};

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
