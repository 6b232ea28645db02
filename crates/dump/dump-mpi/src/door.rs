//! Checkpoints for C: a program protects regions of memory once, and then dumps and restores them at any time.

// C passes pointers; each function documents their requirements.
#![allow(unsafe_code)]
// Only C calls these functions, where `unsafe` has no meaning.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, c_char, c_void};
use std::num::NonZeroU32;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use mpi::ffi::MPI_Comm;
use rustix_futex_sync::Mutex;
use terrace::Store;
use terrace_dump::archive::{Archive, newest_version};
use terrace_dump::chunk::Chunking;
use terrace_dump::regions::{Protected, Restarted, Split};
use terrace_dump::transport::agree;
use terrace_dump::{Error, Options, Result, flow, regions};

use crate::copies::Copies;
use crate::failure::{DumpStatus, guard};
use crate::helper::{Helper, SharedWorld};
use crate::log;
use crate::world::{MpiWorld, duplicate, open_store};

/// The ranks of a communicator with their nodes' stores, and the protected regions of each rank. Only one thread may
/// use it at a time.
pub struct Checkpoints {
    /// Makes checkpoints in the background; `None` if MPI does not let it. Dropped first, since it uses the ranks.
    pub(crate) helper: Option<Helper>,
    pub(crate) world: Arc<SharedWorld>,
    pub(crate) store: Store,
    pub(crate) options: Options,
    pub(crate) flows_to: Option<FlowsTo>,
    /// The copies that checkpoints dump, at most as many as may be under way at once.
    pub(crate) copies: Arc<Copies>,
    pub(crate) regions: BTreeMap<u32, Protected<*mut [u8]>>,
    /// From where the last restart has taken its version.
    pub(crate) restarted: Option<Restarted>,
}

/// Where each version flows to.
#[derive(Clone)]
pub(crate) struct FlowsTo {
    pub(crate) archive: Arc<Archive>,
    /// The number of versions that stay there.
    keep: Option<NonZeroU32>,
}

impl FlowsTo {
    /// Lets a version flow there. Collective.
    pub(crate) fn take(&self, world: &MpiWorld, store: &Store, name: &str, version: u32, window: usize) -> Result<()> {
        let FlowsTo { archive, keep } = self;
        flow(world, store, name, Some(version), archive, *keep, window).map(drop)
    }
}

impl Checkpoints {
    /// Returns the options of the next checkpoint. Collective.
    pub(crate) fn options_of(
        world: &MpiWorld,
        options: Options,
        flows_to: Option<&FlowsTo>,
        name: &str,
        version: Option<u32>,
    ) -> Result<Options> {
        let after = newest_version(world, flows_to.map(|to| &*to.archive), name)?;
        Ok(Options { version, after, ..options })
    }

    /// Returns the protected memory.
    pub(crate) fn slices(&self) -> BTreeMap<u32, Protected<&[u8]>> {
        let slice = |region: &Protected<*mut [u8]>| Protected {
            split: region.split,
            // SAFETY: the program guarantees that its regions are valid, and waits meanwhile.
            bytes: unsafe { &*region.bytes },
        };
        self.regions.iter().map(|(number, region)| (*number, slice(region))).collect()
    }

    /// Waits until the helper does not use the ranks.
    pub(crate) fn pause(&self) {
        if let Some(helper) = &self.helper {
            helper.wait_for_room(1);
        }
    }
}

/// The addresses of the checkpoints that are open.
static OPEN_CHECKPOINTS: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// Returns the checkpoints of a caller.
pub(crate) fn there<'a>(checkpoints: *mut Checkpoints) -> Result<&'a mut Checkpoints> {
    if !OPEN_CHECKPOINTS.lock().contains(&(checkpoints as usize)) {
        return Err(Error::Refused("the checkpoints are null, or closed".into()));
    }
    // SAFETY: they are open, and the caller uses them in one thread.
    Ok(unsafe { &mut *checkpoints })
}

