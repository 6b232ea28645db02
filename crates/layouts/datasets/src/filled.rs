//! Writes fill values where a file has elements that were never written.

use std::ops::Range;

use terrace::Batch;
use terrace_views::layout::Layout;
use terrace_views::model::Dataset;

use crate::Result;
use crate::stored::StoredFile;

/// Fill values are written in steps of this size.
const FILL_STEP_BYTES: u64 = 1 << 20;

/// Returns whether a file has elements with a fill value.
pub fn has_fills(file: &StoredFile, dataset: &Dataset) -> bool {
    file.layout.leaves.iter().any(|placed| dataset.leaves.get(placed.leaf).is_some_and(|leaf| leaf.fill.is_some()))
}

/// Writes the fill values of these bytes of a file, which has this layout now, and no elements with values there.
pub fn write_fills<'a>(
    batch: &mut Batch<'a>,
    file: &'a StoredFile,
    layout: &Layout,
    object: u64,
    dataset: &Dataset,
    bytes: Range<u64>,
) -> Result<()> {
    if !has_fills(file, dataset) {
        return Ok(());
    }
    let mut at = bytes.start;
    while at < bytes.end {
        let mut piece = vec![0; FILL_STEP_BYTES.min(bytes.end - at) as usize];
        layout.fill(dataset, at, &mut piece);
        if piece.iter().any(|byte| *byte != 0) {
            batch.write(&file.key, object, at, &piece, file.element)?;
        }
        at += piece.len() as u64;
    }
    Ok(())
}
