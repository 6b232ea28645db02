//! The knowledge that all ranks share before a dump or restore: each node's store, and the versions that exist.

use std::collections::BTreeMap;

use terrace::Store;

use crate::chunk::Hash;
use crate::lock::Locks;
use crate::manifest::{self, Complete};
use crate::names::{self, Part};
use crate::terms::Terms;
use crate::transport::{World, agree};
use crate::{Error, Result};

/// The ranks with their stores, and the versions of one dump.
pub struct Session<'a> {
    /// The ranks.
    pub world: &'a dyn World,
    /// The store of this rank's node.
    pub store: &'a Store,
    /// The dump's name.
    pub name: &'a str,
    /// The number of each node's store.
    pub stores: Vec<u64>,
    /// The complete versions that any store knows.
    pub versions: BTreeMap<u32, Complete>,
    /// The ranks of each node.
    ranks: Vec<Vec<u32>>,
    /// Held while this rank works on the dump.
    _locks: Locks,
}

/// The work that ranks do with a dump.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Work {
    Dump,
    Flow,
    Restore,
}

/// The versions that a rank knows, with a hash of each one's record.
type Known = Vec<(u32, Hash)>;

impl<'a> Session<'a> {
    /// Begins a dump, flow or restore. Collective.
    ///
    /// # Errors
    /// [`Error::Differ`] if the ranks' terms differ; [`Error::Refused`] if nodes share a store, if ranks of one node
    /// have different stores, or if another job works on the dump.
    pub fn begin(
        world: &'a dyn World,
        store: &'a Store,
        name: &'a str,
        work: Work,
        terms: Terms,
    ) -> Result<Session<'a>> {
        terms.with("dump", name).agree(world)?;
        agree(world, names::check_name(name))?;
        let ids = world.all_gather(&manifest::encode(&store.id())?)?;
        let ids = ids.iter().map(|id| manifest::decode("a store's number", id)).collect::<Result<Vec<u64>>>()?;
        let stores = check_stores(world.nodes(), &ids)?;
        // Before it is looked which versions there are.
        let locks = match work {
            Work::Dump => Locks::for_dump(world, store, name)?,
            Work::Flow => Locks::for_flow(world, store, name)?,
            Work::Restore => Locks::for_restore(store, name),
        };
        let records = agree(world, read_records(world, store, name))?;
        let known: Known = records.iter().map(|(version, record)| (*version, Hash::of(record))).collect();
        let said = world.all_gather(&manifest::encode(&known)?)?;
        let said =
            said.iter().map(|said| manifest::decode("what a rank says", said)).collect::<Result<Vec<Known>>>()?;
        // One rank sends each record.
        let tellers = choose_tellers(&said);
        let mine = records.into_iter().filter(|(version, _)| tellers.get(version) == Some(&world.rank()));
        let told = world.all_gather(&manifest::encode(&mine.collect::<Vec<_>>())?)?;
        let mut versions = BTreeMap::new();
        for told in &told {
            for (version, record) in manifest::decode::<Vec<(u32, Vec<u8>)>>("what a rank tells", told)? {
                versions.insert(version, manifest::decode("a dump's record", &record)?);
            }
        }
        let mut ranks = vec![Vec::new(); stores.len()];
        world.nodes().iter().zip(0..).for_each(|(node, rank)| ranks[*node as usize].push(rank));
        Ok(Session { world, store, name, stores, versions, ranks, _locks: locks })
    }

    /// Returns the newest version or the given one.
    pub fn version(&self, version: Option<u32>) -> Result<(u32, &Complete)> {
        let found = match version {
            Some(version) => self.versions.get_key_value(&version),
            None => self.versions.last_key_value(),
        };
        found.map(|(version, complete)| (*version, complete)).ok_or_else(|| {
            let known: Vec<String> = self.versions.keys().map(u32::to_string).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::NotFound { name: self.name.to_owned(), version, archive: None, known }
        })
    }

    /// Returns the node that has this store now.
    pub fn node_of(&self, store: u64) -> Option<u32> {
        self.stores.iter().position(|id| *id == store).map(|node| node as u32)
    }

    /// Returns the rank that answers for a chunk of a node's store. Each of the node's ranks answers for an equal
    /// share.
    pub fn who_answers(&self, node: u32, chunk: &Hash) -> u32 {
        let ranks = &self.ranks[node as usize];
        ranks[(chunk.number() % ranks.len() as u64) as usize]
    }

    /// Returns whether this rank answers for a chunk of its node's store.
    pub fn answers(&self, chunk: &Hash) -> bool {
        self.who_answers(self.world.node(), chunk) == self.world.rank()
    }

    /// Runs `work` on one rank of each node. Collective.
    pub fn each_node(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        agree(self.world, if self.world.leads() { work() } else { Ok(()) })
    }
}

/// Reads the records of complete versions in the node's store. Only the node's first rank reads them.
fn read_records(world: &dyn World, store: &Store, name: &str) -> Result<Vec<(u32, Vec<u8>)>> {
    let mut records = Vec::new();
    let keys =
        if world.leads() { names::list_below(store, &names::part_prefix(name, Part::Complete))? } else { Vec::new() };
    for key in keys {
        let Some(version) = names::parse_number(&key) else { continue };
        let record = store.get(key.as_bytes()).map_err(Error::from);
        match record.and_then(|record| manifest::decode::<Complete>(&key, &record).map(|_| record)) {
            Ok(record) => records.push((version, record)),
            Err(error) => {
                tracing::warn!("version {version} of dump {name:?} is known by other stores at most: {error}")
            }
        }
    }
    Ok(records)
}

/// Returns, for each version, the first rank that has its record. If a version has two different records, the one in
/// more stores counts.
fn choose_tellers(said: &[Known]) -> BTreeMap<u32, u32> {
    let mut known: BTreeMap<u32, BTreeMap<Hash, (usize, u32)>> = BTreeMap::new();
    for (rank, said) in (0..).zip(said) {
        for (version, record) in said {
            known.entry(*version).or_default().entry(*record).or_insert((0, rank)).0 += 1;
        }
    }
    let most = |records: BTreeMap<Hash, (usize, u32)>| records.into_values().max_by_key(|(stores, _)| *stores);
    known.into_iter().filter_map(|(version, records)| Some((version, most(records)?.1))).collect()
}

/// Returns the store of each node, after checking that all ranks of a node share it and no other node has it.
fn check_stores(nodes: &[u32], ids: &[u64]) -> Result<Vec<u64>> {
    let mut stores: BTreeMap<u32, u64> = BTreeMap::new();
    for (rank, (node, id)) in nodes.iter().zip(ids).enumerate() {
        if *stores.entry(*node).or_insert(*id) != *id {
            return Err(Error::Refused(format!(
                "rank {rank} has another store than others of its node; a node has one"
            )));
        }
    }
    let ids: Vec<u64> = stores.into_values().collect();
    let twice = ids.iter().enumerate().find(|(node, id)| ids[..*node].contains(id));
    match twice {
        Some((node, _)) => Err(Error::Refused(format!(
            "node {node} has the store of another node, so that copies would be lost together; give each node its own"
        ))),
        None => Ok(ids),
    }
}
