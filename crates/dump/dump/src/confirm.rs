//! What stores have of earlier dumps, and confirm: the holder has read the chunk, and its hash is right.

use std::collections::BTreeMap;

use crate::ask::{Said, ask};
use crate::chunk::{ByHash, Chunk, Hash};
use crate::exchange::Moved;
use crate::manifest::{self, Complete, Index, Manifest};
use crate::names::{self, Part};
use crate::packed::Packed;
use crate::plan::Nodes;
use crate::session::Session;
use crate::{Error, Result};

/// What stores have already.
#[derive(Default)]
pub struct Confirmed {
    /// For each chunk of this rank, the nodes that have it.
    pub nodes: Vec<Nodes>,
    /// What this rank has confirmed to others of its node's store.
    pub index: Index,
    /// What asking has moved.
    pub moved: Moved,
}

impl Confirmed {
    /// As where nobody was asked.
    pub fn none(chunks: &[Chunk<'_>]) -> Confirmed {
        Confirmed { nodes: vec![Nodes::new(); chunks.len()], ..Confirmed::default() }
    }
}

/// Asks, for each chunk that the version before had, those who should have it. Collective.
pub fn confirm(
    session: &Session<'_>,
    chunks: &[Chunk<'_>],
    before: Option<(u32, &Complete)>,
    window: usize,
) -> Result<Confirmed> {
    let mut confirmed = Confirmed::none(chunks);
    let Some((version, complete)) = before else { return Ok(confirmed) };
    let world = session.world;
    let questions = questions(session, chunks, version, complete);

    let hashes = |about: &Vec<usize>| about.iter().flat_map(|chunk| chunks[*chunk].hash.0).collect();
    let asked: Said = questions.iter().map(|(rank, about)| (*rank, hashes(about))).collect();
    let (said, moved) = ask(world, &asked, window, |heard| answer(session, version, heard, &mut confirmed.index))?;
    confirmed.moved = moved;
    for (rank, about) in &questions {
        let said = said.get(rank).map_or(&[][..], Vec::as_slice);
        for (chunk, said) in about.iter().zip(said) {
            if *said == HAVE {
                confirmed.nodes[*chunk].push(world.nodes()[*rank as usize]);
            }
        }
    }
    Ok(confirmed)
}

/// Said of a chunk that the store has.
const HAVE: u8 = 1;

/// Which chunks each rank is asked about: their numbers. Nobody can be asked where the manifest of the version before is
/// not in this node's store.
fn questions(
    session: &Session<'_>,
    chunks: &[Chunk<'_>],
    version: u32,
    complete: &Complete,
) -> BTreeMap<u32, Vec<usize>> {
    let key = names::share(session.name, Part::Manifest, version, session.world.rank());
    let Ok(manifest) = manifest::get::<Manifest>(session.store, &key) else { return BTreeMap::new() };
    if manifest.attempt != complete.attempt {
        return BTreeMap::new();
    }
    let held: ByHash<&[u32]> = manifest.chunks.iter().map(|held| (held.hash, &held.stores[..])).collect();
    let mut questions: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (number, chunk) in chunks.iter().enumerate() {
        for store in held.get(&chunk.hash).into_iter().copied().flatten() {
            let node = complete.stores.get(*store as usize).and_then(|id| session.node_of(*id));
            if let Some(node) = node {
                let rank = session.who_answers(node, &chunk.hash);
                questions.entry(rank).or_default().push(number);
            }
        }
    }
    questions
}

/// Looks up, reads and verifies what others ask about; what to answer to each, a byte for each chunk.
fn answer(session: &Session<'_>, version: u32, heard: &Said, index: &mut Index) -> Result<Said> {
    let mut asked: ByHash<bool> = ByHash::default();
    for hashes in heard.values() {
        asked.extend(hashes_of(hashes)?.into_iter().map(|hash| (hash, false)));
    }
    if asked.is_empty() {
        return Ok(Said::new());
    }
    let packed = packed(session, version, |hash| asked.contains_key(hash))?;
    let wanted: Vec<Hash> = asked.keys().copied().collect();
    let mut good = Vec::new();
    packed.read(session.store, &wanted, &mut |number, _| {
        good.push(wanted[number]);
        Ok(())
    })?;
    good.iter().for_each(|hash| {
        asked.insert(*hash, true);
    });
    *index = packed.index(good.into_iter());
    let say = |hash: &Hash| if asked.get(hash) == Some(&true) { HAVE } else { 0 };
    heard.iter().map(|(from, hashes)| Ok((*from, hashes_of(hashes)?.iter().map(say).collect()))).collect()
}

/// What this node's store has for a version, as far as `wanted` tells.
pub fn packed(session: &Session<'_>, version: u32, wanted: impl Fn(&Hash) -> bool) -> Result<Packed> {
    let mut packed = Packed::default();
    for key in names::below(session.store, &names::version(session.name, Part::Index, version))? {
        match manifest::get::<Index>(session.store, &key) {
            Ok(index) => packed.add(index, &wanted),
            Err(error) => tracing::warn!("an index is lost here, other stores are asked: {error}"),
        }
    }
    Ok(packed)
}

/// The hashes that a letter holds.
pub fn hashes_of(bytes: &[u8]) -> Result<Vec<Hash>> {
    let (hashes, rest) = bytes.as_chunks::<{ Hash::LENGTH }>();
    match rest.is_empty() {
        true => Ok(hashes.iter().copied().map(Hash).collect()),
        false => Err(Error::damaged("a list of chunks", "it is cut off")),
    }
}
