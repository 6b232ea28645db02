//! Replaces the memory of a paused program by that of a checkpoint.

use std::ptr;

use terrace_dump::archive::Archive;
use terrace_dump::transport::{World, agree};
use terrace_dump::{Error, Options, Result, Wanted, restore_whole};
use terrace_dump_mpi::{MpiWorld, open_store};

use crate::areas::Areas;
use crate::calls::{given, requests, thread_keys};
use crate::checkpoint::describe;
use crate::heap::{self, PROGRAM_HEAP};
use crate::image::{ProcessDescription, decode_head};
use crate::ranges::{Addresses, to_pages, without};
use crate::stack::Paused;
use crate::{obstacles, settings, stack};

/// A program that a checkpoint has replaced.
pub struct Restarted {
    /// The version of the checkpoint.
    pub version: u32,
    /// Whether it came from the archive.
    pub is_archived: bool,
    /// The calls at which it had paused.
    pub calls: u64,
    /// Its registers.
    pub paused: Paused,
}

/// The image of a rank, and the segments' bytes.
struct MemoryImage {
    description: ProcessDescription,
    segments: Vec<(Addresses, Vec<u8>)>,
}

/// Replaces the program's memory by that of the newest version that is whole in the nodes' stores or the archive. Collective. If any rank fails,
/// no memory is changed.
///
/// # Errors
/// [`Error::NotFound`] if there is no dump of this name; [`Error::Refused`] if the ranks, the program or its place differ.
pub fn restart(world: &MpiWorld, name: &str, archive: Option<&Archive>) -> Result<Restarted> {
    let store = open_store(world, &agree(world, settings::store())?)?;
    let restored = restore_whole(world, &store, name, None, Wanted::Dealt, Options::default().window, archive)?;
    let (version, is_archived) = (restored.version, restored.is_archived);
    let areas = agree(world, Areas::find())?;
    requests::free_complete();
    let checked = obstacles::check()
        .and_then(|()| check_ranks(world, restored.ranks))
        .and_then(|()| take_image(restored.whole()?.remove(&world.rank()).unwrap_or_default()))
        .and_then(|image| check(&image, &describe(world.size(), &areas, 0, 0)?).map(|()| image));
    let image = agree(world, checked)?;
    let (end, now) = (image.description.heap_end, PROGRAM_HEAP.addresses().end);
    let room = match heap::reserve(now..end) {
        true => Ok(()),
        false => {
            Err(Error::Refused(format!("there is no memory for a heap up to {end:#x}; free some, and run it again")))
        }
    };
    agree(world, room)?;
    // SAFETY: the program waits and does not continue with its present state, and the checks have found everything in its place.
    unsafe { replace(&image, &areas) };
    heap::give_back(end..now);
    given::forget_variables();
    thread_keys::restore_values(&image.description.thread_values);
    let ProcessDescription { calls, paused, .. } = image.description;
    Ok(Restarted { version, is_archived, calls, paused: paused as Paused })
}

fn check_ranks(world: &MpiWorld, ranks: u32) -> Result<()> {
    match ranks == world.size() {
        true => Ok(()),
        false => Err(Error::Refused(format!(
            "{ranks} ranks made the checkpoint, and {} are here; run the program on {ranks} ranks",
            world.size()
        ))),
    }
}

/// Takes the buffers of a dump as an image.
fn take_image(buffers: Vec<Vec<u8>>) -> Result<MemoryImage> {
    let mut buffers = buffers.into_iter();
    let (description, segments) = decode_head(&buffers.next().unwrap_or_default())?;
    let segments: Vec<(Addresses, Vec<u8>)> = segments.into_iter().zip(buffers).collect();
    match segments.iter().all(|(addresses, bytes)| addresses.len() == bytes.len()) {
        true => Ok(MemoryImage { description, segments }),
        false => Err(Error::Damaged { what: "a checkpoint".into(), reason: "a segment has another length".into() }),
    }
}

/// Checks that the program is the one of the image, in the same place.
fn check(image: &MemoryImage, here: &ProcessDescription) -> Result<()> {
    let there = &image.description;
    let refuse = |reason: String| Err(Error::Refused(format!("the checkpoint does not fit this process: {reason}")));
    for (then, now) in there.objects.iter().zip(&here.objects) {
        if then.path != now.path || then.identity != now.identity {
            return refuse(format!(
                "it was made with {}, and {} is another file now; run what made it, or begin without --restart",
                then.path, now.path
            ));
        }
        if then.base != now.base {
            return refuse(format!(
                "{} was at {:#x}, and is at {:#x}; use the same `ulimit -s`, kernel and environment of the linker",
                then.path, then.base, now.base
            ));
        }
    }
    if there.objects.len() != here.objects.len()
        || (&there.variables, &there.thread_variables) != (&here.variables, &here.thread_variables)
    {
        return refuse("other libraries are loaded; use the same LD_PRELOAD and LD_LIBRARY_PATH".into());
    }
    // The program may have freed some of those that it makes before its first call.
    if !there.handles.iter().all(|handle| here.handles.contains(handle)) {
        return refuse(format!(
            "the program had made {} communicators, types or other things of MPI, and has made {} at its first call here, or MPI has placed \
             them elsewhere; make all before that call, keep them, and run it again",
            there.handles.len(),
            here.handles.len()
        ));
    }
    if !there.thread_values.iter().all(|(key, _)| here.thread_values.iter().any(|(other, _)| other == key)) {
        return refuse(
            "the program has other keys of pthread_key_create; make all before the first call here, and keep them"
                .into(),
        );
    }
    let (heap, stack) = (PROGRAM_HEAP.addresses().start..there.heap_end, stack::addresses());
    let areas = || here.variables.iter().chain(&here.thread_variables).chain([&heap, &stack]);
    let is_inside = |range: &Addresses| areas().any(|area| area.start <= range.start && range.end <= area.end);
    if let Some((segment, _)) = image.segments.iter().find(|(segment, _)| !is_inside(segment)) {
        return refuse(format!("the bytes from {:#x} on have no place; use the same `ulimit -s`", segment.start));
    }
    match stack.contains(&there.paused) && there.heap_end > heap.start {
        true => Ok(()),
        false => refuse("its registers are not on the stack".into()),
    }
}

/// Replaces the program's memory, all but the variables of other libraries in it.
///
/// # Safety
/// The program waits, and `check` has accepted the image. The heap is at least as long as the image's.
unsafe fn replace(image: &MemoryImage, areas: &Areas) {
    let kept_pages: Vec<Addresses> = areas.foreign.iter().map(to_pages).collect();
    let paged = areas.variables.iter().cloned().chain([PROGRAM_HEAP.addresses(), stack::addresses()]);
    for part in paged.flat_map(|area| without(&area, &kept_pages)) {
        // SAFETY: these pages are the program's alone.
        unsafe { heap::discard(part) };
    }
    for (segment, bytes) in &image.segments {
        for part in without(segment, &areas.foreign) {
            let from = &bytes[part.start - segment.start..][..part.len()];
            // SAFETY: the place is mapped, and the program's. The foreign variables among it stay, because MPI's own threads use them.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), part.start as *mut u8, part.len()) };
        }
    }
    // SAFETY: the functions that have begun on this stack are of Rust, which knows no guard, and of the C library, to which nothing returns:
    // the program ends the process.
    unsafe { stack::write_guard(image.description.stack_guard) };
}
