//! Dumps the memory of a paused program.

use std::fs;

use terrace::Store;
use terrace_dump::transport::{World, agree};
use terrace_dump::{Dumped, Error, Options, Result, dump};
use terrace_dump_mpi::MpiWorld;

use crate::areas::Areas;
use crate::calls::thread_keys;
use crate::heap::PROGRAM_HEAP;
use crate::image::{PlacedObject, ProcessDescription, encode_head};
use crate::ranges::Addresses;
use crate::resident::find_runs;
use crate::stack::Paused;
use crate::{binaries, handles, objects, obstacles, stack};

/// Dumps the program's memory into the node's store. Collective. The dump takes the pages from where they are: the program waits meanwhile.
pub fn make(
    world: &MpiWorld,
    store: &Store,
    name: &str,
    paused: Paused,
    calls: u64,
    options: &Options,
) -> Result<Dumped> {
    let prepared = obstacles::check()
        .and_then(|()| obstacles::check_stack(paused))
        .and_then(|()| prepare(world.size(), paused, calls));
    let (head, segments) = agree(world, prepared)?;
    // SAFETY: the segments are mapped and readable, and the program, which alone changes and unmaps them, waits.
    let bytes = |segment: &Addresses| unsafe { std::slice::from_raw_parts(segment.start as *const u8, segment.len()) };
    let buffers: Vec<&[u8]> = std::iter::once(&head[..]).chain(segments.iter().map(bytes)).collect();
    dump(world, store, name, &buffers, options)
}

/// Returns the headers and the segments of the program's image.
fn prepare(ranks: u32, paused: Paused, calls: u64) -> Result<(Vec<u8>, Vec<Addresses>)> {
    let areas = Areas::find()?;
    let paged = areas.variables.iter().cloned().chain([PROGRAM_HEAP.addresses(), stack::used_part(paused)]);
    let mut segments: Vec<Addresses> = areas.thread_variables.clone();
    for area in paged {
        segments.extend(find_runs(&area)?);
    }
    segments.sort_by_key(|segment| segment.start);
    let auxiliary = fs::read("/proc/self/auxv").map_err(|error| Error::Refused(format!("reading auxv: {error}")))?;
    let head = encode_head(&describe(ranks, &areas, paused as usize, calls)?, &segments, &auxiliary)?;
    Ok((head, segments))
}

/// Describes this process, as a restart compares it.
pub fn describe(ranks: u32, areas: &Areas, paused: usize, calls: u64) -> Result<ProcessDescription> {
    let place = |object: &objects::LoadedObject| {
        let path = object.path.to_string_lossy().into_owned();
        Ok(PlacedObject { path, base: object.base, identity: binaries::identify(&object.path)? })
    };
    Ok(ProcessDescription {
        ranks,
        calls,
        objects: objects::get()?.iter().map(place).collect::<Result<_>>()?,
        variables: areas.variables.clone(),
        thread_variables: areas.thread_variables.clone(),
        handles: handles::list(),
        thread_values: thread_keys::list_values(),
        heap_end: PROGRAM_HEAP.addresses().end,
        paused,
        stack_guard: stack::read_guard(),
    })
}