/// Gives the caller a value, unless the place for it is null.
pub(crate) fn give<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller passes null or a valid place for the value.
        unsafe { place.write(value) };
    }
}

/// Returns a caller's text.
pub(crate) fn string<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(Error::Refused(format!("{what} is null")));
    }
    // SAFETY: the caller passes a string that ends with a NUL.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Error::Refused(format!("{what} is not UTF-8")))
}

/// Checks that a caller's memory can be a slice.
pub(crate) fn check_memory(start: *const c_void, length: usize, what: &str) -> Result<()> {
    match isize::try_from(length) {
        Err(_) => Err(Error::Refused(format!("{length} bytes are more than any memory has; is the length negative?"))),
        Ok(1..) if start.is_null() => Err(Error::Refused(format!("{what} is null"))),
        Ok(_) => Ok(()),
    }
}

/// Opens checkpoints. `comm` is duplicated; `store` is the directory of this node's store, which `terrace init` has
/// made. {node} in it stands for TERRACE_NODE, or for the node's number. Ranks are on one node if they have the same
/// TERRACE_NODE in their environment, or none and share memory. Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_open(comm: MPI_Comm, store: *const c_char, opened: *mut *mut Checkpoints) -> DumpStatus {
    guard(|| {
        log::begin("terrace=warn");
        let world = MpiWorld::over(duplicate(comm))?;
        let place =
            if opened.is_null() { Err(Error::Refused("the place for the checkpoints is null".into())) } else { Ok(()) };
        let path = agree(&world, place.and_then(|()| string(store, "the store")))?;
        let store = open_store(&world, path)?;
        let helper = if world.has_threads() { Some(Helper::start()) } else { None };
        let helper = agree(&world, helper.transpose())?;
        let (world, options, regions) = (Arc::new(SharedWorld(world)), Options::default(), BTreeMap::new());
        let copies = Arc::default();
        let (flows_to, restarted) = (None, None);
        let checkpoints = Checkpoints { helper, world, store, options, flows_to, copies, regions, restarted };
        let checkpoints = Box::into_raw(Box::new(checkpoints));
        OPEN_CHECKPOINTS.lock().insert(checkpoints as usize);
        // SAFETY: the pointer is not null, and the caller passes a valid place.
        unsafe { opened.write(checkpoints) };
        Ok(())
    })
}

/// Sets the number of nodes that store each chunk: 1 to 16, by default 3. It must be the same on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_set_replicas(checkpoints: *mut Checkpoints, replicas: u32) -> DumpStatus {
    guard(|| {
        let checkpoints = there(checkpoints)?;
        let options = Options { replicas, ..checkpoints.options };
        options.check()?;
        checkpoints.options = options;
        Ok(())
    })
}

/// Sets how many of the newest versions stay: once a new version is durable, the older ones are dropped, and their space is free when the call
/// that made it returns; by default, or with 0, all stay. It must be the same on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_set_keep(checkpoints: *mut Checkpoints, keep: u32) -> DumpStatus {
    guard(|| {
        there(checkpoints)?.options.keep = NonZeroU32::new(keep);
        Ok(())
    })
}

/// Sets where each version flows to once it is durable in the nodes' stores: a directory, or `SERVICE://BUCKET/PATH`, that outlives the nodes; null
/// ends that. `keep` is the number of the newest versions that stay there; with 0, all do. A checkpoint returns before its version has
/// flowed, unless MPI lets only one thread call it: a thread continues, `terrace_dump_wait` waits for it and returns its failure, and the next
/// checkpoint waits for it, too. `terrace_dump_restart` takes from there what is not whole in the stores. It must be the same on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_set_flow(checkpoints: *mut Checkpoints, to: *const c_char, keep: u32) -> DumpStatus {
    guard(|| {
        let checkpoints = there(checkpoints)?;
        checkpoints.flows_to = match to.is_null() {
            true => None,
            false => {
                let archive = Archive::open(&checkpoints.store, string(to, "the place")?, &[])?;
                Some(FlowsTo { archive: Arc::new(archive), keep: NonZeroU32::new(keep) })
            }
        };
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
/// protected. The memory must be valid at each checkpoint and restart. The region is the rank's own: only as many ranks
/// as made a checkpoint can restart from it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_protect(
    checkpoints: *mut Checkpoints,
    region: u32,
    bytes: *mut c_void,
    length: usize,
) -> DumpStatus {
    protect(checkpoints, region, bytes, length, Split::Own)
}

/// Protects a region as `terrace_dump_protect` does, which has the same bytes on all ranks. Any number of ranks can restart
/// from it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_protect_same(
    checkpoints: *mut Checkpoints,
    region: u32,
    bytes: *mut c_void,
    length: usize,
) -> DumpStatus {
    protect(checkpoints, region, bytes, length, Split::Same)
}

