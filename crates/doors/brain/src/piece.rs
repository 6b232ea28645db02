//! [`BrainPiece`]: a part of a planned replica, as a C host gets it.

use std::ffi::c_char;

use terrace_codec::Encoding;
use terrace_cost::{Costs, Expected};
use terrace_plan::plan::{Piece, Plan};
use terrace_plan::snapshot::PAGE_BYTES;

use crate::storage::Storage;

/// The length of an encoding's name, with the NUL at its end.
pub const TERRACE_BRAIN_NAME_BYTES: usize = 32;

/// A part of a replica: bytes to encode, and the target to write them to. The pieces of a replica follow each other, and cover all bytes. Most
/// replicas have one piece; one on targets that are nearly full may have more.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BrainPiece {
    /// The number of the replica, from 0. Replica 0 is written first, and serves the reads.
    pub replica: u32,
    /// The number of the target, as in `terrace_brain_create`.
    pub target: u32,
    /// The first byte, from the first one of the request.
    pub offset: u64,
    /// The number of bytes.
    pub length: u64,
    /// The encoding, for `terrace_brain_encode`; 0, if they are stored as they are.
    pub encoding: u32,
    /// The encoding's name, such as `"shuffle4+zstd-1"`.
    pub name: [c_char; TERRACE_BRAIN_NAME_BYTES],
    /// The expected number of stored bytes. They may be more, but never more than `length`.
    pub stored: u64,
    /// The seconds that encoding and writing it are expected to take, if nothing else is going on.
    pub write_seconds: f64,
    /// The seconds that reading and decoding it are expected to take, if nothing else is going on.
    pub read_seconds: f64,
}

/// The size of a plan.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BrainPlanSize {
    /// The number of pieces of all replicas.
    pub pieces: usize,
    /// The number of replicas that have a place.
    pub replicas: u32,
    /// The number of replicas that the request wants; under a budget, the highest.
    pub wanted: u32,
    /// The expected number of stored bytes of all replicas.
    pub stored: u64,
}

/// Returns the pieces of a plan for `bytes` bytes.
pub(crate) fn list_pieces(plan: &Plan, bytes: u64, costs: &Costs, storage: &Storage) -> Vec<BrainPiece> {
    let replicas = (0u32..).zip(&plan.replicas);
    let pieces = replicas.flat_map(|(replica, pieces)| pieces.iter().map(move |piece| (replica, piece)));
    // No bytes have a page, too, but nothing is stored of them.
    let stored = pieces.map(|(replica, piece)| describe(replica, piece, bytes, costs, storage));
    stored.filter(|piece| piece.length > 0).collect()
}

fn describe(replica: u32, piece: &Piece, bytes: u64, costs: &Costs, storage: &Storage) -> BrainPiece {
    let [from, to] = [piece.start, piece.end()].map(|page| u64::from(page) * PAGE_BYTES);
    let length = to.min(bytes).saturating_sub(from);
    let of_pages = u64::from(piece.pages.max(1)) * PAGE_BYTES;
    // The last page may be a part of one.
    let stored = (length * piece.stored).div_ceil(of_pages);
    let known = costs.rates().iter().find(|of| of.encoding == piece.encoding);
    let expected = known.map_or(Expected::NONE, |of| of.expected);
    let [reading, writing] = storage.speeds(piece.target.into());
    BrainPiece {
        replica,
        target: piece.target.into(),
        offset: from,
        length,
        encoding: number_of(piece.encoding),
        name: name_of(piece.encoding),
        stored,
        write_seconds: length as f64 * expected.encode + writing.time(stored as usize),
        read_seconds: length as f64 * expected.decode + reading.time(stored as usize),
    }
}

/// Returns an encoding as a number.
pub(crate) fn number_of(encoding: Encoding) -> u32 {
    u32::from_le_bytes(encoding.to_bytes())
}

fn name_of(encoding: Encoding) -> [c_char; TERRACE_BRAIN_NAME_BYTES] {
    let mut name = [0; TERRACE_BRAIN_NAME_BYTES];
    // The last one stays 0.
    let text = encoding.to_string();
    name[..TERRACE_BRAIN_NAME_BYTES - 1].iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
    name
}
