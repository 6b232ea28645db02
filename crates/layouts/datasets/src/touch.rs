//! Finds the parts of files that a request touches, and merges near parts as long as the read amplification stays
//! bounded.

use std::cell::Cell;
use std::ops::Range;

use terrace_views::convert::{Gathered, Plan, Touched};

use crate::Result;
use crate::attempt::Attempt;

/// Reads of a file that are less than this apart are merged: the store verifies checksums of chunks of this size, so
/// the bytes between cost little.
pub const READ_GAP_BYTES: u64 = 64 << 10;
/// A request is gathered in pieces of this size, which bounds its memory.
pub const GATHER_PIECE_BYTES: u64 = 1 << 20;

/// A request may touch at most this many bytes of files per requested byte.
const MAX_READ_AMPLIFICATION: u64 = 64;
/// A request may always touch this many bytes, however short it is.
const MIN_TOUCH_LIMIT_BYTES: u64 = 64 << 10;

/// Returns the parts of files that `length` bytes from `offset` on touch. Parts less than `gap` bytes apart are merged
/// where the bytes between them cost little.
pub fn find_touched_parts(plan: &Plan, offset: u64, length: u64, gap: u64) -> Result<Vec<Touched>> {
    let mut parts = Vec::new();
    collect_parts(plan, offset, length, gap, &mut parts)?;
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

fn collect_parts(plan: &Plan, offset: u64, length: u64, gap: u64, parts: &mut Vec<Touched>) -> Result<()> {
    for gap in [gap, 0] {
        let found = plan.touches(offset, length, gap)?;
        let bytes = found.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes.end - part.bytes.start));
        if bytes <= length.saturating_mul(MAX_READ_AMPLIFICATION).max(MIN_TOUCH_LIMIT_BYTES) || length < 2 {
            parts.extend(found);
            return Ok(());
        }
    }
    let half = length / 2;
    collect_parts(plan, offset, half, gap, parts)?;
    collect_parts(plan, offset + half, length - half, gap, parts)
}

/// The store fetches and verifies chunks of this size.
const FETCHED_CHUNK_BYTES: u64 = 64 << 10;

/// Returns what the store fetches for parts of files, which are in order: whole chunks, none of them twice. `length_of` returns the length of
/// a file.
pub fn fetched_ranges(parts: &[Touched], length_of: impl Fn(usize) -> u64) -> Vec<(usize, Range<u64>)> {
    let mut ranges: Vec<(usize, Range<u64>)> = Vec::with_capacity(parts.len());
    for Touched { file, bytes, .. } in parts.iter().filter(|part| !part.bytes.is_empty()) {
        let start = bytes.start / FETCHED_CHUNK_BYTES * FETCHED_CHUNK_BYTES;
        let end = bytes.end.next_multiple_of(FETCHED_CHUNK_BYTES).min(length_of(*file).max(bytes.end));
        match ranges.last_mut() {
            Some((last, range)) if last == file && start <= range.end => range.end = range.end.max(end),
            _ => ranges.push((*file, start..end)),
        }
    }
    ranges
}

/// A thread keeps its gather buffer up to this size, because allocating fresh memory costs more than filling it.
const MAX_KEPT_MEMORY_BYTES: usize = 16 << 20;

/// Calls `run` with a buffer for the parts that a request touches. The buffer holds bytes of earlier requests: `run`
/// must fill or write every part before it reads it.
pub fn with_gather_buffer<T>(
    plan: &Plan,
    offset: u64,
    length: u64,
    gap: u64,
    run: impl FnOnce(&mut Gathered) -> Attempt<T>,
) -> Attempt<T> {
    thread_local! {
        static GATHER_MEMORY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    }
    let mut parts = Gathered::within(find_touched_parts(plan, offset, length, gap)?, GATHER_MEMORY.take());
    let done = run(&mut parts);
    let memory = parts.into_memory();
    if memory.capacity() <= MAX_KEPT_MEMORY_BYTES {
        GATHER_MEMORY.set(memory);
    }
    done
}
