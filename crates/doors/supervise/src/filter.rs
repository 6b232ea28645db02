//! The filter: the kernel asks at some system calls, refuses `io_uring_setup`, and carries out all others.

// The kernel takes the filter by a pointer.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long, c_ulong};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{sock_filter, sock_fprog};

/// The kernel's number of this architecture. Programs of another one, such as 32-bit ones, are not asked for.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE_NUMBER: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE_NUMBER: u32 = 0xC000_00B7;

/// Where the call's number and the architecture are in `seccomp_data`.
const CALL_OFFSET_BYTES: u32 = 0;
const ARCHITECTURE_OFFSET_BYTES: u32 = 4;

const LOAD_CODE: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const JUMP_IF_EQUAL_CODE: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const RETURN_CODE: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// A program for the kernel.
pub struct CallFilter(Vec<sock_filter>);

impl CallFilter {
    /// Makes the filter that asks at these calls: fewer than 250.
    ///
    /// Requests of io_uring reach the kernel without a call that it could ask about. So a program is told that the kernel has no io_uring, as
    /// old ones have not, and makes calls instead.
    pub fn new(calls: &[c_long]) -> CallFilter {
        let step = |code, k| sock_filter { code, jt: 0, jf: 0, k };
        // A jump skips `jt` steps if the values are equal, otherwise `jf` steps.
        let jump = |k, jt, jf| sock_filter { code: JUMP_IF_EQUAL_CODE, jt, jf, k };
        let count = calls.len() as u8;
        let mut steps = vec![
            step(LOAD_CODE, ARCHITECTURE_OFFSET_BYTES),
            jump(ARCHITECTURE_NUMBER, 0, count + 2),
            step(LOAD_CODE, CALL_OFFSET_BYTES),
            jump(libc::SYS_io_uring_setup as u32, count + 2, 0),
        ];
        steps.extend(calls.iter().zip(0..).map(|(call, at)| jump(*call as u32, count - at, 0)));
        steps.push(step(RETURN_CODE, libc::SECCOMP_RET_ALLOW));
        steps.push(step(RETURN_CODE, libc::SECCOMP_RET_USER_NOTIF));
        steps.push(step(RETURN_CODE, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
        CallFilter(steps)
    }

    /// Makes the filter that of this thread and all that it starts, for good. Returns the descriptor on which the kernel asks. Makes
    /// system calls only, so it may be used in a forked process.
    pub fn install(&self) -> io::Result<OwnedFd> {
        let program = sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        let install = |flags: c_ulong| {
            // SAFETY: the program is valid during the call, which copies it. The new descriptor has no other owner.
            unsafe {
                let fd = libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program);
                if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as c_int)) }
            }
        };
        // Without it, only privileged processes may have filters.
        // SAFETY: it takes numbers only.
        if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // A signal must not interrupt a call that is being answered: it would be made, and answered, once more. Kernels before 5.19
        // cannot promise that.
        let usual = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        install(usual | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV).or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => install(usual),
            _ => Err(error),
        })
    }
}
