//! Runs the steps of a dump in order. The record that makes the dump exist is written last.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use terrace::Store;

use crate::ask::exchange_messages;
use crate::chunk::{Chunk, Chunks};
use crate::confirm::{Confirmed, confirm};
use crate::exchange::{Letter, Moved, exchange};
use crate::halving::{Answers, meet};
use crate::keep::{drop_older_versions, dump_with_room, remove_incomplete_versions};
use crate::manifest::{self, Complete, Held, Manifest};
use crate::names::{self, Part};
use crate::options::{Dumped, Duplicates, MAX_VERSION, Options};
use crate::pack::{Packer, pack};
use crate::parcel::{self, Opened};
use crate::plan::{self, Decided, Holdings, Load, Mine, Nodes, Plan};
use crate::session::{Session, Work};
use crate::table::Holder;
use crate::transport::{World, agree};
use crate::votes::Votes;
use crate::{Error, Result};

/// Dumps each rank's buffers, so that all of them can be restored after the loss of any `replicas - 1` nodes' stores.
/// Collective. All ranks pass the same name and options. The dump is durable when the call returns.
///
/// # Errors
/// [`Error::Differ`] on all ranks if their options differ; [`Error::Refused`] if another job or `gc` works on a dump of
/// that name. If one rank fails, all ranks return an error; this dump then does not exist, and earlier dumps remain.
/// Only if the failure is in the last step may the dump exist nevertheless. If older versions cannot be dropped, all stay, or some
/// of them in some stores: the dump exists then, a warning says why, and the next one with `keep` drops them.
/// If a store is full, and there are versions that are too many already, they are dropped if one that is kept is whole, and the dump is tried once more.
pub fn dump(world: &dyn World, store: &Store, name: &str, buffers: &[&[u8]], options: &Options) -> Result<Dumped> {
    let begin = || Session::begin(world, store, name, Work::Dump, options.terms());
    dump_with_room(begin, options, |session| dump_in(session, buffers, options))
}

/// Dumps in a session that has begun, whose ranks agree on the options. See [`dump`].
pub(crate) fn dump_in(session: &Session<'_>, buffers: &[&[u8]], options: &Options) -> Result<Dumped> {
    let Session { world, store, name, .. } = *session;
    options.check()?;
    let version = agree(world, next_version(session, options))?;
    session.each_node(|| remove_incomplete_versions(session))?;
    let copies = options.replicas.min(session.stores.len() as u32);
    if copies < options.replicas && world.rank() == 0 {
        tracing::warn!(
            "{} replicas are asked for, and there are {copies} nodes: each chunk of dump {name:?} is on {copies}, and the loss \
             of {copies} stores loses bytes; use more nodes",
            options.replicas
        );
    }

    let chunks = match options.duplicates {
        Duplicates::Kept => Chunks::all(buffers, options.chunking),
        _ => Chunks::of(buffers, options.chunking),
    };
    let confirmed = match options.duplicates {
        Duplicates::Kept => Confirmed::none(&chunks.distinct),
        _ => confirm(session, &chunks.distinct, session.version(None).ok(), options.window)?,
    };
    let holdings = plan_dump(world, &chunks.distinct, &confirmed.nodes, copies as usize, options)?;

    let prefix = format!("{}/{}", names::version_prefix(name, Part::Packs, version), world.rank());
    let once = options.duplicates == Duplicates::Collective;
    let packed =
        pack(store, &prefix, once, |packer| move_chunks(world, &chunks.distinct, &holdings, packer, options.window));
    let indexed = packed.and_then(|(moved, mut packs)| {
        packs.index.append(confirmed.index);
        manifest::put(store, &names::rank_key(name, Part::Index, version, world.rank()), &packs.index)?;
        Ok((moved, packs.bytes))
    });
    let (moved, stored) = agree(world, indexed)?;

    let complete = gather_complete_record(session, buffers, copies)?;
    let lengths = complete.buffers[world.rank() as usize].clone();
    let held = list_held_chunks(&chunks.distinct, &holdings);
    let manifest = Manifest { attempt: complete.attempt, buffers: lengths, chunks: held, sequence: chunks.sequence };
    let mut records = confirmed.moved;
    records += replicate_manifest(session, version, &manifest, &holdings.partners, options.window)?;
    session.each_node(|| Ok(store.sync()?))?;
    session.each_node(|| {
        manifest::put(store, &names::version_prefix(name, Part::Complete, version), &complete)?;
        Ok(store.sync()?)
    })?;
    let (dropped, freed) = drop_older_versions(session, version, options)?;
    Ok(Dumped {
        version,
        copies,
        bytes: manifest.buffers.iter().sum(),
        distinct: chunks.distinct.iter().map(|chunk| chunk.bytes.len() as u64).sum(),
        stored,
        chunks: moved,
        records,
        dropped,
        freed,
    })
}

