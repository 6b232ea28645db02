//! The replicas that came to targets, in their order. Eviction looks there for those that may leave: a search of the whole catalog would
//! take the longer, the more objects the store has.

use std::collections::{HashMap, VecDeque};

use rustix_futex_sync::Mutex;
use terrace_catalog::TargetId;

/// The number of replicas of a target that are remembered. Others are found by a search.
const MAX_REMEMBERED_ARRIVALS: usize = 1 << 18;

/// The replicas that this process has put on targets, or found there, and not evicted. Some may be gone meanwhile.
///
/// The lock is a leaf, held for one change of a queue.
#[derive(Default)]
pub(crate) struct Arrivals(Mutex<HashMap<TargetId, VecDeque<Arrival>>>);

/// A replica of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub key: Vec<u8>,
    /// The extent's offset in the object.
    pub offset: u64,
}

impl Arrivals {
    /// Notes a replica as the last one that came.
    pub fn add(&self, target: TargetId, arrival: Arrival) {
        let mut all = self.0.lock();
        let queue = all.entry(target).or_default();
        if queue.len() < MAX_REMEMBERED_ARRIVALS {
            queue.push_back(arrival);
        }
    }

    /// Forgets all replicas of a target.
    pub fn clear(&self, target: TargetId) {
        self.0.lock().remove(&target);
    }

    /// Takes the replica that came first.
    pub fn take_first(&self, target: TargetId) -> Option<Arrival> {
        self.0.lock().get_mut(&target)?.pop_front()
    }

    /// Gives replicas back, as those that came first, in their order.
    pub fn put_first(&self, target: TargetId, arrivals: impl DoubleEndedIterator<Item = Arrival>) {
        let mut all = self.0.lock();
        let queue = all.entry(target).or_default();
        for arrival in arrivals.rev() {
            if queue.len() < MAX_REMEMBERED_ARRIVALS {
                queue.push_front(arrival);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_leave_in_the_order_in_which_they_came() {
        let arrivals = Arrivals::default();
        let arrival = |offset| Arrival { key: b"k".to_vec(), offset };
        (0..4).for_each(|offset| arrivals.add(1, arrival(offset)));
        arrivals.add(2, arrival(9));
        let taken: Vec<Arrival> = (0..3).filter_map(|_| arrivals.take_first(1)).collect();
        assert_eq!(taken, [arrival(0), arrival(1), arrival(2)]);
        arrivals.put_first(1, taken.into_iter().skip(1));
        let rest: Vec<u64> = std::iter::from_fn(|| arrivals.take_first(1)).map(|arrival| arrival.offset).collect();
        assert_eq!(rest, [1, 2, 3]);
        assert_eq!(arrivals.take_first(2), Some(arrival(9)));
        assert_eq!(arrivals.take_first(3), None);
    }
}
