//! The descriptor on which the kernel asks, and takes answers.

// The kernel's structures are passed by pointers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libc::{Ioctl, seccomp_notif, seccomp_notif_addfd, seccomp_notif_resp};

/// The flag by which the kernel wakes the supervisor on the caller's own processor, since 6.6.
const SYNC_WAKE_UP_FLAG: u64 = 1;

/// An answer to a call.
pub enum CallReply {
    /// The kernel carries out the call.
    Continue,
    /// The call returns this.
    Value(i64),
    /// The call fails with this number.
    Failure(c_int),
    /// The call returns a new descriptor of this file, closed by `exec` if the flag says so.
    Descriptor(OwnedFd, bool),
}

/// The descriptor.
pub struct CallListener(OwnedFd);

impl AsFd for CallListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl CallListener {
    /// Takes over a descriptor that [`CallFilter::install`](crate::filter::CallFilter::install) has returned.
    pub fn new(fd: OwnedFd) -> CallListener {
        let listener = CallListener(fd);
        // Older kernels refuse: answers take longer then.
        let _ = listener.control(libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP_FLAG as usize as *mut c_void);
        listener
    }

    fn control(&self, request: Ioctl, argument: *mut c_void) -> io::Result<c_int> {
        // SAFETY: each caller passes what the request needs, valid during the call.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
    }

    /// Returns the next call. None if its process has ended meanwhile.
    pub fn receive(&self) -> io::Result<Option<seccomp_notif>> {
        // SAFETY: it consists of numbers, for which zero is valid. The kernel insists on zeros.
        let mut call: seccomp_notif = unsafe { std::mem::zeroed() };
        match self.control(libc::SECCOMP_IOCTL_NOTIF_RECV, (&raw mut call).cast()) {
            Ok(_) => Ok(Some(call)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether the call still waits. If not, its process may have ended, and its number be another one's.
    pub fn is_waiting(&self, call: &seccomp_notif) -> bool {
        let mut id = call.id;
        self.control(libc::SECCOMP_IOCTL_NOTIF_ID_VALID, (&raw mut id).cast()).is_ok()
    }

    /// Answers a call. An error means that nobody waits for the answer any more.
    pub fn answer(&self, call: &seccomp_notif, reply: CallReply) -> io::Result<()> {
        let mut answer = seccomp_notif_resp { id: call.id, val: 0, error: 0, flags: 0 };
        match reply {
            CallReply::Continue => answer.flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
            CallReply::Value(value) => answer.val = value,
            CallReply::Failure(number) => answer.error = -number,
            CallReply::Descriptor(fd, closes_on_exec) => {
                let given = match self.give(call, &fd, closes_on_exec, true) {
                    Ok(_) => return Ok(()),
                    // Kernels before 5.14 cannot do both at once.
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                        self.give(call, &fd, closes_on_exec, false)
                    }
                    Err(error) => Err(error),
                };
                match given {
                    Ok(fd) => answer.val = i64::from(fd),
                    // The caller may have too many descriptors.
                    Err(error) => answer.error = -error.raw_os_error().unwrap_or(libc::EIO),
                }
            }
        }
        self.control(libc::SECCOMP_IOCTL_NOTIF_SEND, (&raw mut answer).cast()).map(drop)
    }

    /// Gives the caller a descriptor. `answers`: the call returns it.
    fn give(&self, call: &seccomp_notif, fd: &OwnedFd, closes_on_exec: bool, answers: bool) -> io::Result<c_int> {
        let mut given = seccomp_notif_addfd {
            id: call.id,
            flags: if answers { libc::SECCOMP_ADDFD_FLAG_SEND as u32 } else { 0 },
            srcfd: fd.as_raw_fd() as u32,
            newfd: 0,
            newfd_flags: if closes_on_exec { libc::O_CLOEXEC as u32 } else { 0 },
        };
        self.control(libc::SECCOMP_IOCTL_NOTIF_ADDFD, (&raw mut given).cast())
    }
}
