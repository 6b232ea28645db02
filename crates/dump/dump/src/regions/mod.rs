//! Checkpoints of memory regions, which the program identifies by numbers. A [`Split`] says how the ranks share those of a number, so
//! that another number of ranks can restart.

mod census;
pub(crate) mod shape;

use std::collections::BTreeMap;

use terrace::Store;

use crate::archive::Archive;
use crate::chunk::Hash;
use crate::dump::dump_in;
use crate::exchange::{Letter, exchange};
use crate::keep::dump_with_room;
use crate::manifest;
use crate::session::{Session, Work};
use crate::transport::{World, agree};
use crate::{Dumped, Error, Options, Result, Wanted, restore_whole};
use census::{Census, Transfer};
use shape::{RegionShape, decode_head, encode_head};

pub use shape::Split;

/// A region of a rank: its bytes, and how the ranks share the regions of its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protected<B> {
    /// How the ranks share it.
    pub split: Split,
    /// Its bytes.
    pub bytes: B,
}

impl<B> Protected<B> {
    /// Returns a region that belongs to its rank alone.
    pub fn own(bytes: B) -> Protected<B> {
        Protected { split: Split::Own, bytes }
    }
}

/// Dumps a rank's regions. Collective; ranks may have different regions. See [`crate::dump()`].
pub fn checkpoint(
    world: &dyn World,
    store: &Store,
    name: &str,
    regions: &BTreeMap<u32, Protected<&[u8]>>,
    options: &Options,
) -> Result<Dumped> {
    let begin = || Session::begin(world, store, name, Work::Dump, options.terms());
    dump_with_room(begin, options, |session| {
        check_regions(world, regions)?;
        let head = encode_head(regions.iter().map(|(number, region)| (*number, region.split)))?;
        let bytes = regions.values().map(|region| region.bytes);
        dump_in(session, &std::iter::once(&head[..]).chain(bytes).collect::<Vec<_>>(), options)
    })
}

/// Checks that the ranks share each region in one way, and that regions that are the same on all ranks have the same bytes. Collective.
fn check_regions(world: &dyn World, regions: &BTreeMap<u32, Protected<&[u8]>>) -> Result<()> {
    let claim = |(number, region): (&u32, &Protected<&[u8]>)| {
        let bytes = (region.split == Split::Same).then(|| Hash::of(region.bytes));
        (*number, region.split.to_string(), bytes)
    };
    let mine: Vec<RegionClaim> = regions.iter().map(claim).collect();
    let mut known: BTreeMap<u32, (String, Option<Hash>, usize)> = BTreeMap::new();
    for (rank, said) in world.all_gather(&manifest::encode(&mine)?)?.iter().enumerate() {
        for (number, split, bytes) in manifest::decode::<Vec<RegionClaim>>("the regions of a rank", said)? {
            let (first, same, by) = known.entry(number).or_insert_with(|| (split.clone(), bytes, rank));
            if *first != split {
                return Err(Error::Refused(format!(
                    "region {number} is {first} on rank {by}, and {split} on rank {rank}; protect it alike on all ranks"
                )));
            }
            if *same != bytes {
                return Err(Error::Refused(format!(
                    "region {number} is {split}, and has other bytes on rank {rank} than on rank {by}; protect it as each rank's own"
                )));
            }
        }
    }
    Ok(())
}

/// The number of a region, how its ranks share it, and the hash of its bytes if they are the same on all ranks.
type RegionClaim = (u32, String, Option<Hash>);

/// Regions with bytes of their own.
pub type CopiedRegions = BTreeMap<u32, Protected<Vec<u8>>>;

/// Returns memory for a copy of regions of these lengths, in which each page was written to: a copy into it need not wait for the system.
/// A region for which there is too little memory has none.
pub fn prepare_copy(lengths: &BTreeMap<u32, Protected<usize>>) -> CopiedRegions {
    let prepare = |(number, region): (&u32, &Protected<usize>)| {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(region.bytes).ok()?;
        // The system gives pages of zeros only once they are written to.
        bytes.resize(region.bytes, u8::MAX);
        Some((*number, Protected { split: region.split, bytes }))
    };
    lengths.iter().filter_map(prepare).collect()
}

/// Copies regions, so that the program may change them while the copy is dumped. Uses the memory of a copy that is not needed any more:
/// the system takes longer to give new memory than the copy takes.
///
/// # Errors
/// [`Error::Refused`] if there is too little memory.
pub fn copy(regions: &BTreeMap<u32, Protected<&[u8]>>, mut spare: CopiedRegions) -> Result<CopiedRegions> {
    // What is not protected any more is given back first.
    spare.retain(|number, _| regions.contains_key(number));
    let copy = |(number, region): (&u32, &Protected<&[u8]>)| {
        let mut bytes = spare.remove(number).map(|spare| spare.bytes).unwrap_or_default();
        bytes.clear();
        bytes.try_reserve_exact(region.bytes.len()).map_err(|error| {
            let length = region.bytes.len();
            Error::Refused(format!("copying the {length} bytes of region {number}: {error}; dump without a copy"))
        })?;
        bytes.extend_from_slice(region.bytes);
        Ok((*number, Protected { split: region.split, bytes }))
    };
    regions.iter().map(copy).collect()
}

/// Returns copied regions as a checkpoint takes them.
pub fn borrow(copied: &CopiedRegions) -> BTreeMap<u32, Protected<&[u8]>> {
    copied
        .iter()
        .map(|(number, region)| (*number, Protected { split: region.split, bytes: &region.bytes[..] }))
        .collect()
}

/// A checkpoint from which regions were restored.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restarted {
    /// Its version.
    pub version: u32,
    /// Whether it came from the archive, because it is not whole in the nodes' stores.
    pub is_archived: bool,
}

