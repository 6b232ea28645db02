//! Checkpoints for C that are made while the program continues.

// Only C calls these functions, where `unsafe` has no meaning.
#![allow(clippy::not_unsafe_ptr_arg_deref)]
// The functions have names that C can call.
#![allow(unsafe_code)]

use std::ffi::c_char;
use std::sync::Arc;
use std::{mem, thread};

use terrace_dump::regions::Protected;
use terrace_dump::transport::agree;
use terrace_dump::{Error, Result, regions};

use crate::copies::Copies;
use crate::door::{Checkpoints, give, number, string, there};
use crate::failure::{DumpStatus, guard};

/// The greatest number of checkpoints that may be under way at once.
const MAX_CHECKPOINTS_UNDER_WAY: u32 = 16;

/// Sets how many checkpoints that `terrace_dump_begin` has begun may be under way at once, 1 to 16; by default 1. Each
/// takes memory for a copy of the protected regions, which later ones use again until `terrace_dump_close`. It must be the same
/// on all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_set_limit(checkpoints: *mut Checkpoints, limit: u32) -> DumpStatus {
    guard(|| {
        if !(1..=MAX_CHECKPOINTS_UNDER_WAY).contains(&limit) {
            return Err(Error::Refused(format!(
                "{limit} checkpoints at once; choose 1 to {MAX_CHECKPOINTS_UNDER_WAY}"
            )));
        }
        there(checkpoints)?.copies.set_limit(limit as usize);
        Ok(())
    })
}

/// Makes memory for the copies of `terrace_dump_begin` ready, in a thread, as large as the regions that are protected now: without
/// it, the first checkpoints wait until the system gives their memory, which takes longer than the copy. It takes memory until there are
/// as many copies as checkpoints may be under way, those of such checkpoints among them, and until `terrace_dump_close`; a checkpoint that begins
/// meanwhile may wait for it. Too little memory is no failure here.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_prepare(checkpoints: *mut Checkpoints) -> DumpStatus {
    guard(|| {
        let checkpoints = there(checkpoints)?;
        let length = |region: &Protected<*mut [u8]>| Protected { split: region.split, bytes: region.bytes.len() };
        let lengths = checkpoints.regions.iter().map(|(number, region)| (*number, length(region))).collect();
        let copies = Arc::downgrade(&checkpoints.copies);
        // Without a thread, the checkpoints take their memory themselves.
        let prepare = move || Copies::prepare(&copies, || regions::prepare_copy(&lengths));
        let begun = thread::Builder::new().name("terrace-prepare".into()).spawn(prepare);
        begun.map(drop).or_else(|error| {
            tracing::debug!("no thread prepares memory: {error}");
            Ok(())
        })
    })
}

/// Begins a checkpoint, and returns once the protected regions are copied: the program may change them while a thread
/// dumps the copy as `terrace_dump_checkpoint` does. While too many checkpoints are under way, it first waits for the
/// oldest one. `terrace_dump_wait` tells whether it succeeded; if not, the ones before are still there. MPI must have been
/// initialized with MPI_THREAD_MULTIPLE. All ranks begin the same checkpoints in the same order.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_begin(checkpoints: *mut Checkpoints, name: *const c_char, version: i64) -> DumpStatus {
    guard(|| {
        let checkpoints = there(checkpoints)?;
        let helper = checkpoints.helper.as_ref().ok_or_else(|| {
            let reason = "MPI lets only one thread of the program call it; initialize it by MPI_Init_thread with \
                          MPI_THREAD_MULTIPLE, or use terrace_dump_checkpoint";
            Error::Refused(reason.into())
        })?;
        let copies = checkpoints.copies.clone();
        let limit = copies.limit();
        // Before the copy: otherwise it could wait for the copies that checkpoints have.
        helper.wait_for_room(limit);
        let copy = || -> Result<_> {
            let (name, version) = (string(name, "the name")?.to_owned(), number(version)?);
            let mut copy = copies.take();
            copy.regions = regions::copy(&checkpoints.slices(), mem::take(&mut copy.regions))?;
            Ok((name, version, copy))
        };
        let copied = copy();
        let (world, store, options) = (checkpoints.world.clone(), checkpoints.store.clone(), checkpoints.options);
        let flows_to = checkpoints.flows_to.clone();
        helper.begin(limit, move || {
            // A rank that could not copy says so here, where all ranks meet.
            let (name, version, copy) = agree(&**world, copied)?;
            let options = Checkpoints::options_of(&world, options, flows_to.as_ref(), &name, version)?;
            let made = regions::checkpoint(&**world, &store, &name, &regions::borrow(&copy.regions), &options);
            // Before the version flows, which may take long.
            drop(copy);
            let version = made?.version;
            if let Some(to) = flows_to {
                to.take(&world, &store, &name, version, options.window)?;
            }
            Ok(version)
        });
        Ok(())
    })
}

/// Waits until all checkpoints that have begun have ended. `made` gets the newest version that was made, or -1; it may be
/// null. If one failed, the call returns its failure, `made` gets -1, and a second wait tells of the others. Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_wait(checkpoints: *mut Checkpoints, made: *mut i64) -> DumpStatus {
    guard(|| there(checkpoints)?.tell_newest(made))
}

/// Returns at once. `ended` gets whether all checkpoints that have begun have ended on this rank; if so, the call is
/// `terrace_dump_wait`. Another rank may get another answer at the same time.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_test(checkpoints: *mut Checkpoints, ended: *mut bool, made: *mut i64) -> DumpStatus {
    guard(|| {
        let checkpoints = there(checkpoints)?;
        let idle = checkpoints.helper.as_ref().is_none_or(|helper| helper.is_idle());
        give(ended, idle);
        give(made, -1);
        if idle { checkpoints.tell_newest(made) } else { Ok(()) }
    })
}

impl Checkpoints {
    /// Waits for all checkpoints, and gives the caller the newest version, or -1.
    fn tell_newest(&self, made: *mut i64) -> Result<()> {
        give(made, -1);
        if let Some(version) = self.helper.as_ref().map_or(Ok(None), |helper| helper.wait())? {
            give(made, i64::from(version));
        }
        Ok(())
    }
}
