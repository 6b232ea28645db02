//! The manifests of ranks, from whichever store has a good copy.

use std::collections::BTreeMap;

use crate::Result;
use crate::ask::{Said, ask};
use crate::manifest::{self, Complete, Manifest};
use crate::names::{self, Part};
use crate::session::Session;
use crate::transport::agree;

/// Fetches the manifests of ranks, as far as any store has them. Collective.
pub fn fetch(
    session: &Session<'_>,
    version: u32,
    complete: &Complete,
    wanted: &[u32],
    window: usize,
) -> Result<BTreeMap<u32, Manifest>> {
    let mut holders = holders(session, version)?;
    let mut found = BTreeMap::new();
    loop {
        let mut questions: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in wanted.iter().filter(|rank| !found.contains_key(*rank)) {
            if let Some(holder) = holders.get_mut(rank).and_then(Vec::pop) {
                questions.entry(holder).or_default().push(*rank);
            }
        }
        let all = session.world.all_gather(&[u8::from(!questions.is_empty())])?;
        if all.iter().all(|asks| asks[..] == [0]) {
            return Ok(found);
        }
        let asked = questions.iter().map(|(to, ranks)| Ok((*to, manifest::encode(ranks)?)));
        let asked = agree(session.world, asked.collect::<Result<Said>>())?;
        let (said, _) = ask(session.world, &asked, window, |heard| {
            heard.iter().map(|(from, ranks)| Ok((*from, answer(session, version, ranks)?))).collect()
        })?;
        for said in said.values() {
            let manifests: BTreeMap<u32, Vec<u8>> = manifest::decode("an answer", said)?;
            let whole = manifests.iter().filter_map(|(rank, bytes)| {
                let manifest: Manifest = manifest::decode("a manifest", bytes).ok()?;
                let lengths = complete.buffers.get(*rank as usize)?;
                let ours = manifest.attempt == complete.attempt && manifest.buffers == *lengths;
                (ours && manifest.positions().is_ok()).then_some((*rank, manifest))
            });
            found.extend(whole);
        }
    }
}

/// The ranks that lead nodes whose stores have each rank's manifest, those that are asked first last. Collective.
fn holders(session: &Session<'_>, version: u32) -> Result<BTreeMap<u32, Vec<u32>>> {
    let world = session.world;
    let mine = match world.leads() {
        true => names::below(session.store, &names::version(session.name, Part::Manifest, version)),
        false => Ok(Vec::new()),
    };
    let mine: Vec<u32> = agree(world, mine)?.iter().filter_map(|key| names::number(key)).collect();
    let all = world.all_gather(&manifest::encode(&mine)?)?;
    let mut holders: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (leader, manifests) in all.iter().enumerate() {
        for rank in manifest::decode::<Vec<u32>>("a list of manifests", manifests)? {
            holders.entry(rank).or_default().push(leader as u32);
        }
    }
    let here = |leader: &u32| world.nodes()[*leader as usize] == world.node();
    holders.values_mut().for_each(|leaders| leaders.sort_by_key(here));
    Ok(holders)
}

/// The manifests of the ranks that are asked for, as far as this store can read them.
fn answer(session: &Session<'_>, version: u32, ranks: &[u8]) -> Result<Vec<u8>> {
    let mut found: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for rank in manifest::decode::<Vec<u32>>("a question", ranks)? {
        match session.store.get(names::share(session.name, Part::Manifest, version, rank).as_bytes()) {
            Ok(bytes) => {
                found.insert(rank, bytes);
            }
            Err(error) => tracing::warn!("a manifest is lost here, other stores are asked: {error}"),
        }
    }
    manifest::encode(&found)
}
