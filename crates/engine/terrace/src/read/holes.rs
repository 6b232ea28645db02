//! Holes: ranges without extents. They are zeros, or at an origin.

use std::ops::Range;

use terrace_catalog::{Extent, Object};

use super::Reader;
use crate::origins::{Source, is_at_origin};
use crate::{Error, Result};

impl Reader {
    /// Fills `out` with the bytes of a hole from the object's byte `offset` on.
    pub(super) fn fill_hole(&self, key: &[u8], object: &Object, offset: u64, out: &mut [u8]) -> Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let Some(source) = self.origins.source_of(key, object)? else {
            out.fill(0);
            return Ok(());
        };
        // The caller may ask for more than the object has.
        let end = (offset + out.len() as u64).min(object.length).max(offset);
        let (out, beyond) = out.split_at_mut((end - offset) as usize);
        beyond.fill(0);
        let mut at = offset;
        while at < end {
            let window = self.origins.window(object, at, end);
            let stop = window.end.min(end);
            let part = &mut out[(at - offset) as usize..(stop - offset) as usize];
            self.fill_window(&source, key, object, &window, at, part)?;
            at = stop;
        }
        Ok(())
    }

    /// Fetches what is missing in a window, and fills `out` with its bytes from `at` on. All of `out` lies in the window.
    fn fill_window(
        &self,
        source: &Source,
        key: &[u8],
        object: &Object,
        window: &Range<u64>,
        at: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let wanted = at..at + out.len() as u64;
        let _lock = self.origins.wait_to_fetch(object, window);
        // Another process may have fetched some of it meanwhile.
        let extents = self.origins.cached(key, object, window)?;
        let mut from = window.start;
        for extent in &extents {
            let (start, stop) = (extent.offset.max(window.start), extent.end().min(window.end));
            self.fetch_gap(source, key, object, from..start, &wanted, out)?;
            if let Some((range, part)) = overlap(&(start..stop), &wanted, out) {
                let skip = (range.start - extent.frame_offset()) as u32;
                if self.read_from_replicas(key, object, extent, skip, part).is_err() {
                    self.fetch_gap(source, key, object, start..stop, &wanted, out)?;
                }
            }
            from = stop;
        }
        self.fetch_gap(source, key, object, from..window.end, &wanted, out)
    }

    /// Fetches a range and stores it. Fills the part of `out`, the bytes in `wanted`, that lies in it.
    fn fetch_gap(
        &self,
        source: &Source,
        key: &[u8],
        object: &Object,
        gap: Range<u64>,
        wanted: &Range<u64>,
        out: &mut [u8],
    ) -> Result<()> {
        if gap.is_empty() {
            return Ok(());
        }
        let mut bytes = vec![0; (gap.end - gap.start) as usize];
        let fetched = self.origins.fetch(source, key, gap.start, &mut bytes);
        let Some((range, part)) = overlap(&gap, wanted, out) else {
            // Only fetched ahead. If that fails, the reader who needs it gets the error.
            if fetched.is_ok() {
                self.origins.store(key, object, gap.start, &bytes);
            }
            return Ok(());
        };
        fetched?;
        self.origins.store(key, object, gap.start, &bytes);
        let start = (range.start - gap.start) as usize;
        part.copy_from_slice(&bytes[start..start + part.len()]);
        Ok(())
    }

    /// Reads a part of an extent whose replicas are all bad or away from the object's origin, if it has one. Otherwise returns the
    /// error of its replicas.
    pub(super) fn fetch_again(
        &self,
        key: &[u8],
        object: &Object,
        extent: &Extent,
        skip: u32,
        out: &mut [u8],
        error: Error,
    ) -> Result<()> {
        if !matches!(error, Error::Unreadable { .. }) || !is_at_origin(object) {
            return Err(error);
        }
        let Some(source) = self.origins.source_of(key, object)? else { return Err(error) };
        let whole = extent.offset..extent.end();
        let start = extent.frame_offset() + u64::from(skip);
        let wanted = start..start + out.len() as u64;
        tracing::warn!(key = %terrace_format::key::show(key), %error, "cached bytes cannot be read, and are fetched from the origin again");
        let _lock = self.origins.wait_to_fetch(object, &whole);
        let now = self.origins.cached(key, object, &whole)?;
        if let [other] = now.as_slice()
            && !other.same_frame(extent)
            && other.offset <= wanted.start
            && wanted.end <= other.end()
        {
            // Another reader has fetched it.
            return self.read_from_replicas(key, object, other, (wanted.start - other.frame_offset()) as u32, out);
        }
        self.fetch_gap(&source, key, object, whole, &wanted, out)
    }
}

/// Returns the range that is in both, and the part of `out`, the bytes of `wanted`, that it has. None if it is empty.
fn overlap<'o>(one: &Range<u64>, wanted: &Range<u64>, out: &'o mut [u8]) -> Option<(Range<u64>, &'o mut [u8])> {
    let range = one.start.max(wanted.start)..one.end.min(wanted.end);
    if range.is_empty() {
        return None;
    }
    let part = (range.start - wanted.start) as usize..(range.end - wanted.start) as usize;
    Some((range, &mut out[part]))
}
