//! [`promotions`] and [`demotions`]: worthwhile moves between tiers.

use serde::{Deserialize, Serialize};

use super::reads_to_come;
use terrace_cost::TargetRates;

use crate::snapshot::Snapshot;

/// A replica that may be moved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The key of its score.
    pub key: u64,
    /// Its stored size in bytes.
    pub bytes: u64,
    /// The index of its target.
    pub target: u16,
    /// Its score.
    pub score: f64,
}

/// A suggested move of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The key of its score.
    pub key: u64,
    /// The index of its present target.
    pub from: u16,
    /// The index of its new target.
    pub to: u16,
    /// The time saved in the next half-life minus the duration of the move, in seconds; negative if the move costs
    /// time.
    pub gain: f64,
}

/// Returns the moves to faster tiers that save more time than they take, in the order of the saving per byte, as far as
/// there is room.
pub fn promotions(entries: &[Entry], snapshot: &Snapshot) -> Vec<Move> {
    let up = |entry: &Entry, to: u16| tier(snapshot, to) < tier(snapshot, entry.target);
    let mut room = compute_room(snapshot);
    let hint = |entry: &Entry| Some((find_best_move(entry, snapshot, &room, up)?, entry.bytes));
    let mut moves: Vec<(Move, u64)> = entries.iter().filter_map(hint).filter(|(hint, _)| hint.gain > 0.0).collect();
    let per_byte = |(hint, bytes): &(Move, u64)| hint.gain / (*bytes).max(1) as f64;
    moves.sort_by(|a, b| per_byte(b).total_cmp(&per_byte(a)).then(a.0.key.cmp(&b.0.key)));
    let mut fits = |(hint, bytes): &(Move, u64)| {
        let free = &mut room[usize::from(hint.to)];
        let fits = *free >= *bytes;
        *free -= if fits { *bytes } else { 0 };
        fits
    };
    moves.retain(&mut fits);
    moves.into_iter().map(|(hint, _)| hint).collect()
}

/// Returns the moves to slower tiers that free at least `bytes` bytes of a target, in the order of the cost per byte.
/// Each replica moves to the slower tier with room that serves it best. Returns all possible moves if they do not free
/// enough.
pub fn demotions(entries: &[Entry], snapshot: &Snapshot, target: u16, bytes: u64) -> Vec<Move> {
    let mut here: Vec<&Entry> = entries.iter().filter(|entry| entry.target == target).collect();
    here.sort_by(|a, b| a.score.total_cmp(&b.score).then(b.bytes.cmp(&a.bytes)).then(a.key.cmp(&b.key)));
    let down = |entry: &Entry, to: u16| tier(snapshot, to) > tier(snapshot, entry.target);
    let (mut room, mut freed, mut moves) = (compute_room(snapshot), 0, Vec::new());
    for entry in here {
        if freed >= bytes {
            break;
        }
        if let Some(hint) = find_best_move(entry, snapshot, &room, down) {
            room[usize::from(hint.to)] -= entry.bytes;
            freed += entry.bytes;
            moves.push(hint);
        }
    }
    moves
}

/// Returns the move of an entry to the allowed target with room that gains the most.
fn find_best_move(
    entry: &Entry,
    snapshot: &Snapshot,
    room: &[u64],
    allowed: impl Fn(&Entry, u16) -> bool,
) -> Option<Move> {
    let rates = snapshot.rates();
    let from = rates.get(usize::from(entry.target))?;
    let moves = (0u16..).zip(rates).filter(|(to, _)| allowed(entry, *to) && room[usize::from(*to)] >= entry.bytes);
    let hint = |(to, rates)| Move { key: entry.key, from: entry.target, to, gain: compute_gain(entry, from, rates) };
    moves.map(hint).max_by(|a, b| a.gain.total_cmp(&b.gain).then(b.to.cmp(&a.to)))
}