/// Exchanges knowledge of chunks with the other ranks and returns this rank's part of the plan. Collective.
fn plan_dump(
    world: &dyn World,
    chunks: &[Chunk<'_>],
    stored: &[Nodes],
    copies: usize,
    options: &Options,
) -> Result<Holdings> {
    let mine = Mine { holder: Holder { node: world.node(), rank: world.rank() }, chunks, stored };
    let bounds = plan::bounds(options.table, copies);
    let collective = options.duplicates == Duplicates::Collective;
    let voted = match collective {
        true => meet(world, mine.votes(bounds), (), |votes| votes.shared().collect())?,
        false => Answers::<Votes, bool>::default(),
    };
    let loads = world.all_gather(&manifest::encode(&mine.load(&voted, copies))?)?;
    let loads = loads.iter().map(|load| manifest::decode("a rank's load", load)).collect::<Result<Vec<Load>>>()?;
    let plan = Plan::new(&loads, world.nodes(), copies, options.by_load);
    let decided = match collective {
        true => meet(world, mine.table(&voted, bounds), bounds, |home| plan.decide(home))?,
        false => Decided::default(),
    };
    Ok(plan.holdings(&mine, &decided))
}

/// Gathers the record that all ranks share and that makes the dump exist. Collective.
fn gather_complete_record(session: &Session<'_>, buffers: &[&[u8]], copies: u32) -> Result<Complete> {
    let lengths: Vec<u64> = buffers.iter().map(|buffer| buffer.len() as u64).collect();
    let mine = (RandomState::new().hash_one(session.stores.len()), lengths);
    let said = session.world.all_gather(&manifest::encode(&mine)?)?;
    let decode = |said: &Vec<u8>| manifest::decode::<(u64, Vec<u64>)>("lengths of buffers", said);
    let said = said.iter().map(decode).collect::<Result<Vec<_>>>()?;
    let (attempts, buffers): (Vec<u64>, Vec<Vec<u64>>) = said.into_iter().unzip();
    Ok(Complete { attempt: attempts[0], buffers, copies, stores: session.stores.clone() })
}

/// Lists the chunks for the manifest.
fn list_held_chunks(chunks: &[Chunk<'_>], holdings: &Holdings) -> Vec<Held> {
    let held = |(chunk, nodes): (&Chunk<'_>, &Nodes)| Held {
        hash: chunk.hash,
        length: chunk.bytes.len() as u32,
        stores: nodes.clone(),
    };
    chunks.iter().zip(&holdings.nodes).map(held).collect()
}

/// Returns the version that this dump creates.
fn next_version(session: &Session<'_>, options: &Options) -> Result<u32> {
    let newest = session.versions.keys().next_back().copied().max(options.after);
    let next = newest.map_or(Some(0), |newest| newest.checked_add(1).filter(|next| *next <= MAX_VERSION));
    let refuse = |reason: &str| Err(Error::Refused(format!("dump {:?}: {reason}", session.name)));
    match (options.version, newest, next) {
        (Some(version), Some(newest), _) if version <= newest => {
            refuse(&format!("version {version} cannot follow version {newest}; name a later one, or drop that"))
        }
        (Some(version), ..) if version > MAX_VERSION => {
            refuse(&format!("no version could follow version {version}; name one up to {MAX_VERSION}"))
        }
        (Some(version), ..) | (None, _, Some(version)) => Ok(version),
        (None, _, None) => refuse("there is no later version; use another name"),
    }
}

/// Stores the chunks that the plan assigns to this rank: its own and those that it receives.
fn move_chunks(
    world: &dyn World,
    chunks: &[Chunk<'_>],
    holdings: &Holdings,
    packer: &mut Packer<'_>,
    window: usize,
) -> Result<Moved> {
    let of = |numbers: &'_ [u32]| numbers.iter().map(|number| chunks[*number as usize]).collect::<Vec<_>>();
    let sent: Vec<(u32, Vec<Chunk<'_>>)> = holdings.sent.iter().map(|(to, numbers)| (*to, of(numbers))).collect();
    let heads: Vec<Vec<u8>> = sent.iter().map(|(_, chunks)| parcel::head(chunks.iter())).collect();
    let letters: Vec<Letter<'_>> =
        sent.iter().zip(&heads).map(|((to, chunks), head)| parcel::letter(*to, head, chunks.iter())).collect();
    of(&holdings.own).iter().for_each(|chunk| packer.add(chunk.hash, chunk.bytes));
    let mut opened: BTreeMap<u32, Opened> = BTreeMap::new();
    exchange(world, &letters, window, &mut |from, bytes| {
        opened.entry(from).or_default().add(bytes, &mut |hash, chunk| {
            packer.add(hash, chunk);
            Ok(())
        })
    })
}

/// Stores the manifest in this node's store and in the stores of its partners.
fn replicate_manifest(
    session: &Session<'_>,
    version: u32,
    manifest: &Manifest,
    partners: &[u32],
    window: usize,
) -> Result<Moved> {
    let key = |rank| names::rank_key(session.name, Part::Manifest, version, rank);
    let bytes = manifest::encode(manifest)?;
    let letters = partners.iter().map(|to| (*to, bytes.clone())).collect();
    let (mut heard, moved) = exchange_messages(session.world, &letters, window)?;
    heard.insert(session.world.rank(), bytes);
    let store = |(rank, bytes): (&u32, &Vec<u8>)| {
        session.store.put_bytes(key(*rank).as_bytes(), bytes, &manifest::once()).map(drop)
    };
    agree(session.world, heard.iter().try_for_each(store).map_err(Error::from))?;
    Ok(moved)
}
