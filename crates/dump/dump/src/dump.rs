//! The dump: the steps in their order, and what makes it exist.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use terrace::Store;

use crate::ask::say;
use crate::chunk::{Chunk, Chunks};
use crate::confirm::{Confirmed, confirm};
use crate::exchange::{Letter, Moved, exchange};
use crate::halving::{Answers, meet};
use crate::manifest::{self, Complete, Held, Manifest};
use crate::names::{self, Part};
use crate::options::{Dumped, Duplicates, Options};
use crate::pack::{Packer, pack};
use crate::parcel::{self, Opened};
use crate::plan::{self, Decided, Holdings, Load, Mine, Nodes, Plan};
use crate::session::{Session, Work};
use crate::table::Holder;
use crate::transport::{World, agree};
use crate::votes::Votes;
use crate::{Error, Result};

/// Dumps each rank's buffers, so that all of them can be restored after the loss of any `replicas - 1` nodes' stores.
/// Collective. All ranks name the same dump, with the same options. Once it has returned the dump is durable.
///
/// # Errors
/// [`Error::Differ`] on all ranks where these have different options; [`Error::Refused`] where another job, or `gc`, works on a dump of that
/// name. Where a rank fails, all are told; the dump does not exist
/// then, and those before it do. A dump of which only the last step is missing may exist all the same.
pub fn dump(world: &dyn World, store: &Store, name: &str, buffers: &[&[u8]], options: &Options) -> Result<Dumped> {
    let session = Session::begin(world, store, name, Work::Dump, options.terms())?;
    options.check()?;
    let version = agree(world, next(&session, options))?;
    session.each_node(|| clean(&session))?;
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
        _ => confirm(&session, &chunks.distinct, session.version(None).ok(), options.window)?,
    };
    let holdings = plan(world, &chunks.distinct, &confirmed.nodes, copies as usize, options)?;

    let prefix = format!("{}/{}", names::version(name, Part::Packs, version), world.rank());
    let once = options.duplicates == Duplicates::Collective;
    let packed =
        pack(store, &prefix, once, |packer| move_chunks(world, &chunks.distinct, &holdings, packer, options.window));
    let indexed = packed.and_then(|(moved, mut packs)| {
        packs.index.append(confirmed.index);
        manifest::put(store, &names::share(name, Part::Index, version, world.rank()), &packs.index)?;
        Ok((moved, packs.bytes))
    });
    let (moved, stored) = agree(world, indexed)?;

    let complete = complete(&session, buffers, copies)?;
    let lengths = complete.buffers[world.rank() as usize].clone();
    let held = held(&chunks.distinct, &holdings);
    let manifest = Manifest { attempt: complete.attempt, buffers: lengths, chunks: held, sequence: chunks.sequence };
    let mut records = confirmed.moved;
    records += spread(&session, version, &manifest, &holdings.partners, options.window)?;
    session.each_node(|| Ok(store.sync()?))?;
    session.each_node(|| {
        manifest::put(store, &names::version(name, Part::Complete, version), &complete)?;
        Ok(store.sync()?)
    })?;
    Ok(Dumped {
        version,
        copies,
        bytes: manifest.buffers.iter().sum(),
        distinct: chunks.distinct.iter().map(|chunk| chunk.bytes.len() as u64).sum(),
        stored,
        chunks: moved,
        records,
    })
}

/// What this rank does, once it is known what others have. Collective.
fn plan(
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

/// What all ranks have in common. Collective.
fn complete(session: &Session<'_>, buffers: &[&[u8]], copies: u32) -> Result<Complete> {
    let lengths: Vec<u64> = buffers.iter().map(|buffer| buffer.len() as u64).collect();
    let mine = (RandomState::new().hash_one(session.stores.len()), lengths);
    let said = session.world.all_gather(&manifest::encode(&mine)?)?;
    let decode = |said: &Vec<u8>| manifest::decode::<(u64, Vec<u64>)>("lengths of buffers", said);
    let said = said.iter().map(decode).collect::<Result<Vec<_>>>()?;
    let (attempts, buffers): (Vec<u64>, Vec<Vec<u64>>) = said.into_iter().unzip();
    Ok(Complete { attempt: attempts[0], buffers, copies, stores: session.stores.clone() })
}

/// The chunks as a manifest names them.
fn held(chunks: &[Chunk<'_>], holdings: &Holdings) -> Vec<Held> {
    let held = |(chunk, nodes): (&Chunk<'_>, &Nodes)| Held {
        hash: chunk.hash,
        length: chunk.bytes.len() as u32,
        stores: nodes.clone(),
    };
    chunks.iter().zip(&holdings.nodes).map(held).collect()
}

/// The version to make.
fn next(session: &Session<'_>, options: &Options) -> Result<u32> {
    let newest = session.versions.keys().next_back().copied();
    let next = newest.map_or(Some(0), |newest| newest.checked_add(1));
    let refuse = |reason: &str| Err(Error::Refused(format!("dump {:?}: {reason}", session.name)));
    match (options.version, newest, next) {
        (Some(version), Some(newest), _) if version <= newest => {
            refuse(&format!("version {version} cannot follow version {newest}; name a later one, or drop that"))
        }
        (Some(version), ..) | (None, _, Some(version)) => Ok(version),
        (None, _, None) => refuse("there is no later version; use another name"),
    }
}

/// Removes what dumps have left that never came to exist, and notes that one exists which other stores alone know, as a rank
/// died while it was being noted.
fn clean(session: &Session<'_>) -> Result<()> {
    let Session { store, name, .. } = session;
    for (version, complete) in session.versions.iter().filter(|(_, complete)| complete.stores.contains(&store.id())) {
        let key = names::version(name, Part::Complete, *version);
        let known = !names::below(store, &key)?.is_empty();
        if !known && !names::below(store, &names::version(name, Part::Index, *version))?.is_empty() {
            manifest::put(store, &key, complete)?;
        }
    }
    let newest = session.versions.keys().next_back().copied();
    for part in [Part::Index, Part::Manifest, Part::Packs] {
        for key in names::below(session.store, &names::all(session.name, part))? {
            if names::version_of(&key).is_some_and(|version| newest.is_none_or(|newest| version > newest)) {
                session.store.remove(key.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Stores this rank's chunks that are its to store, and those that others send it.
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

/// Stores the manifest in this node's store and in its partners'.
fn spread(session: &Session<'_>, version: u32, manifest: &Manifest, partners: &[u32], window: usize) -> Result<Moved> {
    let key = |rank| names::share(session.name, Part::Manifest, version, rank);
    let bytes = manifest::encode(manifest)?;
    let letters = partners.iter().map(|to| (*to, bytes.clone())).collect();
    let (mut heard, moved) = say(session.world, &letters, window)?;
    heard.insert(session.world.rank(), bytes);
    let store = |(rank, bytes): (&u32, &Vec<u8>)| {
        session.store.put_bytes(key(*rank).as_bytes(), bytes, &manifest::once()).map(drop)
    };
    agree(session.world, heard.iter().try_for_each(store).map_err(Error::from))?;
    Ok(moved)
}
