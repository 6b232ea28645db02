//! Old versions dropped: what no other version needs is given back, and packs that are mostly dead are packed anew. One store at
//! a time, without the other ranks: a store knows by its indexes what is needed of it.

use std::collections::{BTreeMap, BTreeSet};

use terrace::Store;

use crate::Result;
use crate::chunk::ByHash;
use crate::lock::Locks;
use crate::manifest::{self, Index, Place};
use crate::names::{self, Part};
use crate::pack::pack;
use crate::packed::Packed;

/// What was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The versions.
    pub versions: Vec<u32>,
    /// Bytes of packs removed, less those of packs made anew.
    pub bytes: u64,
}

/// The names of dumps that a store has something of.
pub fn dumps(store: &Store) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for key in names::below(store, "dumps")? {
        let name = key.split('/').nth(1).unwrap_or_default();
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// The versions of a dump that a store knows as complete, oldest first.
pub fn versions(store: &Store, name: &str) -> Result<Vec<u32>> {
    names::check(name)?;
    Ok(names::below(store, &names::all(name, Part::Complete))?.iter().filter_map(|key| names::number(key)).collect())
}

/// Drops all but the newest `keep` versions of a dump from this store, at least one staying. To be done on each node.
///
/// # Errors
/// [`Error::Refused`](crate::Error::Refused) while a dump of that name is made or restored from this store.
pub fn collect(store: &Store, name: &str, keep: usize) -> Result<Dropped> {
    names::check(name)?;
    let _locks = Locks::for_gc(store, name)?;
    let mut versions = versions(store, name)?;
    let newest = versions.split_off(versions.len().saturating_sub(keep.max(1)));
    let Some(last) = newest.last() else { return Ok(Dropped::default()) };
    // First what makes a version exist, so that none exists in part; and what a gc that was killed has left of others.
    for part in [Part::Complete, Part::Manifest, Part::Index] {
        for key in names::below(store, &names::all(name, part))? {
            if names::version_of(&key).is_some_and(|version| version < *last && !newest.contains(&version)) {
                store.remove(key.as_bytes())?;
            }
        }
    }
    let before = bytes(store, name)?;
    repack(store, name, *last)?;
    Ok(Dropped { versions, bytes: before.saturating_sub(bytes(store, name)?) })
}

/// Bytes in packs.
fn bytes(store: &Store, name: &str) -> Result<u64> {
    let mut bytes = 0;
    for key in names::below(store, &names::all(name, Part::Packs))? {
        bytes += store.stat(key.as_bytes())?.length;
    }
    Ok(bytes)
}

/// Removes packs that nothing needs, and those that are under half live once what is live in them is in new ones.
fn repack(store: &Store, name: &str, version: u32) -> Result<()> {
    let mut indexes: BTreeMap<String, Index> = BTreeMap::new();
    for key in names::below(store, &names::all(name, Part::Index))? {
        let index = manifest::get(store, &key)?;
        indexes.insert(key, index);
    }
    let live = live(&indexes);
    let mut sparse: BTreeSet<String> = BTreeSet::new();
    for key in names::below(store, &names::all(name, Part::Packs))? {
        // What later versions have left belongs to the dump that is being made, or cleans up.
        let ours = names::version_of(&key).is_some_and(|of| of <= version);
        match live.get(key.as_str()).copied().unwrap_or(0) {
            0 if ours => store.remove(key.as_bytes())?,
            live if live > 0 && live * 2 < store.stat(key.as_bytes())?.length => {
                sparse.insert(key);
            }
            _ => {}
        }
    }
    if sparse.is_empty() {
        return Ok(());
    }
    let made = pack_anew(store, name, version, &indexes, &sparse)?;
    for (key, index) in &indexes {
        if index.packs.iter().any(|pack| sparse.contains(pack)) {
            manifest::put(store, key, &moved(index, &made))?;
        }
    }
    // Chunks that could not be read stay where they are: a repair of their pack may bring them back.
    let still = made.unread;
    sparse.retain(|pack| !still.contains(pack));
    sparse.iter().try_for_each(|pack| Ok(store.remove(pack.as_bytes())?))
}

/// How many bytes of each pack any index names.
fn live(indexes: &BTreeMap<String, Index>) -> BTreeMap<&str, u64> {
    let mut places: BTreeMap<&str, BTreeSet<(u32, u32)>> = BTreeMap::new();
    for index in indexes.values() {
        for (_, place) in &index.chunks {
            if let Some(pack) = index.packs.get(place.pack as usize) {
                places.entry(pack).or_default().insert((place.offset, place.length));
            }
        }
    }
    let sum = |places: BTreeSet<(u32, u32)>| places.iter().map(|(_, length)| u64::from(*length)).sum();
    places.into_iter().map(|(pack, places)| (pack, sum(places))).collect()
}

/// Chunks in new packs.
struct Made {
    packs: Vec<String>,
    places: ByHash<Place>,
    /// Packs of which some chunks could not be read.
    unread: BTreeSet<String>,
}

/// Copies what is live in sparse packs to new ones.
fn pack_anew(
    store: &Store,
    name: &str,
    version: u32,
    indexes: &BTreeMap<String, Index>,
    sparse: &BTreeSet<String>,
) -> Result<Made> {
    let mut packed = Packed::default();
    let mut of = ByHash::default();
    for index in indexes.values() {
        let chunks = index.chunks.iter().filter_map(|(hash, place)| {
            let pack = index.packs.get(place.pack as usize).filter(|pack| sparse.contains(*pack))?;
            Some((*hash, pack.clone()))
        });
        of.extend(chunks);
        packed.add(index.clone(), |hash| of.contains_key(hash));
    }
    let wanted: Vec<_> = of.keys().copied().collect();
    // A name that no pack has: gc runs again and again.
    let taken = names::below(store, &names::version(name, Part::Packs, version))?.len();
    let prefix = format!("{}/gc{taken}", names::version(name, Part::Packs, version));
    let ((), packs) = pack(store, &prefix, true, |packer| {
        packed.read(store, &wanted, &mut |number, bytes| {
            packer.add(wanted[number], bytes);
            Ok(())
        })
    })?;
    let index = packs.index;
    let places: ByHash<Place> = index.chunks.into_iter().collect();
    let unread = of.iter().filter(|(hash, _)| !places.contains_key(*hash)).map(|(_, pack)| pack.clone()).collect();
    Ok(Made { packs: index.packs, places, unread })
}

/// An index that names new packs instead of old ones.
fn moved(index: &Index, made: &Made) -> Index {
    let mut moved = Packed::default();
    moved.add(index.clone(), |hash| !made.places.contains_key(hash));
    let kept = index.chunks.iter().map(|(hash, _)| *hash).filter(|hash| moved.has(hash));
    let mut new = moved.index(kept);
    let chunks = index.chunks.iter().filter_map(|(hash, _)| Some((*hash, *made.places.get(hash)?)));
    new.append(Index { packs: made.packs.clone(), chunks: chunks.collect() });
    new
}