fn compute_gain(entry: &Entry, from: &TargetRates, to: &TargetRates) -> f64 {
    let bytes = entry.bytes as f64;
    let read = |rates: &TargetRates| rates.latency + bytes * rates.read;
    let write = to.latency + bytes * to.write;
    reads_to_come(entry.score) * (read(from) - read(to)) - (read(from) + write)
}

/// Returns the free bytes of each target that are not reserved; 0 for a target that does not accept writes.
fn compute_room(snapshot: &Snapshot) -> Vec<u64> {
    let free = |target: &crate::snapshot::Target| target.free.saturating_sub(target.reserved);
    snapshot.targets().iter().map(|target| if target.up { free(target) } else { 0 }).collect()
}

fn tier(snapshot: &Snapshot, target: u16) -> u8 {
    snapshot.targets().get(usize::from(target)).map_or(u8::MAX, |target| target.tier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::{Target, Tier};

    const BYTES_PER_MIB: u64 = 1 << 20;

    /// A fast tier with room for this number of MiB and a slow one.
    fn storage(fast: u64) -> Snapshot {
        let tier = |name: &str| Tier { name: name.into(), persistent: true, watts: 1.0 };
        let target = |tier: u8, speed: f64, mib: u64| Target {
            tier,
            domain: tier.into(),
            read: speed,
            write: speed,
            latency: 1e-4,
            free: mib * BYTES_PER_MIB,
            reserved: 0,
            load: 0.0,
            lanes: 1,
            plain: false,
            near: false,
            up: true,
        };
        let targets = vec![target(0, 1e9, fast), target(1, 1e8, 1000)];
        Snapshot::new(vec![tier("fast"), tier("slow")], targets, 1.0).expect("a snapshot")
    }

    fn entry(key: u64, mib: u64, target: u16, score: f64) -> Entry {
        Entry { key, bytes: mib * BYTES_PER_MIB, target, score }
    }

    fn keys(moves: &[Move]) -> Vec<u64> {
        moves.iter().map(|hint| hint.key).collect()
    }

    #[test]
    fn often_read_replicas_are_promoted_and_others_stay() {
        let entries = [entry(1, 1, 1, 50.0), entry(2, 1, 1, 0.5), entry(3, 1, 1, 5.0), entry(4, 1, 0, 90.0)];
        let moves = promotions(&entries, &storage(100));
        assert_eq!(keys(&moves), [1, 3]);
        assert!(moves.iter().all(|hint| (hint.from, hint.to) == (1, 0) && hint.gain > 0.0));
        assert_eq!(keys(&promotions(&entries, &storage(1))), [1], "as long as there is room");
    }

    #[test]
    fn the_coldest_leave_first_and_no_more_than_needed() {
        let entries = [entry(1, 1, 0, 50.0), entry(2, 1, 0, 0.5), entry(3, 1, 0, 5.0), entry(4, 1, 1, 0.0)];
        let storage = storage(0);
        assert_eq!(keys(&demotions(&entries, &storage, 0, 1)), [2]);
        assert_eq!(keys(&demotions(&entries, &storage, 0, BYTES_PER_MIB + 1)), [2, 3]);
        assert_eq!(keys(&demotions(&entries, &storage, 0, 1000 * BYTES_PER_MIB)), [2, 3, 1]);
        assert!(demotions(&entries, &storage, 1, BYTES_PER_MIB).is_empty(), "nothing is slower");
    }

    #[test]
    fn a_demoted_replica_is_not_promoted_at_once() {
        for score in [0.1, 1.0, 2.0, 4.0] {
            let down = demotions(&[entry(1, 1, 0, score)], &storage(0), 0, 1);
            let up = promotions(&[entry(1, 1, 1, score)], &storage(100));
            assert_eq!(down.len(), 1);
            assert!(up.is_empty() || down[0].gain + up[0].gain < 0.0, "there and back costs");
        }
    }
}
