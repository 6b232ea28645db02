//! The pages of an area that hold something of the program's.

use std::fs::File;
use std::os::unix::fs::FileExt;

use terrace_dump::{Error, Result};

use crate::ranges::{Addresses, PAGE_BYTES};

/// The bits of a page in `/proc/self/pagemap`.
const PRESENT_BIT: u64 = 1 << 63;
const SWAPPED_BIT: u64 = 1 << 62;
/// The page is still that of the file.
const FILE_PAGE_BIT: u64 = 1 << 61;

/// Each page has a word in the file.
const ENTRY_BYTES: usize = 8;
/// The file is read in pieces, so that a large area takes little memory.
const ENTRIES_PER_READ: usize = 8192;

/// Absent pages between resident ones count as resident up to this number of pages, so that an image has fewer parts. They are zeros, which
/// are stored once.
const MAX_BRIDGED_PAGES: usize = 16;

/// Returns the runs of resident pages of an area, which begins and ends with a page. Pages that were never written are in no run.
pub fn find_runs(area: &Addresses) -> Result<Vec<Addresses>> {
    let failed = |error| Error::Refused(format!("reading /proc/self/pagemap: {error}; the kernel must offer it"));
    let map = File::open("/proc/self/pagemap").map_err(failed)?;
    let mut runs: Vec<Addresses> = Vec::new();
    let mut entries = vec![0; ENTRIES_PER_READ * ENTRY_BYTES];
    for start in area.clone().step_by(ENTRIES_PER_READ * PAGE_BYTES) {
        let count = ((area.end - start) / PAGE_BYTES).min(ENTRIES_PER_READ);
        let entries = &mut entries[..count * ENTRY_BYTES];
        map.read_exact_at(entries, (start / PAGE_BYTES * ENTRY_BYTES) as u64).map_err(failed)?;
        for (entry, page) in entries.as_chunks().0.iter().zip((start..).step_by(PAGE_BYTES)) {
            if is_resident(u64::from_ne_bytes(*entry)) {
                add_page(&mut runs, page);
            }
        }
    }
    Ok(runs)
}

fn is_resident(entry: u64) -> bool {
    entry & (PRESENT_BIT | SWAPPED_BIT) != 0 && entry & FILE_PAGE_BIT == 0
}

fn add_page(runs: &mut Vec<Addresses>, page: usize) {
    match runs.last_mut() {
        Some(last) if page - last.end <= MAX_BRIDGED_PAGES * PAGE_BYTES => last.end = page + PAGE_BYTES,
        _ => runs.push(page..page + PAGE_BYTES),
    }
}
