//! The decoders of records that lie in stores, for tests with hostile bytes.

use crate::archive::{ArchivedRank, ArchivedVersion};
use crate::chunk::Hash;
use crate::confirm::decode_hashes;
use crate::manifest::{Complete, Held, Index, Manifest, Place, decode, encode};
use crate::regions::Split;
use crate::regions::shape::{decode_head, encode_head};

/// Valid records of each kind.
pub fn sample_records() -> Vec<Vec<u8>> {
    let held = |number: u8| Held { hash: Hash::of(&[number]), length: 1000, stores: [1, 2].into_iter().collect() };
    let manifest = Manifest {
        attempt: 77,
        buffers: vec![3000, 2000],
        chunks: (0..3).map(held).collect(),
        sequence: vec![0, 1, 0, 2, 1],
    };
    let complete = Complete { attempt: 77, buffers: vec![vec![3000, 2000]; 3], copies: 2, stores: vec![5, 6, 7] };
    let place = |number: u32| Place { pack: number % 2, offset: 1000 * number, length: 1000 };
    let chunks = (0..4).map(|number| (Hash::of(&[number as u8]), place(number))).collect();
    let index = Index { packs: vec!["a/pack-0".into(), "a/pack-1".into()], chunks };
    let (ranks, packs) = (vec![Hash::of(b"rank"); 3], index.packs.clone());
    let version = ArchivedVersion { name: "state".into(), version: 7, complete: complete.clone(), ranks, packs };
    let rank = ArchivedRank { manifest: manifest.clone(), index: index.clone() };
    let head = encode_head([(1, Split::Own), (7, Split::Same), (9, Split::Part { start: 4096 })].into_iter());
    [encode(&manifest), encode(&complete), encode(&index), version.encode(), encode(&rank), head]
        .into_iter()
        .flatten()
        .collect()
}

/// Decodes the bytes as a record of each kind, and checks the result as a restore does. Returns whether any record is
/// valid.
pub fn parse_records(bytes: &[u8]) -> bool {
    let manifest = decode::<Manifest>("a manifest", bytes).and_then(|manifest| manifest.positions());
    let index = decode::<Index>("an index", bytes).map(|index| {
        let mut all = Index { packs: vec!["another pack".into()], chunks: Vec::new() };
        all.append(index);
    });
    let complete = decode::<Complete>("a dump's record", bytes);
    let hashes = decode_hashes(bytes);
    // The hash of a version that flowed is checked first, so the mutations test what is behind it.
    let version = ArchivedVersion::decode("a version", bytes, "state", 7).or_else(|_| decode("a version", bytes));
    let rank = decode::<ArchivedRank>("a rank", bytes).and_then(|rank| rank.manifest.positions());
    let head = decode_head(bytes);
    manifest.is_ok()
        || index.is_ok()
        || complete.is_ok()
        || hashes.is_ok()
        || head.is_ok()
        || version.is_ok()
        || rank.is_ok()
}
