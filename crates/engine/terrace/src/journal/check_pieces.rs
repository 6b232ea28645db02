//! Compares the copies of the log on services with the log.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use terrace_catalog::{log, snapshot_tail};
use terrace_system::{Locked, open_regular, read_regular};
use terrace_tier::{LOG_PREFIX, LogPiece, NamedBlobs};

use super::Journal;
use super::pieces::Copied;
use crate::devices::Device;
use crate::home::TargetNote;

/// A file of the log's folder that a service is known to have.
struct CopiedFile {
    is_snapshot: bool,
    number: u64,
    path: PathBuf,
    /// The copy goes at least up to this byte.
    end: u64,
}

impl Journal {
    /// Compares the copy of the log on a service with the log, which is whole. With `repair`, writes what is damaged again. Returns the number of
    /// damaged files that were not written again.
    pub(super) fn check_pieces(&self, device: &Device, repair: bool) -> io::Result<u64> {
        let Some(blobs) = device.target.named_blobs() else { return Ok(0) };
        // The copy of a newer directory's log is left alone.
        if TargetNote::is_newer(&self.dir, device.id).holds() {
            return Ok(0);
        }
        // Nothing could be missed in a copy that nothing is known of.
        if !self.copy_to_service(device) {
            return Ok(1);
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
            damaged.contains(&(piece.is_snapshot, piece.file))
        })?;
        // From now on, the next copy looks for each piece.
        self.forget_copied(device);
        Ok(if self.copy_to_service(device) { 0 } else { files as u64 })
    }

    /// Returns the files with a piece that differs or is missing, each as whether it is a snapshot, and its number.
    fn find_damaged_pieces(&self, device: &Device, blobs: &dyn NamedBlobs) -> io::Result<BTreeSet<(bool, u64)>> {
        let note = File::options().create(true).truncate(false).write(true).open(self.copied_note(device))?;
        // Held during requests: another process would otherwise delete what a newer snapshot replaces.
        let _lock = Locked::wait(note)?;
        let Some(copied) = Copied::parse(&read_regular(&self.copied_note(device))?) else { return Ok(BTreeSet::new()) };
        let pieces: Vec<LogPiece> = blobs.list(LOG_PREFIX)?.iter().filter_map(|name| LogPiece::parse(name)).collect();
        let mut damaged = BTreeSet::new();
        for file in self.copied_files(copied)? {
            let of_it =
                pieces.iter().filter(|piece| (piece.is_snapshot, piece.file) == (file.is_snapshot, file.number));
            match is_whole(blobs, &file, of_it) {
                Ok(true) => {}
                Ok(false) => drop(damaged.insert((file.is_snapshot, file.number))),
                // A newer snapshot of another process has replaced it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(damaged)
    }

    fn copied_files(&self, copied: Copied) -> io::Result<Vec<CopiedFile>> {
        let (log, mut files) = (self.catalog.log(), Vec::new());
        let snapshot = log::snapshot(log.folder(), copied.snapshot);
        let mut first = 0;
        if let Ok(metadata) = snapshot.metadata() {
            first = snapshot_tail(&snapshot, log.store()).map_err(io::Error::other)?.map_or(0, |tail| tail.file);
            files.push(CopiedFile { is_snapshot: true, number: copied.snapshot, path: snapshot, end: metadata.len() });
        }
        for number in
            log.files().map_err(io::Error::other)?.into_iter().filter(|file| (first..=copied.file).contains(file))
        {
            let path = log.path(number);
            // A newer snapshot may just have replaced it.
            let Ok(metadata) = path.metadata() else { continue };
            let end = if number == copied.file { copied.position } else { metadata.len() };
            files.push(CopiedFile { is_snapshot: false, number, path, end });
        }
        Ok(files)
    }
}

/// Returns whether pieces, in order, have the bytes of a file.
fn is_whole<'a>(
    blobs: &dyn NamedBlobs,
    file: &CopiedFile,
    pieces: impl Iterator<Item = &'a LogPiece>,
) -> io::Result<bool> {
    let (own, mut end) = (open_regular(&file.path)?, 0);
    for piece in pieces {
        let there = blobs.read(&piece.name())?;
        let mut bytes = vec![0; there.len()];
        // The log never changes before its end, so a piece that goes on behind `file.end` has the same bytes, too.
        if piece.start > end || own.read_exact_at(&mut bytes, piece.start).is_err() || bytes != there {
            return Ok(false);
        }
        end = end.max(piece.start + there.len() as u64);
    }
    Ok(end >= file.end)
}
