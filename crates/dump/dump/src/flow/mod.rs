//! Lets a version of a dump flow from the nodes' stores to an archive, each distinct chunk once.
//!
//! A rank asks the nodes for the chunks of its manifests that are not in the archive: one node for each chunk, on which all ranks agree by its hash.
//! That node puts those that it is asked for into packs. The record that makes the version exist there is written last, so an interrupted
//! flow leaves the versions before as they were. The next one makes the same packs, and sends those that are missing. If the archive takes no more, it
//! first loses the packs that neither a version nor this flow names.

mod room;
mod send;
mod there;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::Serialize;
use terrace::{Store, fail};

use crate::archive::{Archive, ArchivedRank, ArchivedVersion, Claim, gc, share};
use crate::ask::{Said, exchange_messages};
use crate::chunk::Hash;
use crate::manifest::{self, Complete, Manifest};
use crate::names;
use crate::options::check_window;
use crate::packed::Packed;
use crate::restore::manifests;
use crate::session::{Session, Work};
use crate::terms::Terms;
use crate::transport::{World, agree};
use crate::{Error, Lost, Result};
use send::SentPacks;

/// The result of a flow, the same on all ranks.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flowed {
    /// The version.
    pub version: u32,
    /// The packs that hold the version in the archive.
    pub packs: u64,
    /// The packs that were sent.
    pub sent: u64,
    /// Their length in bytes.
    pub bytes: u64,
    /// The number of older versions that were dropped there.
    pub dropped: u32,
}

/// Lets a version flow to an archive: the given one, or the newest in the nodes' stores. Collective. When it returns, the version exists there,
/// and all that was sent was read back. Of packs that are there from the version before, only the length is checked: let the version flow again to
/// have them read, and mended. With `keep`, older versions are then dropped there. A version that is there already is read, and what is
/// damaged is sent again. If the archive takes no more, what no version there names is deleted, and with `keep` the versions that are too many
/// already; then it is tried once more.
///
/// # Errors
/// [`Error::Refused`] if another job lets the dump flow from one of the stores or to the archive, or if another dump has the version there;
/// [`Error::Lost`] if too many stores are lost. Versions that are in the archive stay.
pub fn flow(
    world: &dyn World,
    store: &Store,
    name: &str,
    version: Option<u32>,
    archive: &Archive,
    keep: Option<NonZeroU32>,
    window: usize,
) -> Result<Flowed> {
    let asked = version.map_or_else(|| "the newest".to_owned(), |version| version.to_string());
    let kept = keep.map_or_else(|| "all versions".to_owned(), |keep| keep.to_string());
    let terms = Terms::of("flow").with("version", asked).with("archive", archive).with("keep", kept);
    let session = Session::begin(world, store, name, Work::Flow, terms.with("window", window))?;
    check_window(window, Hash::LENGTH_BYTES)?;
    let (version, complete) = session.version(version)?;
    let claim = agree(world, (world.rank() == 0).then(|| Claim::take(archive, name)).transpose())?;
    let before = share(world, || find_before(archive, name, version, complete))?;
    let ranks: Vec<u32> =
        (0..complete.buffers.len() as u32).filter(|rank| rank % world.size() == world.rank()).collect();
    let manifests = manifests::fetch(&session, version, complete, &ranks, window)?;
    let lost = ranks.iter().filter(|rank| !manifests.contains_key(rank)).flat_map(|rank| Lost::all_of(complete, *rank));
    agree(world, Lost::check(lost.collect()))?;
    let found = there::find(&session, archive, before.as_ref(), version, &manifests, window)?;
    let transfer = Transfer { session: &session, archive, version, complete, manifests: &manifests, found, window };
    let (packs, sent, dropped) = transfer.run_with_room(claim.as_ref(), keep)?;
    let dropped = dropped + transfer.drop_versions(claim.as_ref(), keep)?;
    let said = world.all_gather(&manifest::encode(&(packs, sent.packs, sent.bytes, dropped))?)?;
    let mut flowed = Flowed { version, ..Flowed::default() };
    for said in &said {
        let (packs, sent, bytes, dropped) =
            manifest::decode::<(u64, u64, u64, u32)>("the packs that a rank has sent", said)?;
        flowed.packs += packs;
        flowed.sent += sent;
        flowed.bytes += bytes;
        flowed.dropped += dropped;
    }
    Ok(flowed)
}

