//! Drops old versions from an archive, with the remains of versions that have flowed only in part.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use terrace::fail;

use super::Claim;
use crate::Result;
use crate::names::{self, Part};

/// Number of files that are deleted after a look at the claim.
const FILES_PER_CHECK: usize = 16;

/// Drops all but the newest `keep` versions of a dump, and all that no version names. Returns the number of versions. Files stay as long
/// as a version names them.
pub fn drop_versions(claim: &Claim, name: &str, keep: NonZeroU32) -> Result<u32> {
    let archive = claim.archive();
    let mut old = archive.versions(name)?;
    let newest = old.split_off(old.len().saturating_sub(keep.get() as usize));
    let mut named: BTreeSet<String> = BTreeSet::new();
    for version in &newest {
        // Before anything is deleted: a record that cannot be read may name any file.
        let archived = archive.version(name, *version)?;
        named.extend((0..).zip(&archived.ranks).map(|(rank, hash)| names::record_name(name, *version, rank, hash)));
        named.extend(archived.packs);
    }
    let unnamed = |part| -> Result<Vec<String>> {
        Ok(archive.list(name, part)?.into_iter().filter(|file| !named.contains(file)).collect())
    };
    // The records that make versions exist go first, so that no version exists in part.
    let complete = old.iter().map(|version| names::version_prefix(name, Part::Complete, *version)).collect();
    delete(claim, name, Part::Complete, complete)?;
    fail::point("flow:dropped");
    delete(claim, name, Part::Ranks, unnamed(Part::Ranks)?)?;
    delete(claim, name, Part::Packs, unnamed(Part::Packs)?)?;
    Ok(old.len() as u32)
}

/// Deletes files, as long as no other job can have taken over, which may need them.
fn delete(claim: &Claim, name: &str, part: Part, files: Vec<String>) -> Result<()> {
    for files in files.chunks(FILES_PER_CHECK) {
        claim.check()?;
        claim.archive().delete(name, part, files.to_vec())?;
    }
    Ok(())
}
