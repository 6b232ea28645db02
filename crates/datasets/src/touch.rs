//! Which parts of files a request touches, joined where they are near, and never much more than that.

use terrace_views::convert::{Gathered, Plan, Touched};

use crate::Result;

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

/// Room for what is touched.
pub fn gathered(plan: &Plan, offset: u64, length: u64, gap: u64) -> Result<Gathered> {
    Ok(Gathered::new(touched(plan, offset, length, gap)?))
}
