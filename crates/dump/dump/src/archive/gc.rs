//! Drops old versions from an archive, with the remains of versions that have flowed only in part.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use terrace::fail;

use super::Claim;
use crate::Result;
use crate::names::{self, Part};

/// Drops all but the newest `keep` versions of a dump, and all that no version names. Returns the number of versions. Packs stay as long
/// as a version names them.
pub fn drop_versions(claim: &Claim, name: &str, keep: NonZeroU32) -> Result<u32> {
    let archive = claim.archive();
    let mut old = archive.versions(name)?;
    let newest = old.split_off(old.len().saturating_sub(keep.get() as usize));
    let mut packs: BTreeSet<String> = BTreeSet::new();
    for version in &newest {
        // Before anything is deleted: a record that cannot be read may name any pack.
        packs.extend(archive.version(name, *version)?.packs);
    }
    // The records that make versions exist go first, so that no version exists in part.
    let complete = old.iter().map(|version| names::version_prefix(name, Part::Complete, *version)).collect();
    claim.check()?;
    archive.delete(name, Part::Complete, complete)?;
    fail::point("flow:dropped");
    let is_old = |file: &String| names::version_of(file).is_none_or(|version| !newest.contains(&version));
    archive.delete(name, Part::Ranks, archive.list(name, Part::Ranks)?.into_iter().filter(is_old).collect())?;
    let unnamed = archive.list(name, Part::Packs)?.into_iter().filter(|pack| !packs.contains(pack)).collect();
    claim.check()?;
    archive.delete(name, Part::Packs, unnamed)?;
    Ok(old.len() as u32)
}
