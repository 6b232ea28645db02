//! Checkpoints for C: regions of memory are protected once, and then dumped and restored whenever the program says so.

// C hands over pointers; what must hold of them is said at each function.
#![allow(unsafe_code)]
// Only C calls these: it cannot be told that they are unsafe.
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

/// The ranks of a communicator with their nodes' stores, and what each has protected. Used by one thread at a time.
pub struct Checkpoints {
    world: MpiWorld,
    store: Store,
    options: Options,
    regions: BTreeMap<u32, (*mut u8, usize)>,
}

fn there<'a>(checkpoints: *mut Checkpoints) -> Result<&'a mut Checkpoints> {
    // SAFETY: the caller gave null or what `terrace_dump_open` made, and uses it in one thread.
    unsafe { checkpoints.as_mut() }.ok_or_else(|| Error::Refused("the checkpoints are null".into()))
}

fn string<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(Error::Refused(format!("{what} is null")));
    }
    // SAFETY: the caller gave a string that ends with a NUL.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Error::Refused(format!("{what} is not UTF-8")))
}

/// Begins: `comm` is duplicated, `store` is the directory of this node's store, which `terrace init` has made. Ranks are on
/// one node where they have the same TERRACE_NODE in their environment, or none and share memory. Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_open(comm: MPI_Comm, store: *const c_char, opened: *mut *mut Checkpoints) -> DumpStatus {
    guard(|| {
        log::begin("terrace=warn");
        // SAFETY: the caller gave a communicator; what is made of it is ours.
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
        // SAFETY: it is not null, and the caller's.
        unsafe { opened.write(Box::into_raw(Box::new(checkpoints))) };
        Ok(())
    })
}

/// On how many nodes each chunk is to be, 1 to 16: 3 where this is not called. On all ranks the same.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_set_replicas(checkpoints: *mut Checkpoints, replicas: u32) -> DumpStatus {
    guard(|| {
        there(checkpoints)?.options.replicas = replicas;
        Ok(())
    })
}

/// How memory is cut: into pieces of `bytes` bytes, 4096 where this is not called; or, with `by_content`, at boundaries that
/// the content determines, about this number of bytes apart. The same on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_set_chunks(checkpoints: *mut Checkpoints, bytes: u32, by_content: bool) -> DumpStatus {
    guard(|| {
        let chunking = if by_content { Chunking::Content(bytes) } else { Chunking::Fixed(bytes) };
        chunking.check()?;
        there(checkpoints)?.options.chunking = chunking;
        Ok(())
    })
}

/// Protects a region of memory, under a number of the program's own; what that number stood for is protected no longer. The
/// memory must be there at each checkpoint and restart.
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

/// Protects a region no longer.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_unprotect(checkpoints: *mut Checkpoints, region: u32) -> DumpStatus {
    guard(|| {
        there(checkpoints)?.regions.remove(&region);
        Ok(())
    })
}

/// Dumps what is protected, as `version` of `name`: higher than all that there are, or -1 for the next; `made`, which may be
/// null, gets it. Collective. When it returns well, the checkpoint is durable.
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
        // SAFETY: the program has promised that its regions are there, and is waiting here meanwhile.
        let slice = |(start, length): &(*mut u8, usize)| match length {
            0 => &[],
            _ => unsafe { slice::from_raw_parts(*start, *length) },
        };
        let regions = regions.iter().map(|(number, region)| (*number, slice(region))).collect();
        let done = regions::checkpoint(&*world, store, name, &regions, &Options { version, ..*options })?;
        if !made.is_null() {
            // SAFETY: it is the caller's place for it.
            unsafe { made.write(done.version) };
        }
        Ok(())
    })
}

/// Fills what is protected with what it was at `version` of `name`, -1 for the newest; `restored`, which may be null, gets it.
/// Collective, with as many ranks and the same regions as there were. Where any rank fails no memory is changed.
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
        // SAFETY: the program has promised that its regions are there and apart, and is waiting here meanwhile.
        let slice = |(start, length): &(*mut u8, usize)| match length {
            0 => &mut [],
            _ => unsafe { slice::from_raw_parts_mut(*start, *length) },
        };
        let mut regions = regions.iter().map(|(number, region)| (*number, slice(region))).collect();
        let version = regions::restart(&*world, store, name, version, &mut regions, options.window)?;
        if !restored.is_null() {
            // SAFETY: it is the caller's place for it.
            unsafe { restored.write(version) };
        }
        Ok(())
    })
}

/// Ends, before MPI does. Collective. What was protected is the caller's, as ever. Null is let be.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_close(checkpoints: *mut Checkpoints) {
    if !checkpoints.is_null() {
        // SAFETY: it is what `terrace_dump_open` made, and closed once.
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
