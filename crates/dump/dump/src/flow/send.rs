//! Sends chunks to an archive in packs.

use std::collections::BTreeMap;

use smallvec::SmallVec;
use terrace::fail;

use crate::archive::Archive;
use crate::ask::{Said, ask_ranks};
use crate::chunk::{ByHash, Hash};
use crate::confirm::{decode_hashes, load_packed};
use crate::manifest::{self, Complete, Index, Manifest, Place};
use crate::missing::{Missing, ask_all_nodes};
use crate::names::{self, Part};
use crate::packed::Packed;
use crate::session::Session;
use crate::transport::agree;
use crate::{Lost, Result};

use super::Transfer;

/// Maximum length of a pack in bytes, unless a single chunk is longer.
const MAX_SENT_PACK_BYTES: u64 = 8 << 20;

/// The packs that a rank has sent.
#[derive(Default)]
pub struct SentPacks {
    pub packs: u64,
    pub bytes: u64,
}

/// Lets the nodes send all chunks of the manifests that are not in the archive, and adds their places to `places`, and what this rank sends to
/// `sent`. Without an archive, sends nothing: `places` then names the packs that would be sent. Collective. All failures but those of the
/// transport are known to all ranks, so that they can try again.
pub fn send_missing(
    transfer: &Transfer<'_>,
    archive: Option<&Archive>,
    places: &mut Packed,
    sent: &mut SentPacks,
) -> Result<()> {
    let Transfer { session, version, complete, manifests, window, .. } = *transfer;
    let here = agree(session.world, load_packed(session, version, |hash| session.answers(hash)))?;
    let mut missing = list_missing(session, complete, manifests, places);
    let prefix = names::part_prefix(session.name, Part::Packs);
    let mut sender = Sender { session, archive, prefix, here, sent: Packed::default(), count: sent };
    send_from_nodes(&mut sender, manifests, &mut missing, places, window)?;
    ask_all_nodes(session, &sender.here, &mut missing, window)?;
    send_from_nodes(&mut sender, manifests, &mut missing, places, window)?;
    agree(session.world, list_lost(manifests, &missing).and_then(Lost::check))
}

/// Lists the missing chunks and the nodes to ask for them. All ranks ask the nodes for a chunk in the same order, so that one of them sends it.
fn list_missing(
    session: &Session<'_>,
    complete: &Complete,
    manifests: &BTreeMap<u32, Manifest>,
    there: &Packed,
) -> Missing {
    let mut missing = Missing::default();
    for held in manifests.values().flat_map(|manifest| &manifest.chunks).filter(|held| !there.has(&held.hash)) {
        let node = |store: &u32| session.node_of(*complete.stores.get(*store as usize)?);
        let mut nodes: SmallVec<[u32; 4]> = held.stores.iter().filter_map(node).collect();
        nodes.sort_unstable();
        let turn = held.hash.number() as usize % nodes.len().max(1);
        nodes.rotate_left(turn);
        missing.insert(held.hash, (held.length, nodes));
    }
    missing
}

/// Asks nodes to send missing chunks until no rank has a node left to ask. Collective.
fn send_from_nodes(
    sender: &mut Sender<'_>,
    manifests: &BTreeMap<u32, Manifest>,
    missing: &mut Missing,
    there: &mut Packed,
    window: usize,
) -> Result<()> {
    let session = sender.session;
    loop {
        // In the order of the memory, so that chunks which are read together later are in one pack.
        let (mut questions, mut asked) = (Said::new(), ByHash::default());
        for held in manifests.values().flat_map(|manifest| &manifest.chunks) {
            let Some((_, nodes)) = missing.get_mut(&held.hash).filter(|_| !asked.contains_key(&held.hash)) else {
                continue;
            };
            if let Some(node) = nodes.pop() {
                asked.insert(held.hash, ());
                questions.entry(session.who_answers(node, &held.hash)).or_default().extend(held.hash.0);
            }
        }
        if session.world.most(questions.len() as u64)? == 0 {
            return Ok(());
        }
        let (said, _) = ask_ranks(session.world, &questions, window, |heard| sender.answer(heard))?;
        let decode = |said| manifest::decode::<Index>("the places of sent chunks", said);
        for index in agree(session.world, said.values().map(|said| decode(said)).collect::<Result<Vec<_>>>())? {
            index.chunks.iter().for_each(|(hash, _)| drop(missing.remove(hash)));
            there.add(index, |_| true);
        }
    }
}

