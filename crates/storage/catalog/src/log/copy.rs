//! Copies of the log and its snapshots in other folders, and deleting what a snapshot made needless.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;

use super::{Log, Tail, files, name, snapshot, snapshots};

/// So many bytes before the end of a copy must be those of the log.
const COMPARED: u64 = 4096;

impl Log {
    /// Brings a copy of the log, its newest snapshot included, up to `tail`.
    pub fn copy_to(&self, folder: &Path, tail: Tail, durable: bool) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(folder) {
            // The folder's own name must be durable, too.
            Ok(()) => folder.parent().map_or(Ok(()), |target| File::open(target)?.sync_all())?,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
        if let Some(newest) = snapshots(&self.folder)?.pop()
            && !snapshot(folder, newest).exists()
        {
            let new = folder.join("new");
            fs::copy(snapshot(&self.folder, newest), &new)?;
            File::open(&new)?.sync_all()?;
            fs::rename(&new, snapshot(folder, newest))?;
            File::open(folder)?.sync_all()?;
        }
        for file in files(&self.folder)?.into_iter().filter(|&file| file <= tail.file) {
            match self.copy_file(folder, file, tail, durable) {
                // Another process made a snapshot, and deleted it.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                copied => copied?,
            }
        }
        if durable { File::open(folder)?.sync_all() } else { Ok(()) }
    }

    fn copy_file(&self, folder: &Path, file: u64, tail: Tail, durable: bool) -> io::Result<()> {
        let source = File::open(self.folder.join(name(file)))?;
        let end = if file == tail.file { tail.position } else { source.metadata()?.len() };
        let copy = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(folder.join(name(file)))?;
        let mut at = copy.metadata()?.len().min(end);
        if !same_before(&source, &copy, at)? {
            // The copy holds what a power cut took from the log before that went on differently, or the log is damaged:
            // then the copy is what it is mended from, and must not become the same.
            if !self.is_whole_file(file, end)? {
                let damaged = format!("{} is damaged; `terrace rebuild` mends it", self.path(file).display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, damaged));
            }
            at = 0;
        }
        let mut buffer = vec![0; (end - at).min(1 << 20) as usize];
        while at < end {
            let want = buffer.len().min((end - at) as usize);
            source.read_exact_at(&mut buffer[..want], at)?;
            copy.write_all_at(&buffer[..want], at)?;
            at += want as u64;
        }
        if durable { copy.sync_data() } else { Ok(()) }
    }

    /// Deletes the log's files and snapshots before the newest snapshot, which begins in `file`.
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

fn same_before(a: &File, b: &File, at: u64) -> io::Result<bool> {
    let length = at.min(COMPARED);
    let mut bytes = [vec![0; length as usize], vec![0; length as usize]];
    a.read_exact_at(&mut bytes[0], at - length)?;
    b.read_exact_at(&mut bytes[1], at - length)?;
    Ok(bytes[0] == bytes[1])
}
