//! Whether the program was dumped at all, which the user learns at its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mpi::ffi;
use terrace_dump::flags::{PausePoint, RunFlags};

use crate::settings;

/// The calls at which the program has paused in this process.
static ARRIVED_CALLS: AtomicU64 = AtomicU64::new(0);
/// Whether a checkpoint was due, which was made or has failed with a warning, or the program was continued from one.
static IS_DUMPED: AtomicBool = AtomicBool::new(false);

/// Notes that the program pauses.
pub fn note_call() {
    // Relaxed, as all below: the thread that calls MPI notes it, and reads it at the end.
    ARRIVED_CALLS.fetch_add(1, Ordering::Relaxed);
}

/// Notes that a checkpoint was due, or that the program continues from one.
pub fn note_dumped() {
    IS_DUMPED.store(true, Ordering::Relaxed);
}

/// Warns on the first rank if no checkpoint was due until now, nor the program continued from one. The program ends its use of MPI.
pub fn warn_if_not_dumped() {
    let Some(settings) = settings::get().filter(|_| !IS_DUMPED.load(Ordering::Relaxed) && is_first_rank()) else {
        return;
    };
    eprintln!("terrace dump run: {}", describe(settings, ARRIVED_CALLS.load(Ordering::Relaxed)));
}

fn is_first_rank() -> bool {
    let (mut has_begun, mut has_ended, mut rank) = (0, 0, 0);
    // SAFETY: the first two functions may be called at any time, and the third one between the start of MPI and its end.
    unsafe {
        ffi::PMPI_Initialized(&mut has_begun);
        ffi::PMPI_Finalized(&mut has_ended);
        has_begun != 0 && has_ended == 0 && {
            ffi::PMPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank);
            rank == 0
        }
    }
}

fn describe(settings: &RunFlags, calls: u64) -> String {
    let RunFlags { name, at, each, every, restart, .. } = settings;
    let others = PausePoint::all().iter().filter(|other| *other != at).map(PausePoint::to_string);
    let others: Vec<String> = others.collect();
    let interval = every.map_or_else(|| format!("--each is {each}"), |seconds| format!("--every is {seconds} s"));
    let restart = if *restart && calls == 0 { ", and it was not continued from one" } else { "" };
    format!(
        "no checkpoint of {name:?} was made{restart}: the program made {calls} calls of {at} with all ranks, and {interval}; name another \
         call by --at ({}), or choose a shorter interval",
        others.join(", ")
    )
}
