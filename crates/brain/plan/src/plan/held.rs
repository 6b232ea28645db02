//! What is stored already, as far as it may stay where it is.

use super::Piece;
use crate::mix::mix;
use terrace_cost::Costs;

/// A run of pages on a target, in one of the encodings that are given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub target: u8,
    pub encoding: u8,
    pub start: u32,
    pub end: u32,
}

/// Takes over what the request's pages and the encodings know of: as it comes to `pieces`; to `held` with runs that meet
/// made one.
pub(super) fn take(present: &[Piece], costs: &Costs, pages: u32, pieces: &mut Vec<Held>, held: &mut Vec<Held>) {
    held.clear();
    for piece in present {
        let encoding = costs.rates().iter().position(|of| of.encoding == piece.encoding);
        let (start, end) = (piece.start, piece.end().min(pages));
        if let (Some(encoding), true) = (encoding, start < end) {
            held.push(Held { target: piece.target, encoding: encoding as u8, start, end });
        }
    }
    pieces.clone_from(held);
    held.sort_unstable_by_key(|run| (run.target, run.encoding, run.start));
    held.dedup_by(|next, run| {
        let meet = (next.target, next.encoding) == (run.target, run.encoding) && next.start <= run.end;
        if meet {
            run.end = run.end.max(next.end);
        }
        meet
    });
}

/// How many of the pages from `start` to `end` are there.
pub(super) fn kept(held: &[Held], target: u8, encoding: u8, start: u32, end: u32) -> u32 {
    let here = held.iter().filter(|run| (run.target, run.encoding) == (target, encoding));
    here.map(|run| run.end.min(end).saturating_sub(run.start.max(start))).sum()
}

/// The price of what stays: a twentieth less, the step by which speeds are rounded, so that what is as good or hardly
/// better elsewhere is not moved.
pub(super) fn staying(price: u64) -> u64 {
    price - price / 20
}

/// A hash; 0 of nothing.
pub(super) fn hash(present: &[Piece]) -> u64 {
    present.iter().fold(0, |hash, piece| {
        let bytes = u32::from_le_bytes(piece.encoding.to_bytes());
        let place = u64::from(piece.target) << 32 | u64::from(bytes);
        [place, piece.start.into(), piece.pages.into()].into_iter().fold(hash, mix)
    })
}
