//! Finds chunks of earlier dumps in the stores. A store confirms a chunk only after it has read the chunk and verified
//! its hash.

use std::collections::BTreeMap;

use crate::ask::{Said, ask_ranks};
use crate::chunk::{ByHash, Chunk, Hash};
use crate::exchange::Moved;
use crate::manifest::{self, Complete, Index, Manifest};
use crate::names::{self, Part};
use crate::packed::Packed;
use crate::plan::Nodes;
use crate::session::Session;
use crate::{Error, Result};

/// The chunks that stores have already.
#[derive(Default)]
pub struct Confirmed {
    /// For each chunk of this rank, the nodes that have it.
    pub nodes: Vec<Nodes>,
    /// The chunks of its node's store that this rank has confirmed to others.
    pub index: Index,
    /// The data that the questions moved.
    pub moved: Moved,
}

impl Confirmed {
    /// Returns the result without any confirmed chunk.
    pub fn none(chunks: &[Chunk<'_>]) -> Confirmed {
        Confirmed { nodes: vec![Nodes::new(); chunks.len()], ..Confirmed::default() }
    }
}

/// Asks, for each chunk that the previous version contains, the ranks whose stores should have it. Collective.
pub fn confirm(
    session: &Session<'_>,
    chunks: &[Chunk<'_>],
    before: Option<(u32, &Complete)>,
    window: usize,
) -> Result<Confirmed> {
    let mut confirmed = Confirmed::none(chunks);
    let Some((version, complete)) = before else { return Ok(confirmed) };
    let world = session.world;
    let questions = prepare_questions(session, chunks, version, complete);

    let hashes = |about: &Vec<usize>| about.iter().flat_map(|chunk| chunks[*chunk].hash.0).collect();
    let asked: Said = questions.iter().map(|(rank, about)| (*rank, hashes(about))).collect();
    let (said, moved) =
        ask_ranks(world, &asked, window, |heard| answer_questions(session, version, heard, &mut confirmed.index))?;
    confirmed.moved = moved;
    for (rank, about) in &questions {
        let said = said.get(rank).map_or(&[][..], Vec::as_slice);
        for (chunk, said) in about.iter().zip(said) {
            if *said == ANSWER_HAS_CHUNK {
                confirmed.nodes[*chunk].push(world.nodes()[*rank as usize]);
            }
        }
    }
    Ok(confirmed)
}

/// The answer for a chunk that the store has.
const ANSWER_HAS_CHUNK: u8 = 1;

/// Returns the numbers of the chunks that each rank is asked about. There are none if the manifest of the previous
/// version is not in this node's store.
fn prepare_questions(
    session: &Session<'_>,
    chunks: &[Chunk<'_>],
    version: u32,
    complete: &Complete,
) -> BTreeMap<u32, Vec<usize>> {
    let key = names::rank_key(session.name, Part::Manifest, version, session.world.rank());
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

/// Reads and verifies the chunks that others ask about, and returns the answers: one byte for each chunk.
fn answer_questions(session: &Session<'_>, version: u32, heard: &Said, index: &mut Index) -> Result<Said> {
    let mut asked: ByHash<bool> = ByHash::default();
    for hashes in heard.values() {
        asked.extend(decode_hashes(hashes)?.into_iter().map(|hash| (hash, false)));
    }
    if asked.is_empty() {
        return Ok(Said::new());
    }
    let packed = load_packed(session, version, |hash| asked.contains_key(hash))?;
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
    let say = |hash: &Hash| if asked.get(hash) == Some(&true) { ANSWER_HAS_CHUNK } else { 0 };
    heard.iter().map(|(from, hashes)| Ok((*from, decode_hashes(hashes)?.iter().map(say).collect()))).collect()
}

/// Loads the places of a version's chunks in this node's store, for the chunks for which `wanted` returns true.
pub fn load_packed(session: &Session<'_>, version: u32, wanted: impl Fn(&Hash) -> bool) -> Result<Packed> {
    let mut packed = Packed::default();
    for key in names::list_below(session.store, &names::version_prefix(session.name, Part::Index, version))? {
        match manifest::get::<Index>(session.store, &key) {
            Ok(index) => packed.add(index, &wanted),
            Err(error) => tracing::warn!("an index is lost here, other stores are asked: {error}"),
        }
    }
    Ok(packed)
}

/// Decodes the hashes of a letter.
pub fn decode_hashes(bytes: &[u8]) -> Result<Vec<Hash>> {
    let (hashes, rest) = bytes.as_chunks::<{ Hash::LENGTH_BYTES }>();
    match rest.is_empty() {
        true => Ok(hashes.iter().copied().map(Hash).collect()),
        false => Err(Error::damaged("a list of chunks", "it is cut off")),
    }
}
