//! Calls that make descriptors of no files. Those of the engine, which may talk to other machines, go where programs seldom go.

use std::ffi::{c_char, c_int, c_uint};

use crate::calls::closing::kernels;
use crate::inside::is_inside;
use crate::{numbers, real};

fn choose(open: impl FnOnce() -> c_int) -> c_int {
    if is_inside() {
        return numbers::open_apart(open);
    }
    let open = || {
        let _change = numbers::change_programs();
        open()
    };
    kernels(open())
}

macro_rules! new_descriptors {
    ($($function:ident($($argument:ident: $kind:ty),*);)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $function($($argument: $kind),*) -> c_int {
            // SAFETY: the caller's arguments, as they are.
            choose(|| unsafe { real::$function($($argument),*) })
        }
    )* };
}

new_descriptors! {
    socket(domain: c_int, kind: c_int, protocol: c_int);
    eventfd(start: c_uint, flags: c_int);
    epoll_create1(flags: c_int);
    inotify_init1(flags: c_int);
    timerfd_create(clock: c_int, flags: c_int);
    memfd_create(name: *const c_char, flags: c_uint);
}
