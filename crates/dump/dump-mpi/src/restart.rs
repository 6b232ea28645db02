//! Restarts for C.

// C passes pointers; each function documents their requirements.
#![allow(unsafe_code)]
// Only C calls these functions, where `unsafe` has no meaning.
#![allow(clippy::not_unsafe_ptr_arg_deref)]

use std::ffi::c_char;

use terrace_dump::regions::Protected;
use terrace_dump::transport::agree;
use terrace_dump::{Error, regions};

use crate::door::{Checkpoints, give, number, string, there};
use crate::failure::{DumpStatus, guard};
use crate::world::MpiWorld;

/// Restores the protected regions from `version` of `name`; -1 means the newest one that is whole. `restored` gets the version; it may
/// be null. The regions must be those of the dump. Another number of ranks may restart if all regions are parts, or the
/// same on all ranks. If any rank fails, no memory is changed. Collective.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_restart(
    checkpoints: *mut Checkpoints,
    name: *const c_char,
    version: i64,
    restored: *mut u32,
) -> DumpStatus {
    guard(|| {
        let checkpoints = there(checkpoints)?;
        checkpoints.restarted = None;
        checkpoints.pause();
        let (world, store): (&MpiWorld, _) = (&checkpoints.world, &checkpoints.store);
        let (name, version) = agree(world, string(name, "the name").and_then(|name| Ok((name, number(version)?))))?;
        let slice = |region: &Protected<*mut [u8]>| Protected {
            split: region.split,
            // SAFETY: the program guarantees that its regions are valid and do not overlap, and waits here meanwhile.
            bytes: unsafe { &mut *region.bytes },
        };
        let mut regions = checkpoints.regions.iter().map(|(number, region)| (*number, slice(region))).collect();
        let (window, archive) = (checkpoints.options.window, checkpoints.flows_to.as_ref().map(|to| &*to.archive));
        let restarted = regions::restart(world, store, name, version, &mut regions, window, archive)?;
        give(restored, restarted.version);
        checkpoints.restarted = Some(restarted);
        Ok(())
    })
}

/// Tells from where the last `terrace_dump_restart` has taken its version: `archived` gets true if it came from the place of
/// `terrace_dump_set_flow`, and false if it came from the nodes' stores. `TERRACE_DUMP_STATUS_INVALID` if no restart was made, or
/// the last one failed. All ranks get the same answer.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_dump_is_archived(checkpoints: *mut Checkpoints, archived: *mut bool) -> DumpStatus {
    guard(|| {
        let restarted = there(checkpoints)?.restarted.ok_or_else(|| {
            Error::Refused("no restart has succeeded, so there is no place to tell; restart first".into())
        })?;
        give(archived, restarted.is_archived);
        Ok(())
    })
}
