//! `libterrace_dump_run.so`: checkpoints of MPI programs that have no code for them. `terrace dump run` loads it into a program.
//!
//! **The library keeps the program's state apart from that of MPI and of the C library**, and dumps only the former:
//! - The program's `main` runs on a stack of its own at a fixed address (`stack`), and its heap is at another one (`heap`). `calls/memory.rs`
//!   tells by the address of the caller whether memory is the program's.
//! - `objects` finds the variables of the program and of its libraries. Libraries that this one needs itself, such as MPI's, are not the program's.
//!
//! At a call that the user has chosen (`calls/points.rs`), the program pauses: its registers are on its stack, so its memory is all of its
//! state, and `host` goes on, on the stack that the process has begun with. It dumps the memory (`checkpoint`) or replaces it by that of a
//! checkpoint (`restart`), and lets the program continue. What MPI knows is always that of the present process.
//!
//! **The program is restarted in a new process of MPI**, not as an image of all its process: connections, shared memory and drivers of
//! networks cannot be restored. MPI's own objects are made again by the new process, at the same addresses: what MPI allocates while the
//! program makes a communicator or a type has places by its size (`handle_heap`), since the number of other allocations depends on when
//! messages arrive. What else a program may have (threads, mappings, ...) is noticed at the call that makes it, and then nothing is dumped
//! (`obstacles`).
//!
//! A checkpoint of a rank is an ELF core file (`image`), which debuggers read.

// Memory of a program is moved by its addresses. Each module says why its use of them is safe.
#![cfg(all(feature = "mpi", target_os = "linux", target_arch = "x86_64"))]
#![allow(unsafe_code)]

mod areas;
mod binaries;
mod calls;
mod checkpoint;
mod handle_heap;
mod handles;
mod heap;
mod host;
mod image;
mod levels;
mod objects;
mod obstacles;
mod outcome;
mod ranges;
mod resident;
mod restart;
mod schedule;
mod settings;
mod stack;
mod start;
