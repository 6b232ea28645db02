//! One-sided puts, which rsmpi exposes only as MPI's own functions.

// MPI takes pointers; the comment at each call says why they are valid.
#![allow(unsafe_code)]

use std::ffi::c_int;

use mpi::collective::SystemOperation;
use mpi::ffi;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{AsRaw, CommunicatorCollectives, Equivalence};
use terrace_dump::transport::Window;
use terrace_dump::{Error, Result};

/// A window of each rank's memory.
pub struct MpiWindow<'b> {
    window: ffi::MPI_Win,
    /// A raw pointer, since other ranks write to the memory.
    memory: *mut [u8],
    _world: &'b SimpleCommunicator,
}

impl<'b> MpiWindow<'b> {
    /// Opens the window. Collective.
    pub fn open(world: &'b SimpleCommunicator, bytes: usize) -> Result<MpiWindow<'b>> {
        // MPI needs a real address, which an empty allocation lacks.
        let memory = Box::into_raw(vec![0; bytes.max(1)].into_boxed_slice());
        // SAFETY: `drop` frees the window before its memory, so the memory outlives the window.
        let (made, window) = unsafe {
            let (mut window, info) = (ffi::RSMPI_WIN_NULL, ffi::RSMPI_INFO_NULL);
            let size = bytes as ffi::MPI_Aint;
            (ffi::MPI_Win_create(memory.cast(), size, 1, info, world.as_raw(), &mut window), window)
        };
        // If opening fails, leak the memory: MPI may have registered it.
        good(made, "opening a window")?;
        let mut window = MpiWindow { window, memory, _world: world };
        window.fence()?;
        Ok(window)
    }
}

/// Tries whether MPI makes windows: without a copy between processes, as in many containers, OpenMPI 4 does not. Collective.
pub fn can_open(world: &SimpleCommunicator) -> bool {
    // SAFETY: the communicator is this library's own, and nobody else uses it meanwhile. The window has no memory.
    unsafe {
        ffi::MPI_Comm_set_errhandler(world.as_raw(), ffi::RSMPI_ERRORS_RETURN);
        let (mut window, info) = (ffi::RSMPI_WIN_NULL, ffi::RSMPI_INFO_NULL);
        let made = ffi::MPI_Win_create(std::ptr::null_mut(), 0, 1, info, world.as_raw(), &mut window);
        ffi::MPI_Comm_set_errhandler(world.as_raw(), ffi::RSMPI_ERRORS_ARE_FATAL);
        let (is_made, mut are_made) = (made as u32 == ffi::MPI_SUCCESS, false);
        world.all_reduce_into(&is_made, &mut are_made, SystemOperation::logical_and());
        // All ranks together free a window. One that others lack stays.
        if are_made {
            ffi::MPI_Win_free(&mut window);
        }
        are_made
    }
}

impl<'b> Window<'b> for MpiWindow<'b> {
    fn put(&mut self, to: u32, offset: usize, bytes: &'b [u8]) -> Result<()> {
        let kind = u8::equivalent_datatype();
        // MPI counts are limited. A chunk never exceeds the limit, but the head of a letter may.
        for (i, piece) in bytes.chunks(1 << 30).enumerate() {
            let (count, at) = (piece.len() as c_int, (offset + (i << 30)) as ffi::MPI_Aint);
            // SAFETY: the bytes outlive the window, so they are there until the fence that ends the put.
            let put = unsafe {
                let (from, kind) = (piece.as_ptr().cast(), kind.as_raw());
                ffi::MPI_Put(from, count, kind, to as c_int, at, count, kind, self.window)
            };
            good(put, "putting")?;
        }
        Ok(())
    }

    fn fence(&mut self) -> Result<()> {
        // SAFETY: the window is open.
        good(unsafe { ffi::MPI_Win_fence(0, self.window) }, "waiting for what was put")
    }

    fn read(&self, sink: &mut dyn FnMut(&[u8])) {
        // SAFETY: no rank puts here between the fence and the next one's puts; callers of `read` ensure it.
        sink(unsafe { &*self.memory });
    }
}

impl Drop for MpiWindow<'_> {
    fn drop(&mut self) {
        // SAFETY: this is the only place that frees the window. Its memory is freed afterwards, and only the window
        // pointed to it.
        unsafe {
            ffi::MPI_Win_free(&mut self.window);
            drop(Box::from_raw(self.memory));
        }
    }
}

fn good(code: c_int, what: &'static str) -> Result<()> {
    match code as u32 {
        ffi::MPI_SUCCESS => Ok(()),
        code => Err(Error::Transport { what, reason: format!("MPI's error {code}") }),
    }
}
