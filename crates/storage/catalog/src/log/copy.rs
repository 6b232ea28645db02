//! Copies the log and its snapshots to other folders, and deletes the files that a newer snapshot replaces.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use terrace_system::{failed_sync, open_regular};

use super::{Log, Tail, files, name, snapshot, snapshots};
use crate::chunks;

/// Before a copy is extended, this many bytes at its end are compared with the log.
const COMPARED_BYTES: u64 = 4096;
/// Whole copies are compared with the log in parts of this size.
const COMPARED_AT_ONCE_BYTES: usize = 1 << 20;

/// The end of a copy that this process has compared with the log and brought up to date.
#[derive(Clone, Debug)]
pub(super) struct CopyEnd {
    path: PathBuf,
    /// The device and the inode of the copy. The file is not kept open, because nobody could then mount its file system
    /// read-only.
    inode: (u64, u64),
    /// The file of the log that it copies.
    file: u64,
    position: u64,
}

impl Log {
    /// Appends the records that were logged since this process last updated the copy. Returns false if
    /// [`copy_to`](Self::copy_to) has to do it: the first time, in a new file of the log, or if the copy was replaced.
    pub fn append_to_copy(&self, folder: &Path, tail: Tail) -> io::Result<bool> {
        let known = self.copies.lock().iter().find(|copy| copy.path.parent() == Some(folder)).cloned();
        let Some(mut copy) = known.filter(|copy| copy.file == tail.file) else { return Ok(false) };
        // If the path still leads to the file that was compared, the target is there. An empty mount point, or another disk,
        // has another device number.
        let Ok(file) = OpenOptions::new().write(true).open(&copy.path) else { return Ok(false) };
        if !file.metadata().is_ok_and(|found| (found.dev(), found.ino()) == copy.inode) {
            return Ok(false);
        }
        if copy.position < tail.position {
            let source = self.file(tail.file, tail.position).map_err(io::Error::other)?;
            // No lock is held: other threads and processes may append to the copy at the same time. They write the same bytes
            // to the same offsets, because the log never changes before its end.
            copy_range(&source, &file, copy.position, tail.position)?;
            copy.position = tail.position;
            self.set_copy_end(copy);
        }
        Ok(true)
    }

    fn set_copy_end(&self, new: CopyEnd) {
        // Held for the update of one entry only, never during I/O.
        let mut copies = self.copies.lock();
        copies.retain(|copy| copy.path.parent() != new.path.parent());
        copies.push(new);
    }

    /// Brings a copy of the log, its newest snapshot included, up to `tail`.
    pub fn copy_to(&self, folder: &Path, tail: Tail, durable: bool) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(folder) {
            // The folder's name must be durable, too: a synced copy without a name is lost in a power cut.
            Ok(()) => folder.parent().map_or(Ok(()), |target| File::open(target)?.sync_all())?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        // A copy of another length is damaged.
        if let Some(newest) = snapshots(&self.folder)?.pop()
            && !is_as_long(&snapshot(&self.folder, newest), &snapshot(folder, newest))
        {
            let (own, new) = (snapshot(&self.folder, newest), folder.join("new"));
            io::copy(&mut open_regular(&own)?, &mut File::create(&new)?)?;
            // Once the copy has its name, it counts as whole, and what it replaces is deleted.
            if !chunks::is_whole(&new, self.store).map_err(io::Error::other)? {
                return Err(is_damaged(&own));
            }
            // Synced before it gets its name, because a snapshot with its name counts as whole. The folder is synced here,
            // because `trim` will delete the files of the log that the snapshot replaces: its name must be durable by then.
            File::open(&new)?.sync_all()?;
            fs::rename(&new, snapshot(folder, newest))?;
            File::open(folder)?.sync_all()?;
        }
        let is_here = |known: &&(PathBuf, u64)| known.0 == folder;
        let copied_before = self.copied_before.lock().iter().find(is_here).map_or(0, |(_, file)| *file);
        for file in files(&self.folder)?.into_iter().filter(|&file| file <= tail.file) {
            // A log has many files beside a large catalog. To open, compare and sync each one would take long at each sync.
            // After an error, `copy_file` looks again, and tells it.
            if file < copied_before && is_as_long(&self.path(file), &folder.join(name(file))) {
                continue;
            }
            match self.copy_file(folder, file, tail, durable) {
                // Another process made a snapshot, and deleted this file of the log.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                copied => copied?,
            }
        }
        if durable {
            // The names of new files: `copy_file` has synced their bytes.
            File::open(folder)?.sync_all()?;
            // After the syncs. Files before the last one get no more records.
            let mut copied = self.copied_before.lock();
            copied.retain(|(known, _)| known != folder);
            copied.push((folder.to_owned(), tail.file));
        }
        Ok(())
    }

