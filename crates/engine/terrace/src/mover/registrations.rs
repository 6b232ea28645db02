//! Tells the threads of this process when replicas were registered.

use std::time::Duration;

use rustix_futex_sync::{Condvar, Mutex};

/// The number of commits of this process that have registered replicas. Its lock is a leaf, held for one change of the number, or while a
/// thread waits for that.
#[derive(Default)]
pub(super) struct Registrations {
    count: Mutex<u64>,
    more: Condvar,
}

impl Registrations {
    /// Returns the number so far.
    pub fn count(&self) -> u64 {
        *self.count.lock()
    }

    /// Notes one more.
    pub fn add(&self) {
        *self.count.lock() += 1;
        self.more.notify_all();
    }

    /// Waits until there are more than `seen`, but no longer than `time`.
    pub fn wait_for_more(&self, seen: u64, time: Duration) {
        let count = self.count.lock();
        if *count == seen {
            drop(self.more.wait_timeout(count, time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_for_the_next_registration_and_for_none_that_has_come() {
        const LONG_TIME: Duration = Duration::from_secs(3600);
        let registrations = Registrations::default();
        let seen = registrations.count();
        std::thread::scope(|scope| {
            scope.spawn(|| registrations.wait_for_more(seen, LONG_TIME));
            scope.spawn(|| registrations.add());
        });
        registrations.wait_for_more(seen, LONG_TIME);
        registrations.wait_for_more(seen + 1, Duration::ZERO);
        assert_eq!(registrations.count(), seen + 1);
    }
}
