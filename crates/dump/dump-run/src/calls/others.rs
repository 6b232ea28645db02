//! Calls by which a program gets state that no checkpoint has. They do what they always do, and are noted.

use super::behind::Behind;
use crate::objects;
use crate::obstacles::{self, RestartObstacle};

/// Exports functions that note an obstacle, and continue with the function behind.
macro_rules! noted {
    ($($name:ident: $obstacle:ident;)*) => { $(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name() {
            static NOTED_CALL: (RestartObstacle, Behind) = (
                RestartObstacle::$obstacle,
                Behind::new(concat!(stringify!($name), "\0")),
            );
            // Keeps the arguments, among them the number of registers of a call with floating point, and the stack aligned for the call.
            std::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "push rax",
                "mov rdi, [rsp + 56]",
                "lea rsi, [rip + {call}]",
                "call {note}",
                "mov r11, rax",
                "pop rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "jmp r11",
                call = sym NOTED_CALL,
                note = sym note,
            )
        }
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
}

/// Notes that the program makes a call. Returns the function to continue with.
extern "C" fn note(caller: usize, call: &'static (RestartObstacle, Behind)) -> usize {
    if objects::is_program(caller) {
        obstacles::note(call.0);
    }
    call.1.find()
}
