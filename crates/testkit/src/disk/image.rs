//! The possible contents of a disk after a power cut: all writes up to the last flush, and any part of those since.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::mount::run;
use super::record::{Entry, read_entries};
use crate::Random;

/// Sectors reach the medium whole.
const SECTOR_BYTES: u64 = 512;
/// File systems rely on writes of their superblock's block being atomic, as they are on today's disks.
const SUPERBLOCK_BYTES: u64 = 4096;

/// The losses among the writes since the last flush, in an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CutLosses {
    /// Writes since the last flush.
    pub unflushed: usize,
    /// The number of writes that are lost completely.
    pub lost: usize,
    /// Writes that lost some sectors.
    pub torn: usize,
}

/// Makes images from one record.
pub(super) struct ImageMaker {
    folder: PathBuf,
    superblocks: &'static [u64],
    entries: Vec<Entry>,
    data: File,
    /// The number of entries that are applied to `base`: the disk at the beginning of the recording, with the entries up to
    /// a flush.
    applied: usize,
}

impl ImageMaker {
    pub(super) fn new(folder: &Path, superblocks: &'static [u64]) -> io::Result<ImageMaker> {
        let (entries, data) = (read_entries(folder)?, File::open(folder.join("data"))?);
        copy_sparse(&folder.join("origin"), &folder.join("base"))?;
        Ok(ImageMaker { folder: folder.to_owned(), superblocks, entries, data, applied: 0 })
    }

    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn next_flush(&self, position: usize) -> usize {
        let later = self.entries.iter().skip(position);
        position + later.take_while(|entry| **entry != Entry::Flush).count()
    }

    /// Writes a state that a power cut after the first `prefix` entries may leave to the file `to`.
    pub(super) fn make(&mut self, prefix: usize, random: &mut Random, to: &Path) -> io::Result<CutLosses> {
        let prefix = prefix.min(self.entries.len());
        let flushed = self.entries[..prefix].iter().rposition(|entry| *entry == Entry::Flush).map_or(0, |at| at + 1);
        let base = self.folder.join("base");
        if flushed < self.applied {
            copy_sparse(&self.folder.join("origin"), &base)?;
            self.applied = 0;
        }
        let file = File::options().write(true).open(&base)?;
        for entry in &self.entries[self.applied..flushed] {
            self.write(&file, *entry, |_| true)?;
        }
        self.applied = flushed;
        // Always a new file, because the last image may still be mounted: see `mount_again`.
        match std::fs::remove_file(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => copy_sparse(&base, to)?,
        }
        let file = File::options().write(true).open(to)?;
        let mut losses = CutLosses::default();
        // Some cuts lose everything that was not flushed, and some lose nothing.
        let luck = random.below(6);
        for entry in &self.entries[flushed..prefix] {
            let Entry::Write { offset, length, .. } = *entry else { continue };
            losses.unflushed += 1;
            let atomic = length <= SUPERBLOCK_BYTES
                && self.superblocks.iter().any(|at| offset < at + SUPERBLOCK_BYTES && *at < offset + length);
            match (luck, random.below(3)) {
                (0, _) | (2..4, 0) => losses.lost += 1,
                (4.., 0) if !atomic => {
                    losses.torn += 1;
                    self.write(&file, *entry, |_| random.once_in(2))?;
                }
                (4.., 1) => losses.lost += 1,
                _ => self.write(&file, *entry, |_| true)?,
            }
        }
        Ok(losses)
    }

    /// Applies those sectors of a write for which `keep` returns true.
    fn write(&self, file: &File, entry: Entry, mut keep: impl FnMut(u64) -> bool) -> io::Result<()> {
        let Entry::Write { offset, length, at } = entry else { return Ok(()) };
        let mut bytes = vec![0; length as usize];
        if let Some(at) = at {
            self.data.read_exact_at(&mut bytes, at)?;
        }
        let sectors: Vec<u64> = (0..length.div_ceil(SECTOR_BYTES)).filter(|sector| keep(*sector)).collect();
        for run in sectors.chunk_by(|one, next| one + 1 == *next) {
            let (start, end) = (run[0] * SECTOR_BYTES, length.min((run[run.len() - 1] + 1) * SECTOR_BYTES));
            file.write_all_at(&bytes[start as usize..end as usize], offset + start)?;
        }
        Ok(())
    }
}

/// Copies a file, with its holes.
pub(super) fn copy_sparse(from: &Path, to: &Path) -> io::Result<()> {
    run(Command::new("cp").args(["--sparse=always", "--"]).arg(from).arg(to))
}
