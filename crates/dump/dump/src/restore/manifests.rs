//! Fetches the manifests of ranks from any store that has an intact copy.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::ask::{Said, ask_ranks};
use crate::halving::{Known, first, meet};
use crate::manifest::{self, Complete, Manifest};
use crate::names::{self, Part};
use crate::session::Session;
use crate::transport::agree;

/// Fetches the manifests of the wanted ranks, if any store has them. Collective.
pub fn fetch(
    session: &Session<'_>,
    version: u32,
    complete: &Complete,
    wanted: &[u32],
    window: usize,
) -> Result<BTreeMap<u32, Manifest>> {
    let mut holders = find_holders(session, version, complete.buffers.len() as u32, wanted)?;
    let mut found = BTreeMap::new();
    loop {
        let mut questions: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for rank in wanted.iter().filter(|rank| !found.contains_key(*rank)) {
            if let Some(holder) = holders.get_mut(rank).and_then(Vec::pop) {
                questions.entry(holder).or_default().push(*rank);
            }
        }
        if session.world.most(questions.len() as u64)? == 0 {
            return Ok(found);
        }
        let asked = questions.iter().map(|(to, ranks)| Ok((*to, manifest::encode(ranks)?)));
        let asked = agree(session.world, asked.collect::<Result<Said>>())?;
        let (said, _) = ask_ranks(session.world, &asked, window, |heard| {
            heard.iter().map(|(from, ranks)| Ok((*from, answer_with_manifests(session, version, ranks)?))).collect()
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

/// Returns, for each wanted rank, the leading ranks of the nodes whose stores have its manifest; the last one is asked
/// first. `ranks` is the number of ranks that dumped. Collective.
fn find_holders(session: &Session<'_>, version: u32, ranks: u32, wanted: &[u32]) -> Result<BTreeMap<u32, Vec<u32>>> {
    let world = session.world;
    let mine = match world.leads() {
        true => names::list_below(session.store, &names::version_prefix(session.name, Part::Manifest, version)),
        false => Ok(Vec::new()),
    };
    let mine = agree(world, mine)?.into_iter().filter_map(|key| names::parse_number(&key)).filter(|rank| *rank < ranks);
    let mut known: BTreeMap<u64, Vec<u32>> = wanted.iter().map(|rank| (first(*rank, ranks), Vec::new())).collect();
    mine.for_each(|rank| known.entry(first(rank, ranks)).or_default().push(world.rank()));
    let told = meet(world, Holders(known), (), |home| home.0.clone().into_iter().collect())?;
    let of = |rank: &u32| {
        let mut leaders: Vec<u32> = told.get(&first(*rank, ranks)).cloned().unwrap_or_default();
        leaders.sort_by_key(|leader| world.nodes()[*leader as usize] == world.node());
        (*rank, leaders)
    };
    Ok(wanted.iter().map(of).collect())
}

/// The holders of each rank's manifest. The key of a rank is the least number that has its home there, which spreads
/// the ranks evenly over homes.
#[derive(Default, Serialize, Deserialize)]
struct Holders(BTreeMap<u64, Vec<u32>>);

impl Known for Holders {
    type Key = u64;
    type Bounds = ();

    fn merge(mut self, other: Self, (): ()) -> Self {
        other.0.into_iter().for_each(|(rank, leaders)| self.0.entry(rank).or_default().extend(leaders));
        self
    }

    fn split_off(&mut self, rank: u32, size: u32) -> Self {
        Holders(self.0.split_off(&first(rank, size)))
    }

    fn keys(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }
}

/// Answers with the requested manifests that this store can read.
fn answer_with_manifests(session: &Session<'_>, version: u32, ranks: &[u8]) -> Result<Vec<u8>> {
    let mut found: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    for rank in manifest::decode::<Vec<u32>>("a question", ranks)? {
        match session.store.get(names::rank_key(session.name, Part::Manifest, version, rank).as_bytes()) {
            Ok(bytes) => {
                found.insert(rank, bytes);
            }
            Err(error) => tracing::warn!("a manifest is lost here, other stores are asked: {error}"),
        }
    }
    manifest::encode(&found)
}