/// Restores a rank's regions from the newest version of a checkpoint that is whole, or from the given one. If it is not whole in the
/// nodes' stores, it may come from the archive, if there is one.
/// Collective. The ranks protect the regions that were dumped; another number of ranks, or other parts, restore what is
/// [`Split::Same`] or [`Split::Part`]. If any rank fails, no rank's regions change.
///
/// # Errors
/// [`Error::Refused`] if the regions do not fit those of the checkpoint, [`Error::Lost`] if too many stores are lost.
pub fn restart(
    world: &dyn World,
    store: &Store,
    name: &str,
    version: Option<u32>,
    regions: &mut BTreeMap<u32, Protected<&mut [u8]>>,
    window: usize,
    archive: Option<&Archive>,
) -> Result<Restarted> {
    let restored = restore_whole(world, store, name, version, Wanted::Dealt, window, archive)?;
    let restarted = Restarted { version: restored.version, is_archived: restored.is_archived };
    let here = agree(world, restored.whole().and_then(read_heads))?;
    let shape = |(number, region): (&u32, &Protected<&mut [u8]>)| RegionShape {
        number: *number,
        split: region.split,
        length: region.bytes.len() as u64,
    };
    let census = Census::take(world, shapes_of(&here), regions.iter().map(shape).collect())?;
    let transfers = census.plan()?;
    let received = exchange_pieces(world, &here, &transfers, window)?;
    let mine = transfers.iter().filter(|transfer| transfer.to == world.rank());
    let sources = agree(world, find_sources(world.rank(), &here, &received, mine.clone()))?;
    for (transfer, source) in mine.zip(sources) {
        if let Some(region) = regions.get_mut(&transfer.number) {
            region.bytes[transfer.at as usize..][..source.len()].copy_from_slice(source);
        }
    }
    Ok(restarted)
}

/// The regions of the ranks of a checkpoint that this rank has restored: by rank and number.
type Here = BTreeMap<u32, BTreeMap<u32, (Split, Vec<u8>)>>;

/// Takes the first buffer of each rank as the description of the others.
fn read_heads(ranks: BTreeMap<u32, Vec<Vec<u8>>>) -> Result<Here> {
    let read = |(rank, buffers): (u32, Vec<Vec<u8>>)| {
        let mut buffers = buffers.into_iter();
        let head = buffers.next().map(|head| decode_head(&head)).transpose()?;
        match head {
            Some(head) if head.len() == buffers.len() => {
                let region = |((number, split), bytes)| (number, (split, bytes));
                Ok((rank, head.into_iter().zip(buffers).map(region).collect()))
            }
            _ => Err(Error::Refused("it is not a checkpoint of regions; restore it as buffers".into())),
        }
    };
    ranks.into_iter().map(read).collect()
}

fn shapes_of(here: &Here) -> BTreeMap<u32, Vec<RegionShape>> {
    let shape = |(number, (split, bytes)): (&u32, &(Split, Vec<u8>))| RegionShape {
        number: *number,
        split: *split,
        length: bytes.len() as u64,
    };
    here.iter().map(|(rank, regions)| (*rank, regions.iter().map(shape).collect())).collect()
}

/// Returns the bytes of a transfer from the rank that has them.
fn piece<'h>(here: &'h Here, transfer: &Transfer) -> Result<&'h [u8]> {
    let bytes = here.get(&transfer.dumped_by).and_then(|regions| regions.get(&transfer.number)).map(|(_, bytes)| bytes);
    let rest = bytes.and_then(|bytes| bytes.get(transfer.offset as usize..));
    rest.and_then(|rest| rest.get(..transfer.length as usize))
        .ok_or_else(|| Error::damaged("a region", "it is shorter than its rank has said"))
}

/// Sends the pieces that other ranks need, and returns those that this rank receives, behind each other, by sender.
/// Collective.
fn exchange_pieces(
    world: &dyn World,
    here: &Here,
    transfers: &[Transfer],
    window: usize,
) -> Result<BTreeMap<u32, Vec<u8>>> {
    let leaves = |transfer: &&Transfer| transfer.from == world.rank() && transfer.to != world.rank();
    let pieces = transfers.iter().filter(leaves).map(|transfer| Ok((transfer.to, piece(here, transfer)?)));
    let mut parts: BTreeMap<u32, Vec<&[u8]>> = BTreeMap::new();
    for (to, piece) in agree(world, pieces.collect::<Result<Vec<_>>>())? {
        parts.entry(to).or_default().push(piece);
    }
    let letters: Vec<Letter<'_>> = parts.into_iter().map(|(to, parts)| Letter { to, parts }).collect();
    let mut received: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    exchange(world, &letters, window, &mut |from, bytes| {
        received.entry(from).or_default().extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(received)
}

/// Returns the bytes of each transfer to rank `me`.
fn find_sources<'h, 't>(
    me: u32,
    here: &'h Here,
    received: &'h BTreeMap<u32, Vec<u8>>,
    transfers: impl Iterator<Item = &'t Transfer>,
) -> Result<Vec<&'h [u8]>> {
    let mut rests: BTreeMap<u32, &[u8]> = received.iter().map(|(from, bytes)| (*from, &bytes[..])).collect();
    let source = |transfer: &Transfer| {
        if transfer.from == me {
            return piece(here, transfer);
        }
        // A sender's pieces are in the order of the transfers.
        let rest = rests.get_mut(&transfer.from);
        let split = rest.and_then(|rest| rest.split_off(..transfer.length as usize));
        split.ok_or_else(|| Error::damaged("what a rank has sent", "it is too short"))
    };
    transfers.map(source).collect()
}
