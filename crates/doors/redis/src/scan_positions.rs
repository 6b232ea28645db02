//! [`ScanPositions`]: where scans of a database go on.

use std::collections::{HashMap, VecDeque};

use rustix_futex_sync::Mutex;

use crate::random::random;

/// The number of scans whose positions are remembered.
const MAX_POSITIONS: usize = 16 << 10;

/// The names behind which scans go on, by the numbers that clients get as cursors. A cursor of Redis is a number, but a place in a
/// sorted database is a name.
#[derive(Default)]
pub struct ScanPositions {
    // Held for a look or a change only; no other lock is taken under it.
    known: Mutex<NamesByNumber>,
}

#[derive(Default)]
struct NamesByNumber {
    names: HashMap<u64, Vec<u8>>,
    oldest: VecDeque<u64>,
}

impl ScanPositions {
    /// Remembers a name, and returns the number for it.
    pub fn remember(&self, name: Vec<u8>) -> u64 {
        // Clients of some languages have no larger numbers. Chosen at random, it means nothing to another server.
        let number = (random() >> 12).max(1);
        let mut known = self.known.lock();
        known.names.insert(number, name);
        known.oldest.push_back(number);
        if known.oldest.len() > MAX_POSITIONS
            && let Some(oldest) = known.oldest.pop_front()
        {
            known.names.remove(&oldest);
        }
        number
    }

    /// Returns the name for a number.
    pub fn find(&self, number: u64) -> Option<Vec<u8>> {
        self.known.lock().names.get(&number).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_positions_are_forgotten() {
        let positions = ScanPositions::default();
        let first = positions.remember(b"first".to_vec());
        assert_eq!(positions.find(first), Some(b"first".to_vec()));
        for number in 0..MAX_POSITIONS {
            positions.remember(number.to_string().into_bytes());
        }
        assert_eq!(positions.find(first), None);
        assert_eq!(positions.known.lock().names.len(), MAX_POSITIONS);
    }
}
