//! The functions of a brain.

use std::ffi::{c_char, c_void};

use crate::brain::Brain;
use crate::encodings::check_length;
use crate::failure::{BrainStatus, Failure, guard};
use crate::outcome::{BrainOutcome, Reported};
use crate::piece::{BrainPiece, BrainPlanSize};
use crate::request::{BrainRequest, EMPTY_REQUEST};
use crate::storage::Storage;
use crate::target::{BrainTarget, DescribedTarget};
use terrace_foreign::Handles;
use terrace_foreign::{caller_buffer, caller_bytes, items, write_out, write_out_text};

/// The version of the structures. A program passes the one that it was compiled with.
pub const TERRACE_BRAIN_VERSION: u32 = 1;

static OPEN_BRAINS: Handles<Brain> = Handles::new("brain");

/// Makes a brain for targets, and `brain` gets it. `version` is `TERRACE_BRAIN_VERSION`. `terrace_brain_close` frees it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_create(
    version: u32,
    targets: *const BrainTarget,
    count: usize,
    brain: *mut *mut Brain,
) -> BrainStatus {
    guard(|| {
        if version != TERRACE_BRAIN_VERSION {
            let reason = format!("version {version} of terrace_brain.h, and the library is of {TERRACE_BRAIN_VERSION}");
            return Err(Failure::Invalid(format!("the program was compiled with {reason}; compile it again")));
        }
        if brain.is_null() {
            return Err(Failure::Invalid("the place for the brain is null".into()));
        }
        let targets = items(targets, count, "the targets")?;
        if targets.is_empty() {
            return Err(Failure::Invalid("no targets; describe at least one".into()));
        }
        let described = targets.iter().enumerate().map(|(number, target)| DescribedTarget::new(target, number));
        let described = described.collect::<Result<Vec<_>, _>>()?;
        write_out(brain, OPEN_BRAINS.keep(Brain::new(Storage::new(&described)?)));
        Ok(())
    })
}

/// Closes a brain. What it has learned is lost, unless it was saved.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_close(brain: *mut Brain) -> BrainStatus {
    guard(|| {
        OPEN_BRAINS.take(brain)?;
        Ok(())
    })
}

/// Tells the free bytes of a target, its load (the operations that wait there, for each lane), and whether it accepts writes. A host calls it after
/// it has deleted bytes, and from time to time. The brain itself counts only the writes that are reported to it.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_update(
    brain: *const Brain,
    target: usize,
    free: u64,
    load: f64,
    is_up: u8,
) -> BrainStatus {
    guard(|| OPEN_BRAINS.find(brain)?.update(target, free, load, is_up != 0))
}

/// Plans the replicas of at most one gibibyte. Plans are best for blocks of up to 1 MiB, because the parts of a file differ. `request` may be null.
/// The bytes are measured, as far as that costs little beside moving them.
///
/// `pieces` has room for `capacity` pieces, and gets those of the plan, replica after replica. `size`, unless it is null, gets their number and more.
/// If there are more than `capacity`, the call returns `TERRACE_BRAIN_STATUS_TOO_SHORT`, and `size` tells how many.
///
/// If `json` is not null, it gets the reasons: the alternatives on each tier with their costs, and each decision between requirements; also if the
/// call returns `TERRACE_BRAIN_STATUS_NO_SPACE` or `_TOO_SHORT`. It gets null if the call fails otherwise. The caller passes the text to
/// `terrace_brain_free`. A plan reserves no space: it is taken when the pieces are reported.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_plan(
    brain: *const Brain,
    request: *const BrainRequest,
    bytes: *const c_void,
    length: usize,
    pieces: *mut BrainPiece,
    capacity: usize,
    size: *mut BrainPlanSize,
    json: *mut *mut c_char,
) -> BrainStatus {
    guard(|| {
        write_out(json, std::ptr::null_mut());
        write_out(size, BrainPlanSize::default());
        let brain = OPEN_BRAINS.find(brain)?;
        let raw = caller_bytes(bytes, length)?;
        check_length(length)?;
        if pieces.is_null() && capacity > 0 {
            return Err(Failure::Invalid("the pieces are null".into()));
        }
        let request = if request.is_null() { &EMPTY_REQUEST } else { &items(request, 1, "the request")?[0] };
        let (answer, why) = brain.plan(request, raw, !json.is_null())?;
        if let Some(why) = why {
            let text = serde_json::to_string(&why).map_err(|error| Failure::Internal(error.to_string()))?;
            write_out_text(json, text)?;
        }
        let answer = answer?;
        write_out(size, answer.size);
        let need = answer.pieces.len();
        if need > capacity {
            return Err(Failure::TooShort { what: "pieces", need, have: capacity });
        }
        // SAFETY: the caller's array has room for `capacity` pieces, which are at least as many.
        (0..).zip(answer.pieces).for_each(|(at, piece)| unsafe { pieces.add(at).write_unaligned(piece) });
        Ok(())
    })
}

/// Tells how writing or reading a piece went. The brain learns how well the encoding works on such bytes, and how fast the tier is.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_report(brain: *const Brain, outcome: *const BrainOutcome) -> BrainStatus {
    guard(|| {
        let brain = OPEN_BRAINS.find(brain)?;
        brain.report(&Reported::new(&items(outcome, 1, "the outcome")?[0])?)
    })
}

/// Writes what was learned into `out`, for `terrace_brain_load`; `made` gets the number of bytes. If `capacity` is too small, the call returns
/// `TERRACE_BRAIN_STATUS_TOO_SHORT`, and `made` gets the needed capacity. It grows while other threads plan.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_save(
    brain: *const Brain,
    out: *mut c_void,
    capacity: usize,
    made: *mut usize,
) -> BrainStatus {
    guard(|| {
        let brain = OPEN_BRAINS.find(brain)?;
        let out = caller_buffer(out, capacity)?;
        let saved = brain.save()?;
        let (need, have) = (saved.len(), out.len());
        write_out(made, need);
        out.get_mut(..need).ok_or(Failure::TooShort { what: "bytes", need, have })?.copy_from_slice(&saved);
        Ok(())
    })
}

/// Replaces what was learned by what `terrace_brain_save` wrote, also on another machine. Speeds of tiers are taken for those of the same name; free
/// bytes stay. Damaged bytes are an error, and change nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_load(brain: *const Brain, bytes: *const c_void, length: usize) -> BrainStatus {
    guard(|| OPEN_BRAINS.find(brain)?.load(caller_bytes(bytes, length)?))
}

/// Describes a brain as JSON: the tiers with their learned speeds, the targets, the number of plans, and for each encoding how good the predictions
/// were. The caller passes the text to `terrace_brain_free`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_describe(brain: *const Brain, json: *mut *mut c_char) -> BrainStatus {
    guard(|| Ok(write_out_text(json, OPEN_BRAINS.find(brain)?.describe().to_string())?))
}

/// Frees a text that a call made. Freeing null does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_brain_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller passes a text that `write_out_text` made, once.
        drop(unsafe { std::ffi::CString::from_raw(text) });
    }
}

/// Returns the brain of a handle. For tests.
#[doc(hidden)]
pub fn find_brain(brain: *const Brain) -> Option<std::sync::Arc<Brain>> {
    OPEN_BRAINS.find(brain).ok()
}
