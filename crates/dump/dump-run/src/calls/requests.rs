//! Things that a program must not have when it is dumped, as its new process has others in their places, or none: persistent requests, messages that it
//! has probed for itself, and windows with memory of MPI.

use std::collections::BTreeSet;
use std::ffi::c_int;

use mpi::ffi::{self, MPI_Request, MPI_Status};
use rustix_futex_sync::Mutex;

use crate::obstacles::{self, RestartObstacle};

/// The persistent requests that exist.
pub static LIVE_REQUESTS: LiveThings = LiveThings::new(RestartObstacle::Requests);
/// The messages that the program has taken from those that arrive, and not received.
pub static LIVE_MESSAGES: LiveThings = LiveThings::new(RestartObstacle::Messages);
/// The windows whose memory MPI has allocated.
pub static LIVE_WINDOWS: LiveThings = LiveThings::new(RestartObstacle::Windows);

/// Things that are an obstacle while one of them exists.
pub struct LiveThings {
    obstacle: RestartObstacle,
    /// Their addresses. Held for a look or a change.
    addresses: Mutex<BTreeSet<usize>>,
}

impl LiveThings {
    const fn new(obstacle: RestartObstacle) -> LiveThings {
        LiveThings { obstacle, addresses: Mutex::new(BTreeSet::new()) }
    }

    /// Notes that one is made.
    pub fn insert(&self, address: usize) {
        self.addresses.lock().insert(address);
        obstacles::note(self.obstacle);
    }

    /// Notes that one is freed, if it is one of these.
    pub fn remove(&self, address: usize) {
        let mut live = self.addresses.lock();
        if live.remove(&address) && live.is_empty() {
            obstacles::clear(self.obstacle);
        }
    }
}

unsafe extern "C" {
    fn PMPI_Request_get_status(request: MPI_Request, is_complete: *mut c_int, status: *mut MPI_Status) -> c_int;
}

/// Frees the persistent requests that are not under way, before a restart: the program that continues does not have them.
pub fn free_complete() {
    let live: Vec<usize> = LIVE_REQUESTS.addresses.lock().iter().copied().collect();
    for address in live {
        let mut request = MPI_Request(address as *mut _);
        let mut is_complete = 0;
        // SAFETY: the request exists, as it was made and not freed.
        unsafe {
            PMPI_Request_get_status(request, &mut is_complete, ffi::RSMPI_STATUS_IGNORE);
            if is_complete != 0 {
                LIVE_REQUESTS.remove(address);
                ffi::PMPI_Request_free(&mut request);
            }
        }
    }
}
