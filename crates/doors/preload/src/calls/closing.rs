//! `close`, and the end of a descriptor that the kernel closes.

use std::ffi::c_int;

use crate::answer::{answer, give, guard};
use crate::calls::twins;
use crate::errors::{CallResult, of_kernel, refuse};
use crate::inside::is_inside;
use crate::{numbers, real, table};

#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    if numbers::has(fd) {
        return answer(|| {
            let flushed = forget(fd);
            // SAFETY: it takes a number only.
            of_kernel(unsafe { real::close(fd) })?;
            flushed.map(|()| 0)
        });
    }
    if is_inside() {
        let _change = numbers::change_engines();
        numbers::let_go(fd);
        // SAFETY: as above.
        return unsafe { real::close(fd) };
    }
    // It may take long, as that of a socket.
    let _change = numbers::open_programs();
    // The program has not opened what is the engine's. SAFETY: as above.
    if numbers::is_engines(fd) { give(refuse(libc::EBADF)) } else { unsafe { real::close(fd) } }
}

/// Takes a descriptor that the kernel is about to close out of the table, and writes its file's buffered bytes.
pub fn forget(fd: c_int) -> CallResult<()> {
    table::remove(fd).map_or(Ok(()), |open| open.finish())
}

/// Notes that the kernel has just given a number for another file than one of the store. A program that has closed it by a call of its own has
/// left it in the table.
pub fn kernels(fd: c_int) -> c_int {
    if numbers::has(fd) {
        // The call that opens a file cannot return this error. The engine's log reports bytes that were not written.
        let _ = guard(|| forget(fd));
    }
    fd
}

twins! {
    close(fd: c_int) -> c_int: __close, __close_nocancel;
}
