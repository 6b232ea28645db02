//! Reads a copy of the log from a service, into files as they are in the log's folder.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use terrace_tier::{LOG_PREFIX, LogPiece, NamedBlobs};

/// The folder in the store's directory for copies that were fetched. In it, each copy has a folder with the number of its target.
pub const SERVICE_COPIES_FOLDER: &str = "service-copies";
/// The most pieces that are read at the same time.
const MAX_PARALLEL_READS: usize = 16;

/// A copy of the log in files.
#[derive(Debug, Default)]
pub struct FetchedLog {
    /// The number of its pieces.
    pub pieces: usize,
    /// Files with a piece that is missing, each with the first byte that is. What follows in such a file is left out.
    pub gaps: Vec<String>,
}

/// Writes the files of a copy of the log into a new folder, durably.
pub fn fetch_log(blobs: &dyn NamedBlobs, folder: &Path) -> io::Result<FetchedLog> {
    let mut files: BTreeMap<String, Vec<LogPiece>> = BTreeMap::new();
    for piece in blobs.list(LOG_PREFIX)?.iter().filter_map(|name| LogPiece::parse(name)) {
        files.entry(piece.file_name()).or_default().push(piece);
    }
    DirBuilder::new().mode(0o700).create(folder)?;
    let mut fetched = FetchedLog::default();
    for (name, pieces) in files {
        let file = File::options().create_new(true).write(true).mode(0o600).open(folder.join(&name))?;
        let lengths = fetch_file(blobs, &pieces, &file)?;
        let mut end = 0;
        for (piece, length) in pieces.iter().zip(lengths) {
            // A piece whose writer was slow may reach into the next one, with the same bytes.
            if piece.start > end {
                fetched.gaps.push(format!("{name} from byte {end} on"));
                break;
            }
            end = end.max(piece.start + length);
        }
        file.set_len(end)?;
        // A rebuild makes the store's log of these files, so a power cut must not take them once the store is there.
        file.sync_all()?;
        fetched.pieces += pieces.len();
    }
    File::open(folder)?.sync_all()?;
    Ok(fetched)
}

/// Writes pieces into a file, several at a time. Returns their lengths.
fn fetch_file(blobs: &dyn NamedBlobs, pieces: &[LogPiece], file: &File) -> io::Result<Vec<u64>> {
    let next = AtomicUsize::new(0);
    let fetch_some = || -> io::Result<Vec<(usize, u64)>> {
        let mut fetched = Vec::new();
        // Relaxed: each thread takes another piece, and the scope's end shows all results.
        while let Some((at, piece)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, pieces.get(at)?)))
        {
            let bytes = blobs.read(&piece.name())?;
            file.write_all_at(&bytes, piece.start)?;
            fetched.push((at, bytes.len() as u64));
        }
        Ok(fetched)
    };
    let mut lengths = vec![0; pieces.len()];
    thread::scope(|scope| {
        let readers: Vec<_> = (0..MAX_PARALLEL_READS.min(pieces.len())).map(|_| scope.spawn(fetch_some)).collect();
        for reader in readers {
            let fetched =
                reader.join().map_err(|_| io::Error::other("a thread that read pieces of the log panicked"))??;
            fetched.into_iter().for_each(|(at, length)| lengths[at] = length);
        }
        Ok(lengths)
    })
}
