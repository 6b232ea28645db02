//! Restores buffers from an archive. Each rank reads what it needs, without the others.

use std::collections::BTreeMap;

use super::buffers::Buffers;
use super::{Restored, Wanted};
use crate::Result;
use crate::archive::{Archive, share};
use crate::chunk::{ByHash, Hash};
use crate::packed::Packed;
use crate::session::Session;
use crate::transport::agree;

/// Restores buffers from a version in an archive. Collective.
pub fn restore(session: &Session<'_>, archive: &Archive, version: u32, wanted: Wanted<'_>) -> Result<Restored> {
    let (world, name) = (session.world, session.name);
    let archived = share(world, || archive.version(name, version))?;
    let ranks = archived.complete.buffers.len() as u32;
    let wanted = agree(world, wanted.among(world, ranks))?;
    let (mut manifests, mut packed) = (BTreeMap::new(), Packed::default());
    for rank in &wanted {
        let record = archive.rank(name, version, &archived, *rank)?;
        packed.add(record.index, |_| true);
        manifests.insert(*rank, record.manifest);
    }
    let mut buffers = Buffers::new(&wanted, &archived.complete, manifests);
    let hashes: ByHash<()> = buffers.chunks().map(|held| (held.hash, ())).collect();
    let hashes: Vec<Hash> = hashes.into_keys().collect();
    packed.read_by(&|pack, offset, out| archive.read_from_pack(pack, offset, out), &hashes, &mut |number, bytes| {
        buffers.fill(&hashes[number], bytes);
        Ok(())
    })?;
    let (buffers, lost) = buffers.finish();
    Ok(Restored { version, ranks, is_archived: true, buffers, lost })
}
