//! Drops old versions: removes packs that no remaining version needs and rewrites packs that are mostly garbage. This
//! works on one store at a time, without the other ranks, because a store's own indexes tell which of its chunks are
//! needed.

use std::collections::{BTreeMap, BTreeSet};

use terrace::Store;

use crate::Result;
use crate::chunk::ByHash;
use crate::lock::Locks;
use crate::manifest::{self, Index, Place};
use crate::names::{self, Part};
use crate::pack::pack;
use crate::packed::Packed;

/// The result of dropping versions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The dropped versions.
    pub versions: Vec<u32>,
    /// Bytes of removed packs, minus bytes of new packs.
    pub bytes: u64,
    /// Bytes of the store's tiers that are free again.
    pub freed: u64,
}

/// Returns the names of all dumps with at least one object in a store.
pub fn dumps(store: &Store) -> Result<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for key in names::list_below(store, "dumps")? {
        let name = key.split('/').nth(1).unwrap_or_default();
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// Returns the versions of a dump that a store knows as complete, oldest first.
pub fn versions(store: &Store, name: &str) -> Result<Vec<u32>> {
    names::check_name(name)?;
    Ok(names::list_below(store, &names::part_prefix(name, Part::Complete))?
        .iter()
        .filter_map(|key| names::parse_number(key))
        .collect())
}

/// Drops all but the newest `keep` versions of a dump from this store, always keeps at least one, and frees the space of the
/// others. Call it on each node.
///
/// # Errors
/// [`Error::Refused`](crate::Error::Refused) while a dump of that name is made or restored from this store.
pub fn collect(store: &Store, name: &str, keep: usize) -> Result<Dropped> {
    names::check_name(name)?;
    let _locks = Locks::for_gc(store, name)?;
    collect_locked(store, name, keep)
}

/// Does this for a caller that holds the locks of `gc`, or those of a dump and of its readers.
pub(crate) fn collect_locked(store: &Store, name: &str, keep: usize) -> Result<Dropped> {
    let used = count_used_bytes(store)?;
    let mut versions = versions(store, name)?;
    let newest = versions.split_off(versions.len().saturating_sub(keep.max(1)));
    let Some(last) = newest.last() else { return Ok(Dropped::default()) };
    // Remove the record that makes a version exist first, so that no version exists in part. This loop also removes the
    // remains of an earlier `gc` that was killed.
    for part in [Part::Complete, Part::Manifest, Part::Index] {
        for key in names::list_below(store, &names::part_prefix(name, part))? {
            if names::version_of(&key).is_some_and(|version| version < *last && !newest.contains(&version)) {
                store.remove(key.as_bytes())?;
            }
        }
    }
    let before = count_pack_bytes(store, name)?;
    repack(store, name, *last)?;
    let bytes = before.saturating_sub(count_pack_bytes(store, name)?);
    // Sync, because deleted space is freed once a sync covers the deletion; without it, the space would come back only with
    // the store's next sync.
    store.sync()?;
    store.reap_now()?;
    Ok(Dropped { versions, bytes, freed: used.saturating_sub(count_used_bytes(store)?) })
}

/// Returns the number of bytes that are used on all tiers.
fn count_used_bytes(store: &Store) -> Result<u64> {
    Ok(store.status()?.tiers.iter().map(|tier| tier.used).sum())
}

/// Returns the total length of the dump's packs in bytes.
fn count_pack_bytes(store: &Store, name: &str) -> Result<u64> {
    let mut bytes = 0;
    for key in names::list_below(store, &names::part_prefix(name, Part::Packs))? {
        bytes += store.stat(key.as_bytes())?.length;
    }
    Ok(bytes)
}

/// Removes packs without live chunks. Copies the live chunks of packs that are less than half live to new packs, and
/// only then removes the old ones.
fn repack(store: &Store, name: &str, version: u32) -> Result<()> {
    let mut indexes: BTreeMap<String, Index> = BTreeMap::new();
    for key in names::list_below(store, &names::part_prefix(name, Part::Index))? {
        let index = manifest::get(store, &key)?;
        indexes.insert(key, index);
    }
    let live = count_live_bytes(&indexes);
    let mut sparse: BTreeSet<String> = BTreeSet::new();
    for key in names::list_below(store, &names::part_prefix(name, Part::Packs))? {
        // Later versions are incomplete: their packs belong to a dump that is in progress, or the next dump removes
        // them.
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
    let made = copy_live_chunks(store, name, version, &indexes, &sparse)?;
    for (key, index) in &indexes {
        if index.packs.iter().any(|pack| sparse.contains(pack)) {
            manifest::put(store, key, &rewrite_index(index, &made))?;
        }
    }
    // Keep packs with unreadable chunks: a repair of the pack may make them readable again.
    let still = made.unread;
    sparse.retain(|pack| !still.contains(pack));
    sparse.iter().try_for_each(|pack| Ok(store.remove(pack.as_bytes())?))
}

/// Returns the number of bytes of each pack that any index references.
fn count_live_bytes(indexes: &BTreeMap<String, Index>) -> BTreeMap<&str, u64> {
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

/// The chunks that were copied to new packs.
struct CopiedChunks {
    packs: Vec<String>,
    places: ByHash<Place>,
    /// Packs with chunks that could not be read.
    unread: BTreeSet<String>,
}

/// Copies the live chunks of sparse packs to new packs.
fn copy_live_chunks(
    store: &Store,
    name: &str,
    version: u32,
    indexes: &BTreeMap<String, Index>,
    sparse: &BTreeSet<String>,
) -> Result<CopiedChunks> {
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
    // The prefix must be unused: `gc` may run several times on the same version.
    let taken = names::list_below(store, &names::version_prefix(name, Part::Packs, version))?.len();
    let prefix = format!("{}/gc{taken}", names::version_prefix(name, Part::Packs, version));
    let ((), packs) = pack(store, &prefix, true, |packer| {
        packed.read(store, &wanted, &mut |number, bytes| {
            packer.add(wanted[number], bytes);
            Ok(())
        })
    })?;
    let index = packs.index;
    let places: ByHash<Place> = index.chunks.into_iter().collect();
    let unread = of.iter().filter(|(hash, _)| !places.contains_key(*hash)).map(|(_, pack)| pack.clone()).collect();
    Ok(CopiedChunks { packs: index.packs, places, unread })
}

/// Returns the index with the places of copied chunks replaced by their new ones.
fn rewrite_index(index: &Index, made: &CopiedChunks) -> Index {
    let mut moved = Packed::default();
    moved.add(index.clone(), |hash| !made.places.contains_key(hash));
    let kept = index.chunks.iter().map(|(hash, _)| *hash).filter(|hash| moved.has(hash));
    let mut new = moved.index(kept);
    let chunks = index.chunks.iter().filter_map(|(hash, _)| Some((*hash, *made.places.get(hash)?)));
    new.append(Index { packs: made.packs.clone(), chunks: chunks.collect() });
    new
}
