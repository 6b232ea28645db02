//! The reasons why a program cannot be restarted, as it has state that no checkpoint has.

use std::sync::atomic::{AtomicU32, Ordering};

use terrace_dump::{Error, Result};

use crate::handles;
use crate::stack::{self, Paused};

/// A kind of such state.
#[derive(Clone, Copy)]
pub enum RestartObstacle {
    /// Threads beside the first.
    Threads,
    /// Libraries that it has loaded itself.
    Libraries,
    /// Memory or files that it has mapped itself.
    Mappings,
    /// Memory that the C library or MPI has allocated for it, and that is not copied into its heap.
    Given,
    /// Memory that is locked, so that its pages cannot be replaced.
    Locked,
    /// Places to jump back to, which the C library encodes by a secret of the process.
    Jumps,
    /// The C library's random numbers.
    Random,
    /// Persistent requests, which the program knows by what they are in this process.
    Requests,
    /// Messages that it has probed for itself.
    Messages,
    /// Windows with memory of MPI.
    Windows,
    /// Requests that the program itself completes.
    GeneralRequests,
    /// Sessions of MPI.
    Sessions,
}

const ALL_OBSTACLES: [(RestartObstacle, &str); 12] = [
    (RestartObstacle::Threads, "it has begun threads"),
    (RestartObstacle::Libraries, "it has loaded libraries by dlopen"),
    (RestartObstacle::Mappings, "it has mapped memory or files by mmap, shmat or sbrk"),
    (RestartObstacle::Given, "it has memory of the C library or of MPI by asprintf, open_memstream or MPI_Alloc_mem"),
    (RestartObstacle::Locked, "it has locked memory by mlock"),
    (RestartObstacle::Jumps, "it has called setjmp"),
    (RestartObstacle::Random, "it takes random numbers from the C library, whose state is not the program's"),
    (
        RestartObstacle::Requests,
        "it has persistent requests (as MPI_Recv_init makes them), which it must free by MPI_Request_free before this call",
    ),
    (RestartObstacle::Messages, "it has messages by MPI_Mprobe or MPI_Improbe, which it must receive before this call"),
    (RestartObstacle::Windows, "it has windows by MPI_Win_allocate or MPI_Win_allocate_shared, whose memory is MPI's"),
    (RestartObstacle::GeneralRequests, "it has called MPI_Grequest_start"),
    (RestartObstacle::Sessions, "it has called MPI_Session_init"),
];

/// A bit for each obstacle that was met.
static MET_OBSTACLES: AtomicU32 = AtomicU32::new(0);

/// Notes an obstacle.
pub fn note(obstacle: RestartObstacle) {
    // Relaxed: it is read when the program pauses, in the same thread or long after.
    MET_OBSTACLES.fetch_or(1 << obstacle as u32, Ordering::Relaxed);
}

/// Notes that an obstacle is gone.
pub fn clear(obstacle: RestartObstacle) {
    // Relaxed, as above.
    MET_OBSTACLES.fetch_and(!(1 << obstacle as u32), Ordering::Relaxed);
}

/// # Errors
/// [`Error::Refused`] if the program could not be restarted.
pub fn check() -> Result<()> {
    let met = MET_OBSTACLES.load(Ordering::Relaxed);
    let words: Vec<String> = ALL_OBSTACLES
        .iter()
        .filter(|(obstacle, _)| met >> *obstacle as u32 & 1 != 0)
        .map(|(_, words)| (*words).to_owned())
        .chain(describe_late())
        .collect();
    if words.is_empty() { Ok(()) } else { Err(refuse(&words.join(", and "))) }
}

/// # Errors
/// [`Error::Refused`] if the program has paused on another stack than its own.
pub fn check_stack(paused: Paused) -> Result<()> {
    match stack::addresses().contains(&paused.addr()) {
        true => Ok(()),
        false => Err(refuse("it makes this call on a stack that it has made itself, as by makecontext")),
    }
}

/// Describes what the program has made or changed after its first call.
fn describe_late() -> impl Iterator<Item = String> {
    let (makers, changes) = (handles::list_late(), handles::list_changes());
    let made = (!makers.is_empty()).then(|| {
        format!(
            "it has made communicators, types or the like after its first call here, and still has them ({})",
            makers.join(", ")
        )
    });
    let changed = (!changes.is_empty()).then(|| {
        format!(
            "it has changed after its first call here what a restarted program has as it was before ({})",
            changes.join(", ")
        )
    });
    made.into_iter().chain(changed)
}

fn refuse(reason: &str) -> Error {
    Error::Refused(format!(
        "the program could not be restarted from a checkpoint, because {reason}; protect its regions by libterrace_dump instead"
    ))
}
