//! Checkpoints for C: a program protects regions of memory once, and then dumps and restores them at any time.

// C passes pointers; each function documents their requirements.
#![allow(unsafe_code)]
// Only C calls these functions, where `unsafe` has no meaning.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::slice;

use mpi::ffi::{self, MPI_Comm};
use mpi::raw::FromRaw;
use mpi::topology::SimpleCommunicator;
use terrace::Store;
use terrace_dump::chunk::Chunking;
use terrace_dump::transport::agree;
use terrace_dump::{Error, Options, Result, regions};

use crate::failure::{DumpStatus, guard};
use crate::{MpiWorld, log};

/// The ranks of a communicator with their nodes' stores, and the protected regions of each rank. Only one thread may
/// use it at a time.
pub struct Checkpoints {
    world: MpiWorld,
    store: Store,
    options: Options,
    regions: BTreeMap<u32, (*mut u8, usize)>,
}

fn there<'a>(checkpoints: *mut Checkpoints) -> Result<&'a mut Checkpoints> {
    // SAFETY: the caller passes null or a result of `terrace_dump_open`, and uses it in one thread.
    unsafe { checkpoints.as_mut() }.ok_or_else(|| Error::Refused("the checkpoints are null".into()))
}

fn string<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(Error::Refused(format!("{what} is null")));
    }
    // SAFETY: the caller passes a string that ends with a NUL.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Error::Refused(format!("{what} is not UTF-8")))
}

/// Opens checkpoints. `comm` is duplicated; `store` is the directory of this node's store, which `terrace init` has
/// made. Ranks are on one node if they have the same TERRACE_NODE in their environment, or none and share memory.
/// Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_open(comm: MPI_Comm, store: *const c_char, opened: *mut *mut Checkpoints) -> DumpStatus {
    guard(|| {
        log::begin("terrace=warn");
        // SAFETY: the caller passes a communicator. Its duplicate belongs to us.
        let communicator = unsafe {
            let mut own = ffi::RSMPI_COMM_NULL;
            ffi::MPI_Comm_dup(comm, &mut own);
            SimpleCommunicator::from_raw(own)
        };
        let world = MpiWorld::over(communicator)?;
        let open = || {
            if opened.is_null() {
                return Err(Error::Refused("the place for the checkpoints is null".into()));
            }
            let store = string(store, "the store")?;
            Ok(Store::open(Path::new(OsStr::from_bytes(store.as_bytes())))?)
        };
        let store = agree(&world, open())?;
        let checkpoints = Checkpoints { world, store, options: Options::default(), regions: BTreeMap::new() };
        // SAFETY: the pointer is not null, and the caller passes a valid place.
        unsafe { opened.write(Box::into_raw(Box::new(checkpoints))) };
        Ok(())
    })
}

/// Sets the number of nodes that store each chunk: 1 to 16, by default 3. It must be the same on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_set_replicas(checkpoints: *mut Checkpoints, replicas: u32) -> DumpStatus {
    guard(|| {
        there(checkpoints)?.options.replicas = replicas;
        Ok(())
    })
}

/// Sets how memory is divided into chunks: into pieces of `bytes` bytes, by default 4096; or, with `by_content`, at
/// boundaries that the content determines, about `bytes` bytes apart. It must be the same on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_set_chunks(checkpoints: *mut Checkpoints, bytes: u32, by_content: bool) -> DumpStatus {
    guard(|| {
        let chunking = if by_content { Chunking::Content(bytes) } else { Chunking::Fixed(bytes) };
        chunking.check()?;
        there(checkpoints)?.options.chunking = chunking;
        Ok(())
    })
}

/// Protects a region of memory under a number that the program chooses. An earlier region of that number is no longer
/// protected. The memory must be valid at each checkpoint and restart.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_protect(
    checkpoints: *mut Checkpoints,
    region: u32,
    bytes: *mut c_void,
    length: usize,
) -> DumpStatus {
    guard(|| {
        if bytes.is_null() && length > 0 {
            return Err(Error::Refused("the region is null".into()));
        }
        there(checkpoints)?.regions.insert(region, (bytes.cast(), length));
        Ok(())
    })
}

/// Ends the protection of a region.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_unprotect(checkpoints: *mut Checkpoints, region: u32) -> DumpStatus {
    guard(|| {
        there(checkpoints)?.regions.remove(&region);
        Ok(())
    })
}

/// Dumps the protected regions as `version` of `name`, which must be higher than all existing versions; -1 means the
/// next one. `made` gets the version; it may be null. The checkpoint is durable when the call returns successfully.
/// Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_checkpoint(
    checkpoints: *mut Checkpoints,
    name: *const c_char,
    version: i64,
    made: *mut u32,
) -> DumpStatus {
    guard(|| {
        let Checkpoints { world, store, options, regions } = there(checkpoints)?;
        let (name, version) = agree(&*world, string(name, "the name").and_then(|name| Ok((name, number(version)?))))?;
        // SAFETY: the program guarantees that its regions are valid, and waits here meanwhile.
        let slice = |(start, length): &(*mut u8, usize)| match length {
            0 => &[],
            _ => unsafe { slice::from_raw_parts(*start, *length) },
        };
        let regions = regions.iter().map(|(number, region)| (*number, slice(region))).collect();
        let done = regions::checkpoint(&*world, store, name, &regions, &Options { version, ..*options })?;
        if !made.is_null() {
            // SAFETY: the caller passes a valid place.
            unsafe { made.write(done.version) };
        }
        Ok(())
    })
}

/// Restores the protected regions from `version` of `name`; -1 means the newest. `restored` gets the version; it may be
/// null. The number of ranks and the regions must be those of the dump. If any rank fails, no memory is changed.
/// Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_restart(
    checkpoints: *mut Checkpoints,
    name: *const c_char,
    version: i64,
    restored: *mut u32,
) -> DumpStatus {
    guard(|| {
        let Checkpoints { world, store, options, regions } = there(checkpoints)?;
        let (name, version) = agree(&*world, string(name, "the name").and_then(|name| Ok((name, number(version)?))))?;
        // SAFETY: the program guarantees that its regions are valid and do not overlap, and waits here meanwhile.
        let slice = |(start, length): &(*mut u8, usize)| match length {
            0 => &mut [],
            _ => unsafe { slice::from_raw_parts_mut(*start, *length) },
        };
        let mut regions = regions.iter().map(|(number, region)| (*number, slice(region))).collect();
        let version = regions::restart(&*world, store, name, version, &mut regions, options.window)?;
        if !restored.is_null() {
            // SAFETY: the caller passes a valid place.
            unsafe { restored.write(version) };
        }
        Ok(())
    })
}

/// Closes checkpoints; call it before MPI_Finalize. The regions still belong to the program. Closing null does nothing.
/// Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_close(checkpoints: *mut Checkpoints) {
    if !checkpoints.is_null() {
        // SAFETY: it is a result of `terrace_dump_open`, and is closed only once.
        drop(unsafe { Box::from_raw(checkpoints) });
    }
}

fn number(version: i64) -> Result<Option<u32>> {
    match u32::try_from(version) {
        Ok(version) => Ok(Some(version)),
        Err(_) if version == -1 => Ok(None),
        Err(_) => Err(Error::Refused(format!("{version} is not a version; versions are 0 to 4294967295"))),
    }
}
