//! Drops old versions from an archive, with the remains of versions that have flowed only in part.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU32;

use terrace::fail;

use super::{Archive, Claim};
use crate::Result;
use crate::names::{self, Part};

/// Number of files that are deleted after a look at the claim.
const FILES_PER_CHECK: usize = 16;

/// Drops all but the newest `keep` versions of a dump, and all that no version names. Returns the number of versions. Files stay as long
/// as a version names them.
pub fn drop_versions(claim: &Claim, name: &str, keep: NonZeroU32) -> Result<u32> {
    Garbage::find(claim.archive(), name, Some(keep), &BTreeSet::new())?.delete(claim, name)
}

/// The versions of a dump that are too many, and the files that no version which stays names.
pub struct Garbage {
    versions: Vec<u32>,
    records: Vec<String>,
    packs: Vec<String>,
}

impl Garbage {
    /// Finds it. `keep` is the number of versions that stay, `None` stands for all; the files that are `needed` stay, too.
    pub fn find(archive: &Archive, name: &str, keep: Option<NonZeroU32>, needed: &BTreeSet<String>) -> Result<Garbage> {
        let mut versions = archive.versions(name)?;
        let stay = keep.map_or(versions.len(), |keep| keep.get() as usize);
        let newest = versions.split_off(versions.len().saturating_sub(stay));
        let mut named: BTreeSet<String> = needed.clone();
        for version in &newest {
            // Before anything is deleted: a record that cannot be read may name any file.
            let archived = archive.version(name, *version)?;
            named.extend((0..).zip(&archived.ranks).map(|(rank, hash)| names::record_name(name, *version, rank, hash)));
            named.extend(archived.packs);
        }
        let unnamed = |part| -> Result<Vec<String>> {
            Ok(archive.list(name, part)?.into_iter().filter(|file| !named.contains(file)).collect())
        };
        Ok(Garbage { versions, records: unnamed(Part::Ranks)?, packs: unnamed(Part::Packs)? })
    }

    /// Returns the number of versions and files.
    pub fn len(&self) -> usize {
        self.versions.len() + self.records.len() + self.packs.len()
    }

    /// Deletes it. Returns the number of versions.
    pub fn delete(&self, claim: &Claim, name: &str) -> Result<u32> {
        // The records that make versions exist go first, so that no version exists in part.
        let complete: Vec<String> =
            self.versions.iter().map(|version| names::version_prefix(name, Part::Complete, *version)).collect();
        delete(claim, name, Part::Complete, &complete, "newer versions are as many as stay")?;
        fail::point("flow:dropped");
        delete(claim, name, Part::Ranks, &self.records, "no version that stays names it")?;
        delete(claim, name, Part::Packs, &self.packs, "no version that stays names it")?;
        Ok(self.versions.len() as u32)
    }
}

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Garbage { versions, records, packs } = self;
        if !versions.is_empty() {
            let numbers: Vec<String> = versions.iter().map(u32::to_string).collect();
            write!(f, "the versions that are too many ({}), ", numbers.join(", "))?;
        }
        write!(f, "{} packs and {} records that no version which stays names", packs.len(), records.len())
    }
}

/// Deletes files, as long as no other job can have taken over, which may need them.
fn delete(claim: &Claim, name: &str, part: Part, files: &[String], reason: &str) -> Result<()> {
    let archive = claim.archive();
    for files in files.chunks(FILES_PER_CHECK) {
        claim.check()?;
        files.iter().for_each(|file| tracing::info!("{file} in {archive} is deleted: {reason}"));
        archive.delete(name, part, files.to_vec())?;
    }
    Ok(())
}
