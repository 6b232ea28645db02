//! Compares the copies of the log on services with the log.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use terrace_catalog::{log, snapshot_tail};
use terrace_system::{Locked, open_regular, read_regular};
use terrace_tier::{LOG_PREFIX, LogPiece, NamedBlobs};

use super::Journal;
use super::pieces::Copied;
use crate::devices::Device;
use crate::home::TargetNote;

impl Journal {
    /// Compares the copy of the log on a service with the log, which is whole. With `repair`, writes what is damaged again. Returns the number of
    /// damaged files that were not written again. A copy that takes no more, and is merely behind, is noted as such.
    pub(super) fn check_pieces(&self, device: &Device, repair: bool) -> io::Result<u64> {
        let Some(blobs) = device.target.named_blobs() else { return Ok(0) };
        // The copy of a newer directory's log is left alone.
        if TargetNote::is_newer(&self.dir, device.id).holds() {
            return Ok(0);
        }
        // Nothing could be missed in a copy that nothing is known of.
        if !self.copy_to_service(device) {
            return Ok(0);
        }
        let damaged = self.find_damaged_pieces(device, blobs)?;
        if damaged.is_empty() {
            return Ok(0);
        }
        let files = damaged.len();
        tracing::warn!(files, target = %device.path.display(), is_written_again = repair, "the copy of the commit log on this target is damaged");
        if !repair {
            return Ok(files as u64);
        }
        self.discard_pieces(device, blobs, "they are damaged, and are written again", |piece| {
            damaged.contains(&piece.file_name())
        })?;
        // From now on, the next copy looks for each piece.
        self.forget_copied(device);
        // What is not there yet is behind, and no longer damaged.
        self.copy_to_service(device);
        Ok(0)
    }

    /// Returns the names of the log's files with a piece that differs or is missing.
    fn find_damaged_pieces(&self, device: &Device, blobs: &dyn NamedBlobs) -> io::Result<BTreeSet<String>> {
        let note = File::options().create(true).truncate(false).write(true).open(self.copied_note(device))?;
        // Held during requests: another process would otherwise delete what a newer snapshot replaces.
        let _lock = Locked::wait(note)?;
        let Some(copied) = Copied::parse(&read_regular(&self.copied_note(device))?) else { return Ok(BTreeSet::new()) };
        let pieces: Vec<LogPiece> = blobs.list(LOG_PREFIX)?.iter().filter_map(|name| LogPiece::parse(name)).collect();
        let mut damaged = BTreeSet::new();
        for (path, end) in self.copied_files(copied)? {
            let name = path.file_name().unwrap_or_default().display().to_string();
            match has_bytes(blobs, pieces.iter().filter(|piece| piece.file_name() == name), &path, end) {
                Ok(true) => {}
                Ok(false) => drop(damaged.insert(name)),
                // A newer snapshot of another process has replaced it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(damaged)
    }

    /// Returns the files of the log that a copy has, each with the end of what it has at least.
    fn copied_files(&self, copied: Copied) -> io::Result<Vec<(PathBuf, u64)>> {
        let (log, mut files, mut first) = (self.catalog.log(), Vec::new(), 0);
        let snapshot = log::snapshot(log.folder(), copied.snapshot);
        if let Ok(metadata) = snapshot.metadata() {
            first = snapshot_tail(&snapshot, log.store()).map_err(io::Error::other)?.map_or(0, |tail| tail.file);
            files.push((snapshot, metadata.len()));
        }
        let numbers = log.files().map_err(io::Error::other)?.into_iter();
        for number in numbers.filter(|file| (first..=copied.file).contains(file)) {
            let path = log.path(number);
            // A newer snapshot may just have replaced it.
            let Ok(metadata) = path.metadata() else { continue };
            files.push((path, if number == copied.file { copied.position } else { metadata.len() }));
        }
        Ok(files)
    }
}

/// Returns whether pieces, in order, have the bytes of a file, at least up to `end`.
fn has_bytes<'a>(
    blobs: &dyn NamedBlobs,
    pieces: impl Iterator<Item = &'a LogPiece>,
    path: &Path,
    end: u64,
) -> io::Result<bool> {
    let (own, mut at) = (open_regular(path)?, 0);
    for piece in pieces {
        let there = blobs.read(&piece.name())?;
        let mut bytes = vec![0; there.len()];
        // The log never changes before its end, so a piece that goes on behind `end` has the same bytes, too.
        if piece.start > at || own.read_exact_at(&mut bytes, piece.start).is_err() || bytes != there {
            return Ok(false);
        }
        at = at.max(piece.start + there.len() as u64);
    }
    Ok(at >= end)
}
