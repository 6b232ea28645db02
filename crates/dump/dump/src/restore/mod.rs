//! Step 6: restores buffers from the stores that are left, in a new run with any number of ranks.

mod archived;
mod buffers;
pub(crate) mod manifests;

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;
use terrace::Store;

use crate::archive::{Archive, share};
use crate::ask::{Said, ask_ranks};
use crate::chunk::{Chunk, Chunking, Hash};
use crate::confirm::{decode_hashes, load_packed};
use crate::manifest::Complete;
use crate::missing::{Missing, ask_all_nodes};
use crate::options::check_window;
use crate::packed::Packed;
use crate::parcel::{self, Opened};
use crate::session::{Session, Work};
use crate::terms::Terms;
use crate::transport::{World, agree};
use crate::{Error, Lost, Result};
use buffers::Buffers;

/// The ranks whose buffers a rank restores.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Each rank's own buffers, if as many ranks restore as dumped. Otherwise the dumped ranks are distributed in turn,
    /// so that each is restored once.
    Dealt,
    /// The buffers of these ranks.
    Of(&'a [u32]),
}

/// Restored buffers, possibly with lost parts.
#[non_exhaustive]
#[derive(Debug)]
pub struct Restored {
    /// The restored version.
    pub version: u32,
    /// The number of ranks that made the dump.
    pub ranks: u32,
    /// Whether it was restored from the archive, because it is not whole in the nodes' stores.
    pub is_archived: bool,
    buffers: BTreeMap<u32, Vec<Vec<u8>>>,
    lost: Vec<Lost>,
}

impl Wanted<'_> {
    /// Returns the wanted ranks of those that dumped.
    ///
    /// # Errors
    /// [`Error::Refused`] if one of them did not.
    fn among(self, world: &dyn World, ranks: u32) -> Result<Vec<u32>> {
        let wanted: Vec<u32> = match self {
            Wanted::Dealt => (0..ranks).filter(|rank| rank % world.size() == world.rank()).collect(),
            Wanted::Of(ranks) => ranks.to_vec(),
        };
        match wanted.iter().find(|rank| **rank >= ranks) {
            Some(rank) => Err(Error::Refused(format!("rank {rank} did not dump; ranks 0 to {} did", ranks - 1))),
            None => Ok(wanted),
        }
    }
}

impl Restored {
    /// Returns the buffers of each requested rank.
    ///
    /// # Errors
    /// [`Error::Lost`] if any part of them is lost.
    pub fn whole(self) -> Result<BTreeMap<u32, Vec<Vec<u8>>>> {
        if self.lost.is_empty() { Ok(self.buffers) } else { Err(Error::Lost(self.lost)) }
    }

    /// Returns the buffers with zeros in place of lost bytes, and the lost ranges in order.
    pub fn left(self) -> (BTreeMap<u32, Vec<Vec<u8>>>, Vec<Lost>) {
        (self.buffers, self.lost)
    }
}

/// Restores buffers from the newest version of a dump, or from the given one. Collective. Allocates two windows of
/// `window` bytes. Every chunk is verified; a damaged one is fetched from another store.
///
/// # Errors
/// [`Error::Differ`] on all ranks if they ask for different dumps, versions or windows.
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
    let session = begin(world, store, name, terms, window)?;
    let (version, _) = session.version(version)?;
    restore_version(&session, version, wanted, window)
}

/// Restores buffers as [`restore`] does, from the newest version that is whole for all ranks, or from the given version. Collective.
/// The nodes' stores are asked first for each version, then the archive, if there is one. Warnings name each newer version that is passed
/// over, and a version that comes from the archive.
///
/// # Errors
/// [`Error::Lost`] or [`Error::Elsewhere`], which tell of the newest version, if no version is whole.
pub fn restore_whole(
    world: &dyn World,
    store: &Store,
    name: &str,
    version: Option<u32>,
    wanted: Wanted<'_>,
    window: usize,
    archive: Option<&Archive>,
) -> Result<Restored> {
    let asked = version.map_or_else(|| "the newest that is whole".to_owned(), |version| version.to_string());
    let terms = Terms::of("restore").with("version", asked).with("window", window);
    let address = archive.map_or_else(|| "none".to_owned(), Archive::to_string);
    let session = begin(world, store, name, terms.with("archive", address), window)?;
    let mut search = Search { session: &session, failure: None };
    let archived = search.find_archived(archive)?;
    let all: BTreeSet<u32> = session.versions.keys().chain(&archived).copied().collect();
    for of in all.iter().copied().rev().filter(|of| version.is_none_or(|version| version == *of)) {
        if session.versions.contains_key(&of) {
            let restored = restore_version(&session, of, wanted, window)?;
            if let Some(restored) =
                search.check(Ok(restored), &format!("version {of} of dump {name:?} is not whole"))?
            {
                return Ok(restored);
            }
        }
        if let Some(archive) = archive.filter(|_| archived.contains(&of)) {
            let restored = archived::restore(&session, archive, of, wanted);
            let words = format!("version {of} of dump {name:?} is not whole in {archive}");
            if let Some(restored) = search.check(restored, &words)? {
                search.warn(&format!("version {of} of dump {name:?} is restored from {archive}"));
                return Ok(restored);
            }
        }
    }
    let known: Vec<String> = all.iter().map(u32::to_string).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let archive = archive.map(Archive::to_string);
    Err(search.failure.unwrap_or_else(|| Error::NotFound { name: name.to_owned(), version, archive, known }))
}