/// Lists the ranges of chunks that no node could send.
fn list_lost(manifests: &BTreeMap<u32, Manifest>, missing: &Missing) -> Result<Vec<Lost>> {
    let mut lost = Vec::new();
    for (rank, manifest) in manifests {
        let is_missing =
            |chunk: u32| manifest.chunks.get(chunk as usize).is_some_and(|c| missing.contains_key(&c.hash));
        let positions = manifest.positions()?.into_iter().filter(|at| is_missing(at.chunk));
        lost.extend(positions.map(|at| Lost::of(*rank, at)));
    }
    Ok(Lost::join(lost))
}

/// Sends the chunks of this node that ranks ask for.
struct Sender<'a> {
    session: &'a Session<'a>,
    archive: Option<&'a Archive>,
    /// The folder of packs in the archive.
    prefix: String,
    /// The chunks for which this rank answers.
    here: Packed,
    /// The chunks that it has sent.
    sent: Packed,
    count: &'a mut SentPacks,
}

impl Sender<'_> {
    /// Sends chunks, and answers with the places of those that it has sent now or before.
    fn answer(&mut self, heard: &Said) -> Result<Said> {
        let asked = heard.iter().map(|(from, hashes)| Ok((*from, decode_hashes(hashes)?)));
        let asked: BTreeMap<u32, Vec<Hash>> = asked.collect::<Result<_>>()?;
        let mut known: ByHash<()> = ByHash::default();
        let (mut pack, mut length) = (Vec::new(), 0);
        let max_pack = fail::limit("TERRACE_FLOW_PACK", MAX_SENT_PACK_BYTES);
        for hash in asked.values().flatten() {
            let Some(bytes) = self.here.length_of(hash).filter(|_| !self.sent.has(hash)) else { continue };
            if known.insert(*hash, ()).is_some() {
                continue;
            }
            if length + u64::from(bytes) > max_pack {
                self.send(&std::mem::take(&mut pack))?;
                length = 0;
            }
            pack.push(*hash);
            length += u64::from(bytes);
        }
        self.send(&pack)?;
        let answer = |(from, hashes): (u32, Vec<Hash>)| {
            let index = self.sent.index(hashes.into_iter());
            Ok((from, manifest::encode(&index)?))
        };
        asked.into_iter().map(answer).collect()
    }

    /// Sends chunks in one pack. Leaves out those that cannot be read: another node is asked for them.
    fn send(&mut self, hashes: &[Hash]) -> Result<()> {
        let mut found: Vec<Vec<u8>> = vec![Vec::new(); hashes.len()];
        self.here.read(self.session.store, hashes, &mut |number, bytes| {
            found[number] = bytes.to_vec();
            Ok(())
        })?;
        let (mut pack, mut chunks) = (Vec::new(), Vec::new());
        for (hash, bytes) in hashes.iter().zip(found).filter(|(_, bytes)| !bytes.is_empty()) {
            chunks.push((*hash, Place { pack: 0, offset: pack.len() as u32, length: bytes.len() as u32 }));
            pack.extend(bytes);
        }
        if pack.is_empty() {
            return Ok(());
        }
        let key = format!("{}/{}", self.prefix, Hash::of(&pack));
        if let Some(archive) = self.archive
            && archive.put(&key, &pack)?
        {
            self.count.packs += 1;
            self.count.bytes += pack.len() as u64;
        }
        self.sent.add(Index { packs: vec![key], chunks }, |_| true);
        Ok(())
    }
}
