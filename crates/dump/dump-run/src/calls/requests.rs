//! The calls of MPI that make persistent requests, and the one that frees them. While a program has some, it could not be restarted: its new
//! process has others, or none.

// The functions have MPI's names.
#![allow(non_snake_case)]

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::mem;

use mpi::ffi::{self, MPI_Request, MPI_Status};
use rustix_futex_sync::Mutex;

use super::behind::Behind;
use crate::obstacles::{self, RestartObstacle};

/// The persistent requests that exist, by their addresses. Held for a look or a change.
static LIVE_REQUESTS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// The most arguments of such a call, with the error's place in Fortran.
const MAX_ARGUMENT_COUNT: usize = 12;
/// The arguments that are in registers. The others are on the stack.
const REGISTER_COUNT: usize = 6;
/// The words on the stack between the saved registers and the other arguments.
const FRAME_WORD_COUNT: usize = 2;

/// A call that makes a persistent request.
struct RequestCall {
    behind: Behind,
    /// The arguments up to the place of the request. In Fortran, that of the error follows.
    count: usize,
    is_fortran: bool,
}

/// Exports a function that notes the request which the function behind makes.
macro_rules! maker {
    ($count:literal, $name:ident, $is_fortran:literal) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            static REQUEST_CALL: RequestCall = RequestCall {
                behind: Behind::new(concat!(stringify!($name), "\0")),
                count: $count,
                is_fortran: $is_fortran,
            };
            // Puts the arguments of registers in order onto the stack, which is aligned for the call then.
            std::arch::naked_asm!(
                "push rbp",
                "mov rbp, rsp",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "mov rdi, rsp",
                "lea rsi, [rip + {call}]",
                "call {make}",
                "leave",
                "ret",
                call = sym REQUEST_CALL,
                make = sym make,
            )
        }
    };
}

/// Exports functions in C and Fortran, with the number of arguments up to the place of the request.
macro_rules! makers {
    ($($count:literal: $c:ident, $($fortran:ident),+;)*) => { $(
        maker! { $count, $c, false }
        $(maker! { $count, $fortran, true })+
    )* };
}

