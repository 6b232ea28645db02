//! Step 6: buffers from what stores are left, in a new run, with any number of ranks.

mod buffers;
mod manifests;

use std::collections::BTreeMap;

use smallvec::SmallVec;
use terrace::Store;

use crate::ask::{Said, ask};
use crate::chunk::{ByHash, Chunk, Chunking, Hash};
use crate::confirm::{hashes_of, packed};
use crate::manifest::Complete;
use crate::options::check_window;
use crate::packed::Packed;
use crate::parcel::{self, Opened};
use crate::session::{Session, Work};
use crate::terms::Terms;
use crate::transport::{World, agree};
use crate::{Error, Lost, Result};
use buffers::Buffers;

/// Which ranks' buffers a rank asks for.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// With as many ranks as dumped: each its own. Otherwise they are dealt out in turn, so that each is restored once.
    Dealt,
    /// Those of these ranks.
    Of(&'a [u32]),
}

/// Buffers of ranks, as far as they could be restored.
#[derive(Debug)]
pub struct Restored {
    /// The version.
    pub version: u32,
    /// How many ranks had dumped.
    pub ranks: u32,
    buffers: BTreeMap<u32, Vec<Vec<u8>>>,
    lost: Vec<Lost>,
}

impl Restored {
    /// The buffers of each rank asked for.
    ///
    /// # Errors
    /// [`Error::Lost`] where a part of them is lost.
    pub fn whole(self) -> Result<BTreeMap<u32, Vec<Vec<u8>>>> {
        if self.lost.is_empty() { Ok(self.buffers) } else { Err(Error::Lost(self.lost)) }
    }

    /// What is left of the buffers, with zeros for what is lost; and which ranges those are, in order.
    pub fn left(self) -> (BTreeMap<u32, Vec<Vec<u8>>>, Vec<Lost>) {
        (self.buffers, self.lost)
    }
}

/// Restores buffers from the newest version of a dump, or from the one that is asked for. Collective. Takes two windows of
/// `window` bytes. Every chunk is verified; one that is damaged is fetched from elsewhere.
///
/// # Errors
/// [`Error::Differ`] on all ranks where these ask for different dumps, versions or windows.
pub fn restore(
    world: &dyn World,
    store: &Store,
    name: &str,
    version: Option<u32>,
    wanted: Wanted<'_>,
    window: usize,
) -> Result<Restored> {
    let asked = version.map_or_else(|| "the newest".to_owned(), |version| version.to_string());
    let terms = Terms::of("restore").with("version", asked).with("window", window);
    let session = Session::begin(world, store, name, Work::Restore, terms)?;
    check_window(window, *Chunking::SIZES.start() as usize)?;
    let (version, complete) = session.version(version)?;
    let ranks = complete.buffers.len() as u32;
    let wanted = match wanted {
        Wanted::Dealt => (0..ranks).filter(|rank| rank % world.size() == world.rank()).collect(),
        Wanted::Of(ranks) => ranks.to_vec(),
    };
    let beyond = wanted.iter().find(|rank| **rank >= ranks);
    let refuse = |rank: &u32| Err(Error::Refused(format!("rank {rank} did not dump; ranks 0 to {} did", ranks - 1)));
    agree(world, beyond.map_or(Ok(()), refuse))?;
    let manifests = manifests::fetch(&session, version, complete, &wanted, window)?;
    let mut buffers = Buffers::new(&wanted, complete, manifests);
    let here = packed(&session, version, |hash| session.answers(hash))?;
    let mut missing = missing(&session, complete, &buffers);
    fetch(&session, &here, &mut missing, &mut buffers, window)?;
    find(&session, &here, &mut missing, window)?;
    fetch(&session, &here, &mut missing, &mut buffers, window)?;
    let (buffers, lost) = buffers.finish();
    Ok(Restored { version, ranks, buffers, lost })
}

/// Chunks that are still to come, with the nodes that are still to be asked, the next one last.
type Missing = ByHash<(u32, SmallVec<[u32; 4]>)>;

