//! Makes room in an archive that takes no more.
//!
//! A flow that fails, or is killed, leaves packs that no version names. They would take the room of all later versions, since old versions are
//! dropped only once a new one is whole. This flow may name some of them itself: those that an interrupted flow of the same version has sent.
//! So the packs are made again, without being sent, and only the others are deleted.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use terrace::fail;

use super::Transfer;
use super::send::{SentPacks, send_missing};
use crate::archive::{Claim, gc};
use crate::{Error, Result, manifest};

impl Transfer<'_> {
    /// Sends what is missing, and makes the version exist; if the archive fails, once more after making room. Returns the number of the version's
    /// packs, what this rank has sent, and the number of dropped versions; the numbers are zeros but on the rank that has the `claim`. Collective.
    pub(super) fn run_with_room(
        &self,
        claim: Option<&Claim>,
        keep: Option<NonZeroU32>,
    ) -> Result<(u64, SentPacks, u32)> {
        let mut sent = SentPacks::default();
        match self.run(claim, &mut sent) {
            Ok(packs) => Ok((packs, sent, 0)),
            Err(error) if error.is_transport() => Err(error),
            Err(error) => match self.make_room(claim, keep, &error)? {
                Some(dropped) => Ok((self.run(claim, &mut sent)?, sent, dropped)),
                None => Err(error),
            },
        }
    }

    /// Deletes what neither a version that stays nor this flow names. Returns the number of dropped versions, which is zero but on the rank that has
    /// the claim, or `None` if it deletes nothing. Collective: each rank has the failure of the flow, its own or that of another rank.
    fn make_room(&self, claim: Option<&Claim>, keep: Option<NonZeroU32>, failure: &Error) -> Result<Option<u32>> {
        let (world, name) = (self.session.world, self.session.name);
        // Any failure of the archive counts: each service has an error of its own for a bucket that is full.
        if world.most(u64::from(matches!(failure, Error::Archive { .. })))? == 0 {
            return Ok(None);
        }
        // Without garbage, no rank needs to read its chunks again.
        let find = |claim: &Claim, needed: &BTreeSet<String>| gc::Garbage::find(claim.archive(), name, keep, needed);
        if self.count_deleted(claim, |claim| Ok(find(claim, &BTreeSet::new())?.len()))? == 0 {
            return Ok(None);
        }
        let mut places = self.found.clone();
        send_missing(self, None, &mut places, &mut SentPacks::default())?;
        let chunks = self.manifests.values().flat_map(|manifest| &manifest.chunks).map(|held| held.hash);
        let heard = self.gather_on_first(&places.index(chunks).packs)?;
        let mut dropped = 0;
        let deleted = self.count_deleted(claim, |claim| {
            let mut needed = BTreeSet::new();
            for heard in heard.values() {
                needed.extend(manifest::decode::<Vec<String>>("the packs that a rank needs", heard)?);
            }
            let garbage = find(claim, &needed)?;
            if garbage.len() == 0 {
                return Ok(0);
            }
            tracing::warn!(
                "the flow of version {} of dump {name:?} has failed: {failure}; to make room, {garbage} are deleted from {}, and it is tried \
                 once more",
                self.version,
                self.archive
            );
            dropped = garbage.delete(claim, name)?;
            fail::point("flow:room");
            Ok(garbage.len())
        })?;
        Ok((deleted > 0).then_some(dropped))
    }

    /// Runs `count` on the rank that has the claim, and returns its number on all ranks; if it fails, says so and returns zero. Collective.
    fn count_deleted(&self, claim: Option<&Claim>, count: impl FnOnce(&Claim) -> Result<usize>) -> Result<usize> {
        let counted = claim.map_or(Ok(0), count).unwrap_or_else(|error| {
            tracing::warn!("no room is made in {}: {error}", self.archive);
            0
        });
        Ok(self.session.world.most(counted as u64)? as usize)
    }
}