    fn copy_file(&self, folder: &Path, file: u64, tail: Tail, durable: bool) -> io::Result<()> {
        let source = open_regular(&self.folder.join(name(file)))?;
        let end = if file == tail.file { tail.position } else { source.metadata()?.len() };
        let copy = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(folder.join(name(file)))?;
        let metadata = copy.metadata()?;
        let mut at = metadata.len().min(end);
        let has_failed = failed_sync::has_failed(&copy)?;
        if has_failed || !has_same_end(&source, &copy, at)? {
            // Either a power cut took records from the log that the copy still holds, and the log went on with others, or
            // the log is damaged. In the second case the copy is needed to mend the log, so it must not be overwritten. Or a
            // sync of the copy failed, and all of it must be written again.
            if !self.is_whole_file(file, end)? {
                return Err(is_damaged(&self.path(file)));
            }
            at = 0;
        }
        copy_range(&source, &copy, at, end)?;
        if durable {
            if has_failed {
                failed_sync::forget(&copy)?;
            }
            // A durable acknowledgement and a sync mark wait for this: the copy serves if the store's own log is lost.
            failed_sync::sync_data(&copy)?;
        }
        if file == tail.file {
            let (path, inode) = (folder.join(name(file)), (metadata.dev(), metadata.ino()));
            self.set_copy_end(CopyEnd { path, inode, file, position: end });
        }
        Ok(())
    }

    /// Returns the files of a copy that differ from the whole log before `tail`. What the copy lacks at its end comes with [`copy_to`].
    ///
    /// [`copy_to`]: Self::copy_to
    pub fn find_damaged_in(&self, folder: &Path, tail: Tail) -> io::Result<Vec<PathBuf>> {
        let mut compared: Vec<(PathBuf, u64)> = Vec::new();
        for file in files(&self.folder)?.into_iter().filter(|file| *file <= tail.file) {
            compared.push((self.path(file), if file == tail.file { tail.position } else { u64::MAX }));
        }
        let newest = snapshots(&self.folder)?.pop().map(|newest| snapshot(&self.folder, newest));
        compared.extend(newest.iter().map(|newest| (newest.clone(), u64::MAX)));
        let mut damaged = Vec::new();
        for (own, end) in compared {
            let copy = folder.join(own.file_name().unwrap_or_default());
            // A snapshot got its name when all of it was there.
            let may_be_shorter = newest.as_ref() != Some(&own);
            match is_equal_before(&own, &copy, end) {
                Ok(true) if may_be_shorter || is_as_long(&own, &copy) => {}
                Ok(_) => damaged.push(copy),
                // A snapshot has replaced the file, or the copy does not have it yet.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        Ok(damaged)
    }

    /// Deletes all files of the log before `file`, and all snapshots but the newest, whose commit is in `file`.
    pub fn trim(&self, folder: &Path, file: u64) -> io::Result<()> {
        let old = files(folder)?.into_iter().filter(|&f| f < file).map(|f| folder.join(name(f)));
        let mut shots = snapshots(folder)?;
        shots.pop();
        for path in old.chain(shots.into_iter().map(|s| snapshot(folder, s))) {
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

fn is_damaged(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged; `terrace rebuild` mends it", path.display()))
}

/// Copies bytes to the same place in another file, or writes them again in the same one.
pub(super) fn copy_range(from: &File, to: &File, start: u64, end: u64) -> io::Result<()> {
    let mut buffer = vec![0; (end - start).min(1 << 20) as usize];
    let mut at = start;
    while at < end {
        let want = buffer.len().min((end - at) as usize);
        from.read_exact_at(&mut buffer[..want], at)?;
        to.write_all_at(&buffer[..want], at)?;
        at += want as u64;
    }
    Ok(())
}

/// Returns whether both files are there, and equally long.
fn is_as_long(one: &Path, other: &Path) -> bool {
    let length = |path: &Path| fs::metadata(path).map(|found| found.len());
    matches!((length(one), length(other)), (Ok(one), Ok(other)) if one == other)
}

/// Returns whether two files have the same bytes before `end`, as far as both go.
fn is_equal_before(one: &Path, other: &Path, end: u64) -> io::Result<bool> {
    let files = [open_regular(one)?, open_regular(other)?];
    let end = files.iter().try_fold(end, |end, file| Ok::<_, io::Error>(end.min(file.metadata()?.len())))?;
    let mut buffers = [vec![0; COMPARED_AT_ONCE_BYTES], vec![0; COMPARED_AT_ONCE_BYTES]];
    for at in (0..end).step_by(COMPARED_AT_ONCE_BYTES) {
        let length = COMPARED_AT_ONCE_BYTES.min((end - at) as usize);
        for (file, buffer) in files.iter().zip(&mut buffers) {
            file.read_exact_at(&mut buffer[..length], at)?;
        }
        if buffers[0][..length] != buffers[1][..length] {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns whether the last bytes before `at` are the same in two files.
fn has_same_end(a: &File, b: &File, at: u64) -> io::Result<bool> {
    let length = at.min(COMPARED_BYTES);
    let mut bytes = [vec![0; length as usize], vec![0; length as usize]];
    a.read_exact_at(&mut bytes[0], at - length)?;
    b.read_exact_at(&mut bytes[1], at - length)?;
    Ok(bytes[0] == bytes[1])
}
