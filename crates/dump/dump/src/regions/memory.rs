//! Memory that is quick to touch for the first time.

// The system is told about an address.
#![allow(unsafe_code)]

/// Less memory has no huge page in it.
const MIN_ADVISED_BYTES: usize = 4 << 20;
const PAGE_BYTES: usize = 4 << 10;

/// Asks for huge pages for the part of a vector that has no bytes yet. The system gives each page at its first use, and zeroes it: one call
/// for 2 MiB takes much less time than 512 for 4 KiB.
pub fn prefer_huge_pages(bytes: &mut Vec<u8>) {
    let unused = bytes.spare_capacity_mut();
    if unused.len() < MIN_ADVISED_BYTES {
        return;
    }
    let before = unused.as_ptr().align_offset(PAGE_BYTES);
    let length = unused.len().saturating_sub(before) / PAGE_BYTES * PAGE_BYTES;
    let Some(first) = unused.get_mut(before..) else { return };
    // SAFETY: the range is whole pages of the vector's own memory, and the advice changes nothing in it.
    let advised = unsafe { libc::madvise(first.as_mut_ptr().cast(), length, libc::MADV_HUGEPAGE) };
    if advised != 0 {
        // A kernel without huge pages. Small ones do as well, only later.
        let error = std::io::Error::last_os_error();
        tracing::debug!("no huge pages for the copy of a region: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_as_before() {
        for length in [0, 1, MIN_ADVISED_BYTES, 3 * MIN_ADVISED_BYTES + 5] {
            let mut bytes = Vec::with_capacity(length);
            prefer_huge_pages(&mut bytes);
            bytes.resize(length, 7);
            prefer_huge_pages(&mut bytes);
            assert!(bytes.len() == length && bytes.iter().all(|byte| *byte == 7));
        }
    }
}
