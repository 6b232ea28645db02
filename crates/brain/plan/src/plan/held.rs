//! Pieces that are stored already and may stay where they are.

use super::Piece;
use crate::mix::mix;
use terrace_cost::Costs;

/// A run of stored pages on a target, in one of the encodings of the request's costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub target: u8,
    pub encoding: u8,
    pub start: u32,
    pub end: u32,
}

/// Converts `present` to runs, and drops pages past the request and encodings that `costs` does not contain. The search
/// considers all targets of `present`, so that their indexes are small. `pieces` gets the runs in their order; `held` gets them sorted, with adjacent runs merged.
pub(super) fn collect_held(present: &[Piece], costs: &Costs, pages: u32, pieces: &mut Vec<Held>, held: &mut Vec<Held>) {
    held.clear();
    for piece in present {
        let encoding = costs.rates().iter().position(|of| of.encoding == piece.encoding);
        let (start, end) = (piece.start, piece.end().min(pages));
        if let (Some(encoding), true) = (encoding, start < end) {
            held.push(Held { target: piece.target as u8, encoding: encoding as u8, start, end });
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

/// Counts the pages from `start` to `end` that are stored on the target in the encoding.
pub(super) fn count_kept_pages(held: &[Held], target: u8, encoding: u8, start: u32, end: u32) -> u32 {
    let here = held.iter().filter(|run| (run.target, run.encoding) == (target, encoding));
    here.map(|run| run.end.min(end).saturating_sub(run.start.max(start))).sum()
}

/// Returns the price of bytes that stay where they are: 5 % less, because speeds are rounded in steps of 5 %. So nothing
/// moves for a gain that may come from rounding.
pub(super) fn discount_staying(price: u64) -> u64 {
    price - price / 20
}

/// Returns a hash of the pieces; 0 if there are none.
pub(super) fn hash_pieces(present: &[Piece]) -> u64 {
    present.iter().fold(0, |hash, piece| {
        let bytes = u32::from_le_bytes(piece.encoding.to_bytes());
        let place = u64::from(piece.target) << 32 | u64::from(bytes);
        [place, piece.start.into(), piece.pages.into()].into_iter().fold(hash, mix)
    })
}
