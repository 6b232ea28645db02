//! What all ranks must know before they dump or restore: whose store is whose, and which versions there are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use terrace::Store;

use crate::chunk::Hash;
use crate::manifest::{self, Complete};
use crate::names::{self, Part};
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
    /// The versions that are complete, as any store tells.
    pub versions: BTreeMap<u32, Complete>,
    /// The ranks of each node.
    ranks: Vec<Vec<u32>>,
}

/// What a rank says at the beginning.
#[derive(Serialize, Deserialize)]
struct Hello {
    store: u64,
    name: String,
    versions: Vec<(u32, Complete)>,
}

impl<'a> Session<'a> {
    /// Begins to dump or restore. Collective.
    ///
    /// # Errors
    /// [`Error::Refused`] where nodes share a store or ranks of a node do not, or where ranks are about different dumps.
    pub fn begin(world: &'a dyn World, store: &'a Store, name: &'a str) -> Result<Session<'a>> {
        let mine = names::check(name).and_then(|()| versions(world, store, name));
        let hello = Hello { store: store.id(), name: name.to_owned(), versions: agree(world, mine)? };
        let said = world.all_gather(&manifest::encode(&hello)?)?;
        let said =
            said.iter().map(|said| manifest::decode("what a rank says", said)).collect::<Result<Vec<Hello>>>()?;
        let stores = stores(world.nodes(), &said)?;
        if let Some(rank) = said.iter().position(|other| other.name != name) {
            let other = &said[rank].name;
            return Err(Error::Refused(format!("this rank is about dump {name:?}, rank {rank} about {other:?}")));
        }
        let versions = known(said);
        let mut ranks = vec![Vec::new(); stores.len()];
        world.nodes().iter().zip(0..).for_each(|(node, rank)| ranks[*node as usize].push(rank));
        Ok(Session { world, store, name, stores, versions, ranks })
    }

    /// The newest version, or the one that is asked for.
    pub fn version(&self, version: Option<u32>) -> Result<(u32, &Complete)> {
        let found = match version {
            Some(version) => self.versions.get_key_value(&version),
            None => self.versions.last_key_value(),
        };
        found.map(|(version, complete)| (*version, complete)).ok_or_else(|| {
            let known: Vec<String> = self.versions.keys().map(u32::to_string).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Error::NotFound { name: self.name.to_owned(), version, known }
        })
    }

    /// The node that has this store now.
    pub fn node_of(&self, store: u64) -> Option<u32> {
        self.stores.iter().position(|id| *id == store).map(|node| node as u32)
    }

    /// The rank that answers for a chunk of a node's store: each of the node's ranks does so for an equal share.
    pub fn who_answers(&self, node: u32, chunk: &Hash) -> u32 {
        let ranks = &self.ranks[node as usize];
        ranks[(chunk.number() % ranks.len() as u64) as usize]
    }

    /// Whether this rank answers for a chunk of its node's store.
    pub fn answers(&self, chunk: &Hash) -> bool {
        self.who_answers(self.world.node(), chunk) == self.world.rank()
    }

    /// Does something on one rank of each node. Collective.
    pub fn each_node(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        agree(self.world, if self.world.leads() { work() } else { Ok(()) })
    }
}

/// What the node's store knows of complete versions; its first rank tells.
fn versions(world: &dyn World, store: &Store, name: &str) -> Result<Vec<(u32, Complete)>> {
    if !world.leads() {
        return Ok(Vec::new());
    }
    let mut versions = Vec::new();
    for key in names::below(store, &names::all(name, Part::Complete))? {
        let Some(version) = names::number(&key) else { continue };
        match manifest::get(store, &key) {
            Ok(complete) => versions.push((version, complete)),
            Err(error) => {
                tracing::warn!("version {version} of dump {name:?} is known by other stores at most: {error}")
            }
        }
    }
    Ok(versions)
}

/// The versions that any store knows. Of two that have the same number it is the one that more stores know.
fn known(said: Vec<Hello>) -> BTreeMap<u32, Complete> {
    let mut told: BTreeMap<u32, BTreeMap<Complete, usize>> = BTreeMap::new();
    for (version, complete) in said.into_iter().flat_map(|said| said.versions) {
        *told.entry(version).or_default().entry(complete).or_default() += 1;
    }
    let most = |told: BTreeMap<Complete, usize>| told.into_iter().max_by_key(|(_, stores)| *stores);
    told.into_iter().filter_map(|(version, told)| Some((version, most(told)?.0))).collect()
}

/// The store of each node: one for all its ranks, and for no others.
fn stores(nodes: &[u32], said: &[Hello]) -> Result<Vec<u64>> {
    let mut stores: BTreeMap<u32, u64> = BTreeMap::new();
    for (rank, (node, said)) in nodes.iter().zip(said).enumerate() {
        if *stores.entry(*node).or_insert(said.store) != said.store {
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
