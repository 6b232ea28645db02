//! Chunks that ranks need and do not have.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use crate::Result;
use crate::ask::ask_ranks;
use crate::chunk::{ByHash, Hash};
use crate::confirm::decode_hashes;
use crate::packed::Packed;
use crate::session::Session;

/// Missing chunks with their lengths and the nodes that have not been asked for them yet, the next one last.
pub type Missing = ByHash<(u32, SmallVec<[u32; 4]>)>;

/// Asks all nodes which of the missing chunks they have, because stores may have more than the manifests tell.
/// Collective.
pub fn ask_all_nodes(session: &Session<'_>, here: &Packed, missing: &mut Missing, window: usize) -> Result<()> {
    let mut questions: BTreeMap<u32, Vec<Hash>> = BTreeMap::new();
    for hash in missing.keys() {
        for node in 0..session.stores.len() as u32 {
            questions.entry(session.who_answers(node, hash)).or_default().push(*hash);
        }
    }
    let asked =
        questions.iter().map(|(rank, hashes)| (*rank, hashes.iter().flat_map(|hash| hash.0).collect())).collect();
    let (said, _) = ask_ranks(session.world, &asked, window, |heard| {
        let known = |hash: &Hash| u8::from(here.has(hash));
        heard.iter().map(|(from, hashes)| Ok((*from, decode_hashes(hashes)?.iter().map(known).collect()))).collect()
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