/// What is to come, from whom.
fn missing(session: &Session<'_>, complete: &Complete, buffers: &Buffers) -> Missing {
    let mut missing = Missing::default();
    for held in buffers.chunks() {
        let node = |store: &u32| session.node_of(*complete.stores.get(*store as usize)?);
        let mut nodes: SmallVec<[u32; 4]> = held.stores.iter().filter_map(node).collect();
        // This node last, as it is asked first; the others by turns.
        let turn = held.hash.number() as usize % nodes.len().max(1);
        nodes.rotate_left(turn);
        nodes.sort_by_key(|node| *node == session.world.node());
        let known = missing.entry(held.hash).or_insert((held.length, SmallVec::new()));
        nodes.retain(|node| !known.1.contains(node));
        known.1.extend(nodes);
    }
    missing
}

/// Fetches what is missing as long as there is somebody to ask. Collective.
fn fetch(
    session: &Session<'_>,
    here: &Packed,
    missing: &mut Missing,
    buffers: &mut Buffers,
    window: usize,
) -> Result<()> {
    loop {
        let mut questions = Said::new();
        let mut bytes = 0;
        for (hash, (length, nodes)) in missing.iter_mut() {
            if bytes >= window {
                break;
            }
            if let Some(node) = nodes.pop() {
                questions.entry(session.who_answers(node, hash)).or_default().extend(hash.0);
                bytes += *length as usize;
            }
        }
        if session.world.most(questions.len() as u64)? == 0 {
            return Ok(());
        }
        let (said, _) = ask(session.world, &questions, window, |heard| answer(session.store, here, heard))?;
        for bytes in said.values() {
            let come = Opened::default().add(bytes, &mut |hash, chunk| {
                if Hash::of(chunk) == hash && missing.remove(&hash).is_some() {
                    buffers.fill(&hash, chunk);
                }
                Ok(())
            });
            if let Err(error) = come {
                tracing::warn!("an answer is damaged, others are asked: {error}");
            }
        }
    }
}

/// The chunks that this node's store has of those that are asked for.
fn answer(store: &Store, here: &Packed, heard: &Said) -> Result<Said> {
    let mut said = Said::new();
    for (from, hashes) in heard {
        let wanted = hashes_of(hashes)?;
        let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
        here.read(store, &wanted, &mut |number, bytes| {
            found.push((number, bytes.to_vec()));
            Ok(())
        })?;
        let chunks: Vec<Chunk<'_>> =
            found.iter().map(|(number, bytes)| Chunk { hash: wanted[*number], bytes }).collect();
        let mut letter = parcel::head(chunks.iter());
        chunks.iter().for_each(|chunk| letter.extend_from_slice(chunk.bytes));
        said.insert(*from, letter);
    }
    Ok(said)
}

/// Asks all nodes which of the missing chunks they have: more may than the manifests know of. Collective.
fn find(session: &Session<'_>, here: &Packed, missing: &mut Missing, window: usize) -> Result<()> {
    let mut questions: BTreeMap<u32, Vec<Hash>> = BTreeMap::new();
    for hash in missing.keys() {
        for node in 0..session.stores.len() as u32 {
            questions.entry(session.who_answers(node, hash)).or_default().push(*hash);
        }
    }
    let asked =
        questions.iter().map(|(rank, hashes)| (*rank, hashes.iter().flat_map(|hash| hash.0).collect())).collect();
    let (said, _) = ask(session.world, &asked, window, |heard| {
        let known = |hash: &Hash| u8::from(here.has(hash));
        heard.iter().map(|(from, hashes)| Ok((*from, hashes_of(hashes)?.iter().map(known).collect()))).collect()
    })?;
    for (rank, hashes) in questions {
        let said = said.get(&rank).map_or(&[][..], Vec::as_slice);
        for (hash, _) in hashes.iter().zip(said).filter(|(_, said)| **said == 1) {
            if let Some((_, nodes)) = missing.get_mut(hash) {
                nodes.push(session.world.nodes()[rank as usize]);
            }
        }
    }
    Ok(())
}