// OpenMPI 4 has the collective ones as MPIX, and 5 as MPI.
makers! {
    7: MPI_Send_init, mpi_send_init_, mpi_send_init_f08_;
    7: MPI_Bsend_init, mpi_bsend_init_, mpi_bsend_init_f08_;
    7: MPI_Ssend_init, mpi_ssend_init_, mpi_ssend_init_f08_;
    7: MPI_Rsend_init, mpi_rsend_init_, mpi_rsend_init_f08_;
    7: MPI_Recv_init, mpi_recv_init_, mpi_recv_init_f08_;
    9: MPI_Psend_init, mpi_psend_init_, mpi_psend_init_f08_;
    9: MPI_Precv_init, mpi_precv_init_, mpi_precv_init_f08_;
    3: MPI_Barrier_init, mpi_barrier_init_, mpi_barrier_init_f08_;
    7: MPI_Bcast_init, mpi_bcast_init_, mpi_bcast_init_f08_;
    10: MPI_Gather_init, mpi_gather_init_, mpi_gather_init_f08_;
    11: MPI_Gatherv_init, mpi_gatherv_init_, mpi_gatherv_init_f08_;
    10: MPI_Scatter_init, mpi_scatter_init_, mpi_scatter_init_f08_;
    11: MPI_Scatterv_init, mpi_scatterv_init_, mpi_scatterv_init_f08_;
    9: MPI_Allgather_init, mpi_allgather_init_, mpi_allgather_init_f08_;
    10: MPI_Allgatherv_init, mpi_allgatherv_init_, mpi_allgatherv_init_f08_;
    9: MPI_Alltoall_init, mpi_alltoall_init_, mpi_alltoall_init_f08_;
    11: MPI_Alltoallv_init, mpi_alltoallv_init_, mpi_alltoallv_init_f08_;
    11: MPI_Alltoallw_init, mpi_alltoallw_init_, mpi_alltoallw_init_f08_;
    9: MPI_Reduce_init, mpi_reduce_init_, mpi_reduce_init_f08_;
    8: MPI_Allreduce_init, mpi_allreduce_init_, mpi_allreduce_init_f08_;
    8: MPI_Reduce_scatter_init, mpi_reduce_scatter_init_, mpi_reduce_scatter_init_f08_;
    8: MPI_Reduce_scatter_block_init, mpi_reduce_scatter_block_init_, mpi_reduce_scatter_block_init_f08_;
    8: MPI_Scan_init, mpi_scan_init_, mpi_scan_init_f08_;
    8: MPI_Exscan_init, mpi_exscan_init_, mpi_exscan_init_f08_;
    9: MPI_Neighbor_allgather_init, mpi_neighbor_allgather_init_, mpi_neighbor_allgather_init_f08_;
    10: MPI_Neighbor_allgatherv_init, mpi_neighbor_allgatherv_init_, mpi_neighbor_allgatherv_init_f08_;
    9: MPI_Neighbor_alltoall_init, mpi_neighbor_alltoall_init_, mpi_neighbor_alltoall_init_f08_;
    11: MPI_Neighbor_alltoallv_init, mpi_neighbor_alltoallv_init_, mpi_neighbor_alltoallv_init_f08_;
    11: MPI_Neighbor_alltoallw_init, mpi_neighbor_alltoallw_init_, mpi_neighbor_alltoallw_init_f08_;
    3: MPIX_Barrier_init, mpix_barrier_init_, mpix_barrier_init_f08_;
    7: MPIX_Bcast_init, mpix_bcast_init_, mpix_bcast_init_f08_;
    10: MPIX_Gather_init, mpix_gather_init_, mpix_gather_init_f08_;
    11: MPIX_Gatherv_init, mpix_gatherv_init_, mpix_gatherv_init_f08_;
    10: MPIX_Scatter_init, mpix_scatter_init_, mpix_scatter_init_f08_;
    11: MPIX_Scatterv_init, mpix_scatterv_init_, mpix_scatterv_init_f08_;
    9: MPIX_Allgather_init, mpix_allgather_init_, mpix_allgather_init_f08_;
    10: MPIX_Allgatherv_init, mpix_allgatherv_init_, mpix_allgatherv_init_f08_;
    9: MPIX_Alltoall_init, mpix_alltoall_init_, mpix_alltoall_init_f08_;
    11: MPIX_Alltoallv_init, mpix_alltoallv_init_, mpix_alltoallv_init_f08_;
    11: MPIX_Alltoallw_init, mpix_alltoallw_init_, mpix_alltoallw_init_f08_;
    9: MPIX_Reduce_init, mpix_reduce_init_, mpix_reduce_init_f08_;
    8: MPIX_Allreduce_init, mpix_allreduce_init_, mpix_allreduce_init_f08_;
    8: MPIX_Reduce_scatter_init, mpix_reduce_scatter_init_, mpix_reduce_scatter_init_f08_;
    8: MPIX_Reduce_scatter_block_init, mpix_reduce_scatter_block_init_, mpix_reduce_scatter_block_init_f08_;
    8: MPIX_Scan_init, mpix_scan_init_, mpix_scan_init_f08_;
    8: MPIX_Exscan_init, mpix_exscan_init_, mpix_exscan_init_f08_;
    9: MPIX_Neighbor_allgather_init, mpix_neighbor_allgather_init_, mpix_neighbor_allgather_init_f08_;
    10: MPIX_Neighbor_allgatherv_init, mpix_neighbor_allgatherv_init_, mpix_neighbor_allgatherv_init_f08_;
    9: MPIX_Neighbor_alltoall_init, mpix_neighbor_alltoall_init_, mpix_neighbor_alltoall_init_f08_;
    11: MPIX_Neighbor_alltoallv_init, mpix_neighbor_alltoallv_init_, mpix_neighbor_alltoallv_init_f08_;
    11: MPIX_Neighbor_alltoallw_init, mpix_neighbor_alltoallw_init_, mpix_neighbor_alltoallw_init_f08_;
}