/// The search for a version that is whole.
struct Search<'a> {
    session: &'a Session<'a>,
    /// The first failure: that of the newest version.
    failure: Option<Error>,
}

impl Search<'_> {
    fn warn(&self, words: &str) {
        if self.session.world.rank() == 0 {
            tracing::warn!("{words}");
        }
    }

    /// Lists the versions in the archive. If it cannot be reached, there may be some in the stores. Collective.
    fn find_archived(&mut self, archive: Option<&Archive>) -> Result<BTreeSet<u32>> {
        let Some(archive) = archive else { return Ok(BTreeSet::new()) };
        match share(self.session.world, || archive.versions(self.session.name)) {
            Ok(versions) => Ok(versions.into_iter().collect()),
            Err(error) if error.is_transport() => Err(error),
            Err(error) => {
                self.warn(&error.to_string());
                self.failure = Some(error);
                Ok(BTreeSet::new())
            }
        }
    }

    /// Returns what was restored, if it is whole on all ranks; otherwise they all go on with another version, or none. Collective: all ranks
    /// come here, whatever their outcome.
    fn check(&mut self, restored: Result<Restored>, words: &str) -> Result<Option<Restored>> {
        let whole = restored.and_then(|mut restored| {
            Lost::check(std::mem::take(&mut restored.lost))?;
            Ok(restored)
        });
        match agree(self.session.world, whole) {
            Ok(restored) => Ok(Some(restored)),
            Err(error) if error.is_transport() => Err(error),
            Err(error) => {
                self.warn(&format!("{words}: {error}"));
                self.failure.get_or_insert(error);
                Ok(None)
            }
        }
    }
}

fn begin<'a>(
    world: &'a dyn World,
    store: &'a Store,
    name: &'a str,
    terms: Terms,
    window: usize,
) -> Result<Session<'a>> {
    let session = Session::begin(world, store, name, Work::Restore, terms)?;
    check_window(window, *Chunking::VALID_SIZES_BYTES.start() as usize)?;
    Ok(session)
}

/// Restores buffers from a version. Collective.
fn restore_version(session: &Session<'_>, version: u32, wanted: Wanted<'_>, window: usize) -> Result<Restored> {
    let (world, (version, complete)) = (session.world, session.version(Some(version))?);
    let ranks = complete.buffers.len() as u32;
    let wanted = agree(world, wanted.among(world, ranks))?;
    let manifests = manifests::fetch(session, version, complete, &wanted, window)?;
    let mut buffers = Buffers::new(&wanted, complete, manifests);
    let here = load_packed(session, version, |hash| session.answers(hash))?;
    let mut missing = list_missing(session, complete, &buffers);
    fetch_missing(session, &here, &mut missing, &mut buffers, window)?;
    ask_all_nodes(session, &here, &mut missing, window)?;
    fetch_missing(session, &here, &mut missing, &mut buffers, window)?;
    let (buffers, lost) = buffers.finish();
    Ok(Restored { version, ranks, is_archived: false, buffers, lost })
}

/// Returns whether the nodes' stores have all of a version, as far as their records tell: no chunk is read. Collective.
pub(crate) fn seems_whole(session: &Session<'_>, version: u32, window: usize) -> Result<bool> {
    let (world, (version, complete)) = (session.world, session.version(Some(version))?);
    let wanted = agree(world, Wanted::Dealt.among(world, complete.buffers.len() as u32))?;
    let manifests = manifests::fetch(session, version, complete, &wanted, window)?;
    let here = agree(world, load_packed(session, version, |hash| session.answers(hash)))?;
    let chunks = manifests.values().flat_map(|manifest| &manifest.chunks);
    let mut missing: Missing = chunks.map(|held| (held.hash, (held.length, SmallVec::new()))).collect();
    ask_all_nodes(session, &here, &mut missing, window)?;
    let lacks = manifests.len() < wanted.len() || missing.values().any(|(_, nodes)| nodes.is_empty());
    Ok(world.most(u64::from(lacks))? == 0)
}

/// Lists the missing chunks and the nodes to ask for them.
fn list_missing(session: &Session<'_>, complete: &Complete, buffers: &Buffers) -> Missing {
    let mut missing = Missing::default();
    for held in buffers.chunks() {
        let node = |store: &u32| session.node_of(*complete.stores.get(*store as usize)?);
        let mut nodes: SmallVec<[u32; 4]> = held.stores.iter().filter_map(node).collect();
        // Put this node last, since the last node is asked first; rotate the others to spread the load.
        let turn = held.hash.number() as usize % nodes.len().max(1);
        nodes.rotate_left(turn);
        nodes.sort_by_key(|node| *node == session.world.node());
        let known = missing.entry(held.hash).or_insert((held.length, SmallVec::new()));
        nodes.retain(|node| !known.1.contains(node));
        known.1.extend(nodes);
    }
    missing
}

/// Fetches missing chunks until no rank has a node left to ask. Collective.
fn fetch_missing(
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
        let (said, _) =
            ask_ranks(session.world, &questions, window, |heard| answer_with_chunks(session.store, here, heard))?;
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

/// Answers questions with the requested chunks that this node's store has.
fn answer_with_chunks(store: &Store, here: &Packed, heard: &Said) -> Result<Said> {
    let mut said = Said::new();
    for (from, hashes) in heard {
        let wanted = decode_hashes(hashes)?;
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
