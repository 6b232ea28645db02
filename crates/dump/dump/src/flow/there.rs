//! Finds the chunks that an archive has from an earlier version.

use std::collections::{BTreeMap, BTreeSet};

use crate::Result;
use crate::archive::{Archive, ArchivedVersion};
use crate::ask::{Said, ask_ranks};
use crate::chunk::{ByHash, Hash};
use crate::manifest::{self, Index, Manifest};
use crate::packed::Packed;
use crate::session::Session;
use crate::transport::agree;

/// The chunks of a pack that a rank wants to use: the first byte and the length of each.
type PackUse = (String, Vec<(u32, u32)>);

/// Finds the places of this rank's chunks in packs that may be used again. Collective.
pub fn find(
    session: &Session<'_>,
    archive: &Archive,
    before: Option<&(u32, ArchivedVersion)>,
    version: u32,
    manifests: &BTreeMap<u32, Manifest>,
    window: usize,
) -> Result<Packed> {
    let chunks = || manifests.values().flat_map(|manifest| &manifest.chunks).map(|held| held.hash);
    let wanted: ByHash<()> = chunks().map(|hash| (hash, ())).collect();
    let mut there = Packed::default();
    if let Some((before, archived)) = before {
        for rank in manifests.keys().filter(|rank| **rank < archived.ranks.len() as u32) {
            match archive.rank(session.name, *before, archived, *rank) {
                Ok(record) => there.add(record.index, |hash| wanted.contains_key(hash)),
                Err(error) => tracing::warn!("the chunks of rank {rank} are sent again: {error}"),
            }
        }
    }
    let index = there.index(wanted.into_keys());
    let is_repeated = before.is_some_and(|(before, _)| *before == version);
    let usable = judge_packs(session, archive, is_repeated, &index, window)?;
    let mut found = Packed::default();
    let pack = |hash: &Hash| there.pack_of(hash).is_some_and(|pack| usable.contains(pack));
    found.add(index, pack);
    Ok(found)
}

/// Returns the packs of the index that may be used again. For each, one rank learns from all what they use of it. Collective.
fn judge_packs(
    session: &Session<'_>,
    archive: &Archive,
    is_repeated: bool,
    index: &Index,
    window: usize,
) -> Result<BTreeSet<String>> {
    let mut uses: Vec<PackUse> = index.packs.iter().map(|pack| (pack.clone(), Vec::new())).collect();
    for (_, place) in &index.chunks {
        if let Some((_, places)) = uses.get_mut(place.pack as usize) {
            places.push((place.offset, place.length));
        }
    }
    let mut questions: BTreeMap<u32, Vec<PackUse>> = BTreeMap::new();
    for of in uses {
        let judge = Hash::of(of.0.as_bytes()).number() % u64::from(session.world.size());
        questions.entry(judge as u32).or_default().push(of);
    }
    let asked = questions.iter().map(|(judge, uses)| Ok((*judge, manifest::encode(uses)?)));
    let asked = agree(session.world, asked.collect::<Result<Said>>())?;
    let (said, _) = ask_ranks(session.world, &asked, window, |heard| answer(archive, is_repeated, heard))?;
    let mut usable = BTreeSet::new();
    for said in said.values() {
        usable.extend(manifest::decode::<Vec<String>>("an answer about packs", said)?);
    }
    Ok(usable)
}

/// Answers each rank with those of its packs that may be used again.
fn answer(archive: &Archive, is_repeated: bool, heard: &Said) -> Result<Said> {
    let mut all: BTreeMap<String, BTreeSet<(u32, u32)>> = BTreeMap::new();
    let mut by_rank: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (from, uses) in heard {
        for (pack, places) in manifest::decode::<Vec<PackUse>>("a question about packs", uses)? {
            by_rank.entry(*from).or_default().push(pack.clone());
            all.entry(pack).or_default().extend(places);
        }
    }
    all.retain(|pack, places| is_usable(archive, is_repeated, pack, places));
    let encode = |(from, mut packs): (u32, Vec<String>)| {
        packs.retain(|pack| all.contains_key(pack));
        Ok((from, manifest::encode(&packs)?))
    };
    by_rank.into_iter().map(encode).collect()
}

/// Returns whether a pack may be used again. Of a version that is there already, the pack is read. For a new version, it has to have its length, and at
/// least half of it has to be in use: its other chunks would stay as long as one of them is.
fn is_usable(archive: &Archive, is_repeated: bool, pack: &str, places: &BTreeSet<(u32, u32)>) -> bool {
    let end = places.iter().map(|(offset, length)| u64::from(*offset) + u64::from(*length)).max().unwrap_or(0);
    let live: u64 = places.iter().map(|(_, length)| u64::from(*length)).sum();
    let judged = match is_repeated {
        true => archive.is_pack_whole(pack),
        false => archive.length(pack).map(|length| length.is_some_and(|length| length >= end && live * 2 >= length)),
    };
    judged.unwrap_or_else(|error| {
        tracing::warn!("the chunks of a pack are sent again: {error}");
        false
    })
}