/// Protects a region as `terrace_dump_protect` does, which is a part of an array that all ranks share under the number:
/// its bytes from `start` on. Any number of ranks can restart, each with any part of the array. If parts overlap, the
/// bytes are those of the part that begins first, unless all ranks have the parts that they had.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_protect_part(
    checkpoints: *mut Checkpoints,
    region: u32,
    bytes: *mut c_void,
    length: usize,
    start: u64,
) -> DumpStatus {
    protect(checkpoints, region, bytes, length, Split::Part { start })
}

fn protect(checkpoints: *mut Checkpoints, region: u32, bytes: *mut c_void, length: usize, split: Split) -> DumpStatus {
    guard(|| {
        check_memory(bytes, length, "the region")?;
        if let Split::Part { start } = split
            && start.checked_add(length as u64).is_none()
        {
            return Err(Error::Refused(format!(
                "no array has {length} bytes from byte {start} on; is a number negative?"
            )));
        }
        // A slice is never null, not even without bytes.
        let start = if length > 0 { bytes.cast() } else { NonNull::dangling().as_ptr() };
        let bytes = ptr::slice_from_raw_parts_mut(start, length);
        there(checkpoints)?.regions.insert(region, Protected { split, bytes });
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
        let checkpoints = there(checkpoints)?;
        checkpoints.pause();
        let (world, store): (&MpiWorld, _) = (&checkpoints.world, &checkpoints.store);
        let (name, version) = agree(world, string(name, "the name").and_then(|name| Ok((name, number(version)?))))?;
        let flows_to = checkpoints.flows_to.clone();
        let options = Checkpoints::options_of(world, checkpoints.options, flows_to.as_ref(), name, version)?;
        let version = regions::checkpoint(world, store, name, &checkpoints.slices(), &options)?.version;
        give(made, version);
        match (flows_to, &checkpoints.helper) {
            (Some(to), Some(helper)) => {
                let (world, store, name) = (checkpoints.world.clone(), store.clone(), name.to_owned());
                // The helper is idle, so this does not wait.
                helper.begin(checkpoints.copies.limit(), move || {
                    to.take(&world, &store, &name, version, options.window)?;
                    Ok(version)
                });
                Ok(())
            }
            (Some(to), None) => to.take(world, store, name, version, options.window),
            (None, _) => Ok(()),
        }
    })
}

/// Waits for checkpoints that have begun, and closes all; call it before MPI_Finalize. The regions still belong to the
/// program. Closing null, or what is closed, does nothing. Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_close(checkpoints: *mut Checkpoints) {
    if OPEN_CHECKPOINTS.lock().remove(&(checkpoints as usize)) {
        // SAFETY: `terrace_dump_open` has made it, and nobody else closes it.
        drop(unsafe { Box::from_raw(checkpoints) });
    }
}

/// Returns the version that a caller asks for; -1 leaves it open.
pub(crate) fn number(version: i64) -> Result<Option<u32>> {
    match u32::try_from(version) {
        Ok(version) => Ok(Some(version)),
        Err(_) if version == -1 => Ok(None),
        Err(_) => Err(Error::Refused(format!("{version} is not a version; versions are 0 to 4294967294"))),
    }
}
