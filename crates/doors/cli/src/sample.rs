//! Blocks of files, on which codecs are measured.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use walkdir::WalkDir;

/// The number of bytes of a block.
pub const BLOCK_BYTES: usize = 256 << 10;
/// The largest number of files that are read.
const MAX_SAMPLED_FILES: usize = 64;

/// Returns a block from the middle of each file.
pub fn sample_blocks(data: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut blocks = Vec::new();
    for entry in WalkDir::new(data).sort_by_file_name() {
        let entry = entry.with_context(|| format!("looking into {}", data.display()))?;
        if !entry.file_type().is_file() || blocks.len() == MAX_SAMPLED_FILES {
            continue;
        }
        let block = middle(entry.path()).with_context(|| format!("reading {}", entry.path().display()))?;
        if !block.is_empty() {
            blocks.push((entry.file_name().to_string_lossy().into_owned(), block));
        }
    }
    Ok(blocks)
}

fn middle(path: &Path) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt;
    let file = fs::File::open(path)?;
    let length = file.metadata()?.len();
    // Align to a multiple of every element width.
    let start = length.saturating_sub(BLOCK_BYTES as u64) / 2 / 4096 * 4096;
    let mut block = vec![0; (length - start).min(BLOCK_BYTES as u64) as usize];
    file.read_exact_at(&mut block, start)?;
    Ok(block)
}
