//! Fetches files of origins before they are read.

use terrace_catalog::{Extent, Kind, Object};

use super::Store;
use crate::origins::{is_at_origin, is_refused};
use crate::{Error, Result};

/// The number of bytes that are fetched at a time.
const STEP_BYTES: u64 = 8 << 20;
/// The number of objects that are read at a time.
const OBJECTS_PER_PAGE: usize = 256;

/// The bytes that [`Store::fetch_origins`] has fetched.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct FetchedBytes {
    /// The files of origins.
    pub files: u64,
    /// The bytes that were fetched.
    pub fetched: u64,
    /// The bytes that are still only at an origin: beyond the limit, without room, or in files that it refuses to show.
    pub left: u64,
    /// The files that an origin refuses to show.
    pub refused: u64,
}

impl Store {
    /// Fetches the bytes of files of origins at or below `prefix`, and stores them, up to `limit` bytes. `progress` is called with what is fetched,
    /// and what is left, as far as it is known. Ends early if no tier has room. Files and folders that an origin refuses to show are left out.
    ///
    /// # Errors
    /// [`crate::Error::Origin`] if an origin does not answer.
    pub fn fetch_origins(
        &self,
        prefix: &[u8],
        limit: u64,
        progress: &mut dyn FnMut(&FetchedBytes),
    ) -> Result<FetchedBytes> {
        let mut done = FetchedBytes::default();
        if !self.engine.origins.heed() {
            return Ok(done);
        }
        let mut after: Option<Vec<u8>> = None;
        // What found no room before does not count.
        self.engine.origins.take_unkept();
        let mut is_full = false;
        loop {
            let page = self.list(prefix, after.as_deref(), OBJECTS_PER_PAGE)?;
            let Some((last, _)) = page.last() else { return Ok(done) };
            after = Some(last.clone());
            let files = page.iter().filter(|(_, object)| is_at_origin(object) && object.attributes.kind == Kind::File);
            for (key, _) in files {
                let before = done;
                let fetched = match self.fetch_file(key, limit, &mut is_full, &mut done, progress) {
                    // It was changed since it was listed, and the reader has asked for its new version.
                    Err(Error::ChangedAtOrigin { .. }) => {
                        done = before;
                        self.fetch_file(key, limit, &mut is_full, &mut done, progress)
                    }
                    fetched => fetched,
                };
                match fetched {
                    Err(error) if is_refused(&error) => {
                        done.refused += 1;
                        if done.refused == 1 {
                            tracing::warn!(%error, "a file is left out");
                        }
                    }
                    fetched => fetched?,
                }
            }
            progress(&done);
        }
    }

    fn fetch_file(
        &self,
        key: &[u8],
        limit: u64,
        is_full: &mut bool,
        done: &mut FetchedBytes,
        progress: &mut dyn FnMut(&FetchedBytes),
    ) -> Result<()> {
        let Some((object, extents)) = self.engine.catalog.locate(key, 0, u64::MAX)? else { return Ok(()) };
        done.files += 1;
        let holes = holes(&object, &extents);
        done.left += holes.iter().map(|(start, end)| end - start).sum::<u64>();
        for (start, end) in holes {
            let mut at = start;
            while at < end && !*is_full && done.fetched < limit {
                let length = STEP_BYTES.min(end - at).min(limit - done.fetched);
                let mut bytes = vec![0; length as usize];
                self.engine.reader.read_extents(key, &object, &[], at, &mut bytes)?;
                self.tend_origins();
                *is_full = self.engine.origins.take_unkept() > 0;
                at += length;
                done.fetched += length;
                done.left -= length;
                progress(done);
            }
        }
        Ok(())
    }
}

/// Returns the ranges of an object without extents.
fn holes(object: &Object, extents: &[Extent]) -> Vec<(u64, u64)> {
    let ends = extents.iter().map(Extent::end);
    let starts = extents.iter().map(|extent| extent.offset);
    let gaps = std::iter::once(0).chain(ends).zip(starts.chain([object.length]));
    gaps.filter(|(start, end)| start < end).collect()
}
