//! Calls by which a program gets state that no checkpoint has. They do what they always do, and are noted.

use super::noted::NotedCall;
use crate::objects;
use crate::obstacles::{self, RestartObstacle};

/// Exports functions that note an obstacle, and continue with the function behind.
macro_rules! noted {
    ($($name:ident: $obstacle:ident;)*) => { $(
        noted_call! { $name: RestartObstacle = RestartObstacle::$obstacle, note }
    )* };
}

noted! {
    pthread_create: Threads;
    thrd_create: Threads;
    dlopen: Libraries;
    dlmopen: Libraries;
    mmap: Mappings;
    mmap64: Mappings;
    shmat: Mappings;
    sbrk: Mappings;
    brk: Mappings;
    asprintf: Given;
    __asprintf_chk: Given;
    __vasprintf_chk: Given;
    open_memstream: Given;
    MPI_Alloc_mem: Given;
    mpi_alloc_mem_: Given;
    mpi_alloc_mem_f08_: Given;
    mpi_alloc_mem_cptr_: Given;
    mlock: Locked;
    mlock2: Locked;
    mlockall: Locked;
    setjmp: Jumps;
    _setjmp: Jumps;
    __sigsetjmp: Jumps;
    rand: Random;
    srand: Random;
    random: Random;
    srandom: Random;
    initstate: Random;
    setstate: Random;
    drand48: Random;
    srand48: Random;
    seed48: Random;
    lrand48: Random;
    mrand48: Random;
    MPI_Grequest_start: GeneralRequests;
    mpi_grequest_start_: GeneralRequests;
    mpi_grequest_start_f08_: GeneralRequests;
    MPI_Session_init: Sessions;
    mpi_session_init_: Sessions;
    mpi_session_init_f08_: Sessions;
}

/// Notes that the program makes a call. Returns the function to continue with.
extern "C" fn note(caller: usize, call: &'static NotedCall<RestartObstacle>) -> usize {
    if objects::is_program(caller) {
        obstacles::note(call.meaning);
    }
    call.find_behind()
}