/// Makes a persistent request, and notes it. Returns what the function behind does.
///
/// # Safety
/// The first arguments of the call are at `saved`, and behind them, after the words of the frame, the others.
unsafe extern "C" fn make(saved: *const usize, call: &'static RequestCall) -> c_int {
    type Word = usize;
    type Make = unsafe extern "C" fn(Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word, Word) -> c_int;
    let mut arguments = [0; MAX_ARGUMENT_COUNT];
    for (i, argument) in arguments.iter_mut().enumerate().take(call.count + usize::from(call.is_fortran)) {
        let skipped = if i < REGISTER_COUNT { 0 } else { FRAME_WORD_COUNT };
        // SAFETY: as the caller guarantees.
        *argument = unsafe { saved.add(i + skipped).read() };
    }
    let (place, error_place) = (arguments[call.count - 1], arguments[call.count] as *mut c_int);
    let mut error = 0;
    if call.is_fortran {
        arguments[call.count] = (&raw mut error) as usize;
    }
    let [a, b, c, d, e, f, g, h, i, j, k, l] = arguments;
    // SAFETY: MPI's function gets what this one got, and ignores the arguments behind its own. Without an error, it has put a request into its
    // place. A program in Fortran may omit the place of the error.
    unsafe {
        let make = mem::transmute::<usize, Make>(call.behind.find());
        let returned = make(a, b, c, d, e, f, g, h, i, j, k, l);
        let code = if call.is_fortran { error } else { returned };
        if code as u32 == ffi::MPI_SUCCESS {
            note_made(if call.is_fortran {
                find_request(place as *const c_int)
            } else {
                *(place as *const MPI_Request)
            });
        }
        if call.is_fortran && !error_place.is_null() {
            error_place.write(error);
        }
        returned
    }
}

/// Returns the request of a number of Fortran's.
///
/// # Safety
/// The place has a number.
unsafe fn find_request(place: *const c_int) -> MPI_Request {
    // SAFETY: as the caller guarantees. A number without a request is that of no request.
    unsafe { ffi::PMPI_Request_f2c(*place) }
}

fn note_made(request: MPI_Request) {
    LIVE_REQUESTS.lock().insert(request.0 as usize);
    obstacles::note(RestartObstacle::Requests);
}

/// Notes that a request is freed, which may be another one than a persistent one.
fn note_freed(request: MPI_Request) {
    let mut live = LIVE_REQUESTS.lock();
    if live.remove(&(request.0 as usize)) && live.is_empty() {
        obstacles::clear(RestartObstacle::Requests);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_free(request: *mut MPI_Request) -> c_int {
    // SAFETY: the caller passes a request in a valid place, and MPI's function gets it.
    unsafe {
        note_freed(*request);
        ffi::PMPI_Request_free(request)
    }
}

/// Exports functions of Fortran that note that a request is freed.
macro_rules! removers {
    ($($name:ident;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(request: *mut c_int, error: *mut c_int) {
            static FREE_CALL: Behind = Behind::new(concat!(stringify!($name), "\0"));
            type FreeRequest = unsafe extern "C" fn(*mut c_int, *mut c_int);
            // SAFETY: the program passes the number of a request in a valid place, and MPI's function gets what this one got.
            unsafe {
                note_freed(find_request(request));
                mem::transmute::<usize, FreeRequest>(FREE_CALL.find())(request, error);
            }
        }
    )* };
}

removers! {
    mpi_request_free_;
    mpi_request_free_f08_;
}

unsafe extern "C" {
    fn PMPI_Request_get_status(request: MPI_Request, is_complete: *mut c_int, status: *mut MPI_Status) -> c_int;
}

/// Frees the persistent requests that are not under way, before a restart: the program that continues does not have them.
pub fn free_complete() {
    let live: Vec<usize> = LIVE_REQUESTS.lock().iter().copied().collect();
    for address in live {
        let mut request = MPI_Request(address as *mut _);
        let mut is_complete = 0;
        // SAFETY: the request exists, as it was made and not freed.
        unsafe {
            PMPI_Request_get_status(request, &mut is_complete, ffi::RSMPI_STATUS_IGNORE);
            if is_complete != 0 {
                note_freed(request);
                ffi::PMPI_Request_free(&mut request);
            }
        }
    }
}
