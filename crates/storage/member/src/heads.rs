//! Reads the log's head for all clients that ask.

use std::time::Instant;

use rustix_futex_sync::{Condvar, Mutex};
use terrace_order::{Order, OrderError};

use crate::error::Result;

/// One read at a time, which serves all who asked before it began.
#[derive(Default)]
pub struct Heads {
    /// Not held during a read.
    reads: Mutex<Reads>,
    ended: Condvar,
}

#[derive(Default)]
struct Reads {
    is_under_way: bool,
    /// The number of reads that have begun, and of the last one that has ended well.
    begun: u64,
    ended: u64,
    /// The head that it found.
    head: u64,
}

impl Heads {
    /// Returns the slot of the log's last record, as of a moment during this call. None if there is no answer in time.
    ///
    /// # Errors
    /// Those of the log, except a missing answer.
    pub fn read(&self, order: &dyn Order, until: Instant) -> Result<Option<u64>> {
        let mut reads = self.reads.lock();
        // A read that is under way may have got its answer before this call.
        let first = reads.begun + 1;
        loop {
            if reads.ended >= first {
                return Ok(Some(reads.head));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            if reads.is_under_way {
                reads = self.ended.wait_timeout(reads, left).0;
                continue;
            }
            (reads.is_under_way, reads.begun) = (true, reads.begun + 1);
            let own = reads.begun;
            drop(reads);
            let found = order.head();
            reads = self.reads.lock();
            reads.is_under_way = false;
            self.ended.notify_all();
            match found {
                Ok(head) => (reads.ended, reads.head) = (own, head.max(reads.head)),
                Err(OrderError::NoAnswer { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
