//! Which parts of files a request touches, joined where they are near, and never much more than that.

use std::cell::Cell;

use terrace_views::convert::{Gathered, Plan, Touched};

use crate::Result;
use crate::read::Attempt;

/// More bytes than this for one byte of the request are too many.
const TIMES: u64 = 64;
const ALWAYS: u64 = 64 << 10;

/// The parts of files that `length` bytes from `offset` on touch; those less than `gap` bytes apart are one where that costs
/// little.
pub fn touched(plan: &Plan, offset: u64, length: u64, gap: u64) -> Result<Vec<Touched>> {
    let mut parts = Vec::new();
    collect(plan, offset, length, gap, &mut parts)?;
    parts.sort_unstable_by_key(|part| (part.file, part.bytes.start));
    let mut joined: Vec<Touched> = Vec::with_capacity(parts.len());
    for part in parts {
        match joined.last_mut() {
            Some(last) if last.file == part.file && part.bytes.start <= last.bytes.end => {
                last.whole &= part.whole;
                last.bytes.end = last.bytes.end.max(part.bytes.end);
            }
            _ => joined.push(part),
        }
    }
    Ok(joined)
}

fn collect(plan: &Plan, offset: u64, length: u64, gap: u64, parts: &mut Vec<Touched>) -> Result<()> {
    for gap in [gap, 0] {
        let found = plan.touches(offset, length, gap)?;
        let bytes = found.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes.end - part.bytes.start));
        if bytes <= length.saturating_mul(TIMES).max(ALWAYS) || length < 2 {
            parts.extend(found);
            return Ok(());
        }
    }
    let half = length / 2;
    collect(plan, offset, half, gap, parts)?;
    collect(plan, offset + half, length - half, gap, parts)
}

/// Memory that a thread keeps: new memory costs more to have than to fill.
const KEPT: usize = 16 << 20;

/// Does something with room for what is touched. All of a part is to be filled, or written to, before it is looked at.
pub fn with_gathered<T>(
    plan: &Plan,
    offset: u64,
    length: u64,
    gap: u64,
    run: impl FnOnce(&mut Gathered) -> Attempt<T>,
) -> Attempt<T> {
    thread_local! {
        static MEMORY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    let mut parts = Gathered::within(touched(plan, offset, length, gap)?, MEMORY.take());
    let done = run(&mut parts);
    let memory = parts.into_memory();
    if memory.capacity() <= KEPT {
        MEMORY.set(memory);
    }
    done
}
