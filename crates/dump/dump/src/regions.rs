//! Checkpoints of memory regions, which the program identifies by numbers.

use std::collections::BTreeMap;

use terrace::Store;

use crate::transport::{World, agree};
use crate::{Dumped, Error, Options, Result, Wanted, dump, manifest, restore};

/// Dumps a rank's regions. Collective; ranks may have different regions. See [`dump`].
pub fn checkpoint(
    world: &dyn World,
    store: &Store,
    name: &str,
    regions: &BTreeMap<u32, &[u8]>,
    options: &Options,
) -> Result<Dumped> {
    let numbers = manifest::encode(&regions.keys().collect::<Vec<_>>())?;
    let buffers: Vec<&[u8]> = std::iter::once(&numbers[..]).chain(regions.values().copied()).collect();
    dump(world, store, name, &buffers, options)
}

/// Restores a rank's regions from the newest version of a checkpoint, or from the given one, and returns the version.
/// Collective, with as many ranks as made the checkpoint. If any rank fails, no rank's regions change.
///
/// # Errors
/// [`Error::Refused`] if the ranks or regions differ from those of the checkpoint, [`Error::Lost`] if too many stores
/// are lost.
pub fn restart(
    world: &dyn World,
    store: &Store,
    name: &str,
    version: Option<u32>,
    regions: &mut BTreeMap<u32, &mut [u8]>,
    window: usize,
) -> Result<u32> {
    let restored = restore(world, store, name, version, Wanted::Dealt, window)?;
    let (version, ranks) = (restored.version, restored.ranks);
    if ranks != world.size() {
        return Err(Error::Refused(format!("{ranks} ranks made the checkpoint, and {} are here", world.size())));
    }
    let mine = restored.whole().map(|mut all| all.remove(&world.rank()).unwrap_or_default());
    let mine = agree(world, mine.and_then(|buffers| check_regions(&buffers, regions).map(|()| buffers)))?;
    for (region, bytes) in regions.values_mut().zip(&mine[1..]) {
        region.copy_from_slice(bytes);
    }
    Ok(version)
}

/// Checks that the restored buffers match the regions. The first buffer holds the regions' numbers.
fn check_regions(buffers: &[Vec<u8>], regions: &BTreeMap<u32, &mut [u8]>) -> Result<()> {
    let Some((numbers, buffers)) = buffers.split_first() else {
        return Err(Error::Refused("it is not a checkpoint of regions; restore it as buffers".into()));
    };
    let numbers: Vec<u32> = manifest::decode("the numbers of regions", numbers)?;
    let (had, have): (Vec<_>, Vec<_>) = (
        numbers.into_iter().zip(buffers.iter().map(Vec::len)).collect(),
        regions.iter().map(|(number, region)| (*number, region.len())).collect(),
    );
    match had == have {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "the checkpoint has regions (number, bytes) {had:?}, the program {have:?}; protect the same ones first"
        ))),
    }
}
