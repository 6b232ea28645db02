//! One call that dumps a buffer of each rank.

// C passes pointers; the function documents their requirements.
#![allow(unsafe_code)]
// Only C calls it, where `unsafe` has no meaning.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

use std::ffi::c_void;
use std::slice;

use mpi::ffi::MPI_Comm;
use terrace_dump::transport::agree;
use terrace_dump::{Options, dump};

use crate::door::check_memory;
use crate::failure::{DumpStatus, guard};
use crate::log;
use crate::world::{MpiWorld, duplicate, open_store};

/// The name of a dump to which TERRACE_DUMP gives none.
const DEFAULT_DUMP_NAME: &str = "output";

/// Dumps a buffer of each rank, so that all of them can be restored after the loss of the stores of any `replicas` - 1
/// nodes: `terrace restore output FILES`. TERRACE_STORE names the directory of this node's store; {node} in it stands
/// for TERRACE_NODE, or for the node's number. TERRACE_DUMP names the dump, `output` by default; each call makes its next
/// version. The dump is durable when the call returns successfully. Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump(comm: MPI_Comm, buffer: *const c_void, length: usize, replicas: u32) -> DumpStatus {
    guard(|| {
        log::begin("terrace=warn");
        let world = MpiWorld::over(duplicate(comm))?;
        agree(&world, check_memory(buffer, length, "the buffer"))?;
        let bytes = match length {
            0 => &[][..],
            // SAFETY: the caller passes a pointer to this number of bytes, and waits here meanwhile.
            _ => unsafe { slice::from_raw_parts(buffer.cast::<u8>(), length) },
        };
        let store = open_store(&world, &std::env::var("TERRACE_STORE").unwrap_or_default())?;
        let name = std::env::var("TERRACE_DUMP").unwrap_or_else(|_| DEFAULT_DUMP_NAME.to_owned());
        dump(&world, &store, &name, &[bytes], &Options { replicas, ..Options::default() }).map(drop)
    })
}