/// Finds the version in the archive whose chunks need not be sent: this one, if it is there, otherwise the newest.
fn find_before(
    archive: &Archive,
    name: &str,
    version: u32,
    complete: &Complete,
) -> Result<Option<(u32, ArchivedVersion)>> {
    let versions = archive.versions(name)?;
    let this = versions.iter().filter(|there| **there == version);
    let others = versions.iter().rev().filter(|there| **there != version);
    for before in this.chain(others).copied() {
        match archive.version(name, before) {
            Ok(archived) if before == version && archived.complete.attempt != complete.attempt => {
                return Err(Error::Refused(format!(
                    "version {version} of dump {name:?} in {archive} is another one than that in the nodes' stores; name another place, \
                     or dump a later version"
                )));
            }
            Ok(archived) => return Ok(Some((before, archived))),
            Err(error) => tracing::warn!("version {before} of dump {name:?} is not whole in {archive}: {error}"),
        }
    }
    Ok(None)
}

/// The records of some ranks: the hash of each, and the packs to which they refer.
type PutRecords = (Vec<(u32, Hash)>, BTreeSet<String>);

/// Puts the records of ranks into the archive.
fn put_records(
    archive: &Archive,
    name: &str,
    version: u32,
    manifests: &BTreeMap<u32, Manifest>,
    places: &Packed,
) -> Result<PutRecords> {
    let mut put = PutRecords::default();
    for (rank, manifest) in manifests {
        let index = places.index(manifest.chunks.iter().map(|held| held.hash));
        put.1.extend(index.packs.iter().cloned());
        let record = manifest::encode(&ArchivedRank { manifest: manifest.clone(), index })?;
        let hash = Hash::of(&record);
        archive.put(&names::record_name(name, version, *rank, &hash), &record)?;
        fail::point("flow:record");
        put.0.push((*rank, hash));
    }
    Ok(put)
}

/// The way of a version to an archive.
struct Transfer<'a> {
    session: &'a Session<'a>,
    archive: &'a Archive,
    version: u32,
    complete: &'a Complete,
    /// The manifests for which this rank asks the nodes.
    manifests: &'a BTreeMap<u32, Manifest>,
    /// The places of their chunks that need not be sent.
    found: Packed,
    window: usize,
}

impl Transfer<'_> {
    /// Sends what is missing, and makes the version exist. Adds what this rank sends to `sent`. Returns the number of packs of the version on the
    /// rank that has the `claim`, and zero on others. Collective.
    fn run(&self, claim: Option<&Claim>, sent: &mut SentPacks) -> Result<u64> {
        let Transfer { session, archive, version, manifests, .. } = *self;
        let mut places = self.found.clone();
        send::send_missing(self, Some(archive), &mut places, sent)?;
        let records = agree(session.world, put_records(archive, session.name, version, manifests, &places))?;
        self.complete(claim, records)
    }

    /// Makes the version exist. Collective.
    fn complete(&self, claim: Option<&Claim>, records: PutRecords) -> Result<u64> {
        let Transfer { session, version, complete, .. } = *self;
        let heard = self.gather_on_first(&records)?;
        let put = |claim: &Claim| {
            let (mut ranks, mut packs) = (BTreeMap::new(), BTreeSet::new());
            for heard in heard.values() {
                let (some, of) = manifest::decode::<PutRecords>("the records of a rank", heard)?;
                ranks.extend(some);
                packs.extend(of);
            }
            let (ranks, packs) = (ranks.into_values().collect(), packs.into_iter().collect::<Vec<_>>());
            let count = packs.len() as u64;
            let name = session.name.to_owned();
            let archived = ArchivedVersion { name, version, complete: complete.clone(), ranks, packs };
            claim.check()?;
            claim.archive().complete(&archived)?;
            fail::point("flow:complete");
            // Another job that has taken over may have deleted files of the version before it existed.
            claim.check()?;
            Ok(count)
        };
        agree(session.world, claim.map_or(Ok(0), put))
    }

    /// Drops older versions, on the rank that has the `claim`, and returns their number. Collective.
    fn drop_versions(&self, claim: Option<&Claim>, keep: Option<NonZeroU32>) -> Result<u32> {
        let Transfer { session, version, .. } = *self;
        let dropped = claim.zip(keep).map_or(Ok(0), |(claim, keep)| gc::drop_versions(claim, session.name, keep));
        let dropped = dropped.unwrap_or_else(|error| {
            let (name, archive) = (session.name, self.archive);
            tracing::warn!(
                "version {version} of dump {name:?} is in {archive}, and older ones are not all dropped: {error}"
            );
            0
        });
        agree(session.world, Ok(dropped))
    }

    /// Gathers a value of each rank on the first one. Returns them by rank there, and none on others. Collective.
    fn gather_on_first(&self, said: &impl Serialize) -> Result<Said> {
        let said = Said::from([(0, manifest::encode(said)?)]);
        Ok(exchange_messages(self.session.world, &said, self.window)?.0)
    }
}
