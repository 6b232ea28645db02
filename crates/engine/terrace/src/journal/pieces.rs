//! Copies of the log on services, from which a store can be made again that lost its node.
//!
//! Each file of the log's folder is a folder of pieces there: blobs with a range of its bytes, named by their first byte. A piece is only
//! written where none of its name is, and never changed. So a process that was stopped, or another directory of the store, overwrites nothing, and
//! notices that the log went on differently.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use terrace_catalog::log::{self, Reach};
use terrace_catalog::{TargetId, find_end, snapshot_tail};
use terrace_system::{Locked, fail, open_regular, read_regular, remove_folder};
use terrace_tier::{CONFIG_BLOB, LOG_PREFIX, LogPiece, NamedBlobs};
use xxhash_rust::xxh3::xxh3_64;

use super::fetch::{SERVICE_COPIES_FOLDER, fetch_log};
use super::{Journal, LOG_COPIES};
use crate::config::Config;
use crate::devices::Device;
use crate::discard::Discard;
use crate::home::TargetNote;
use crate::report::TierState;

/// The longest piece. No call takes more time than that of a frame.
const MAX_PIECE_BYTES: u64 = 1 << 20;

/// The known content of a copy. Zeros: nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Copied {
    /// The commit of its newest snapshot.
    pub snapshot: u64,
    /// The file of the log up to which it goes, and the end in it.
    pub file: u64,
    pub position: u64,
    /// The checksum of the configuration.
    config: u64,
}

impl Copied {
    pub fn parse(text: &[u8]) -> Option<Copied> {
        let mut numbers =
            std::str::from_utf8(text).ok()?.strip_suffix('\n')?.split(' ').map(|hex| u64::from_str_radix(hex, 16).ok());
        let mut next = || numbers.next().flatten();
        Some(Copied { snapshot: next()?, file: next()?, position: next()?, config: next()? })
    }

    fn text(&self) -> String {
        format!("{:016x} {:016x} {:016x} {:016x}\n", self.snapshot, self.file, self.position, self.config)
    }
}

impl Journal {
    /// The targets of services that hold a copy of the log.
    pub fn service_copies(&self) -> impl Iterator<Item = &Device> {
        let is_one = |d: &&Device| self.tiers.tier(d).persistent && d.target.named_blobs().is_some();
        // The servers of a shared log keep several copies.
        self.tiers.devices.iter().filter(is_one).take(if self.catalog.is_shared() { 0 } else { LOG_COPIES })
    }

    pub(super) fn has_pieces(&self, device: &Device) -> bool {
        self.service_copies().any(|copy| copy.id == device.id)
    }

    /// Brings the copies of the log on services up to its end. A target that fails is set aside, and its copy is brought up later.
    pub fn copy_to_services(&self) {
        for device in self.service_copies() {
            match device.state() {
                TierState::Away => self.note_behind(device, "it cannot be reached"),
                _ => drop(self.copy_to_service(device)),
            }
        }
    }

    /// Brings the copy of the log on a target up to its end before frames on it are freed: a store that is made again from the copy must not
    /// look for them. Returns false if that fails.
    pub fn copy_before_freeing(&self, device: &Device) -> bool {
        !self.has_pieces(device) || self.copy_to_service(device)
    }

    pub(super) fn copy_to_service(&self, device: &Device) -> bool {
        let copied = device.target.ready().and_then(|()| self.copy_pieces(device));
        if let Err(error) = &copied {
            self.note_behind(device, &error.to_string());
            device.failed(error);
        }
        copied.is_ok()
    }

    /// Notes that a target's copy of the log is behind its end, and says so once.
    fn note_behind(&self, device: &Device, why: &str) {
        if TargetNote::log_behind(&self.dir, device.id).holds() {
            return;
        }
        tracing::warn!(
            "the copy of the log on {} is behind ({why}); a store that `terrace rebuild --from` makes from it would lack the last changes",
            device.path.display()
        );
        self.note_log_behind(device, true);
    }

    fn note_log_behind(&self, device: &Device, is_behind: bool) {
        // The error may be ignored: the log itself is whole, and the next copy sets the note again.
        if let Err(error) = TargetNote::log_behind(&self.dir, device.id).set(is_behind) {
            tracing::debug!(target = %device.path.display(), %error, "could not note whether the copy of the log there is behind");
        }
    }

    fn copy_pieces(&self, device: &Device) -> io::Result<()> {
        let Some(blobs) = device.target.named_blobs() else { return Ok(()) };
        // It is compared with the catalog first: what is known of it may be about a newer copy of it. And the log of a newer copy of the
        // store's directory stays, as its frames do, until these are given up.
        if device.target.is_new() || TargetNote::is_newer(&self.dir, device.id).holds() {
            return Ok(());
        }
        let note = self.copied_note(device);
        let file = File::options().create(true).truncate(false).write(true).mode(0o600).open(&note)?;
        // Held during requests: two processes would otherwise write the same pieces. The others wait, because a sync is to leave a whole copy.
        let lock = Locked::wait(file)?;
        let before = Copied::parse(&read_regular(&note)?).unwrap_or_default();
        match self.copy_from(device, blobs, &lock, before) {
            // The target has this directory's mark, so no other one writes there.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if self.has_parted(device, blobs).map_err(io::Error::other)? {
                    // From now on, no process opens the store before somebody has chosen.
                    TargetNote::is_newer(&self.dir, device.id).set(true).map_err(io::Error::other)?;
                    return Err(error);
                }
                let why = format!("the copy is damaged, and begins again: {error}");
                self.discard_pieces(device, blobs, &why, |_| true)?;
                self.copy_from(device, blobs, &lock, Copied::default())?;
            }
            copied => copied?,
        }
        self.note_log_behind(device, false);
        Ok(())
    }

    /// Returns whether the copy on a target is that of a log which goes on differently, and not just a damaged one: its last whole record is not
    /// in this log.
    fn has_parted(&self, device: &Device, blobs: &dyn NamedBlobs) -> crate::Result<bool> {
        let (log, folder) = (self.catalog.log(), self.dir.join(SERVICE_COPIES_FOLDER));
        let reading = || crate::Error::io(format!("reading the copy of the log in {}", device.path.display()));
        remove_folder(&folder).and_then(|()| std::fs::create_dir(&folder)).map_err(reading())?;
        fetch_log(blobs, &folder.join("log")).map_err(reading())?;
        let end = find_end(&folder.join("log"), log.store())?;
        remove_folder(&folder).map_err(reading())?;
        Ok(end.sequence > 0 && !log.continues((end.sequence, end.checksum))?)
    }

    /// Copies what a target does not have yet, as far as it is known to have the log. `AlreadyExists` if it has another one.
    fn copy_from(&self, device: &Device, blobs: &dyn NamedBlobs, lock: &File, before: Copied) -> io::Result<()> {
        let (log, marked) = (self.catalog.log(), self.catalog.synced().map_err(io::Error::other)?);
        let tail = self.catalog.tail().map_err(io::Error::other)?;
        // What a power cut can take must not be in the copy: the log would go on differently.
        log.sync(tail).map_err(io::Error::other)?;
        if before.file == 0 {
            let all = blobs.list(LOG_PREFIX)?;
            // The next file of the log has the number of the next commit.
            if let Some(name) =
                all.iter().find(|name| LogPiece::parse(name).is_some_and(|piece| piece.file > tail.sequence + 1))
            {
                return Err(goes_on_differently(name));
            }
        }
        let mut copied = Copied { config: self.copy_config(blobs, before.config)?, ..before };
        let newest = log::snapshots(log.folder())?.pop().filter(|newest| *newest != before.snapshot);
        if let Some(newest) = newest {
            let path = log::snapshot(log.folder(), newest);
            copy_range(blobs, &path, 0, path.metadata()?.len())?;
            copied.snapshot = newest;
            fail::point("pieces:snapshot");
        }
        let files = log.files().map_err(io::Error::other)?;
        if !files.contains(&copied.file) {
            (copied.file, copied.position) = (0, 0);
        }
        let first = copied.file;
        for file in files.into_iter().filter(|file| (first..=tail.file).contains(file)) {
            let path = log.path(file);
            let start = if file == first { copied.position } else { 0 };
            let end = if file == tail.file { tail.position } else { path.metadata()?.len() };
            if start > end {
                return Err(goes_on_differently(&format!("{file:016x}.log")));
            }
            (copied.file, copied.position) = (file, copy_range(blobs, &path, start, end)?);
        }
        if copied == before {
            return Ok(());
        }
        // It is not synced: with an older text, or half of one, pieces are found that are there.
        lock.set_len(0)?;
        lock.write_all_at(copied.text().as_bytes(), 0)?;
        fail::point("pieces:copied");
        // After the pieces: a note of a later commit than they have tells that some are lost.
        device.target.note_synced(Reach { sequence: marked, record: (tail.sequence, tail.checksum) })?;
        match newest {
            Some(newest) => self.trim_pieces(device, blobs, newest),
            None => Ok(()),
        }
    }

    /// Copies the configuration, if its checksum is another one. Returns the checksum.
    fn copy_config(&self, blobs: &dyn NamedBlobs, known: u64) -> io::Result<u64> {
        let path = self.dir.join("terrace.toml");
        let checksum = xxh3_64(&read_regular(&path)?);
        if checksum == known {
            return Ok(known);
        }
        match Config::read(&path) {
            Ok(config) => blobs.replace(CONFIG_BLOB, config.without_secrets().to_toml().into_bytes())?,
            // Somebody is changing it. The target is not at fault, and has the one before.
            Err(error) => {
                tracing::debug!(%error, "the configuration is not copied");
                return Ok(known);
            }
        }
        Ok(checksum)
    }

    /// Deletes the pieces of all that the newest snapshot has replaced.
    fn trim_pieces(&self, device: &Device, blobs: &dyn NamedBlobs, newest: u64) -> io::Result<()> {
        let log = self.catalog.log();
        let tail = snapshot_tail(&log::snapshot(log.folder(), newest), log.store()).map_err(io::Error::other)?;
        let Some(first) = tail.map(|tail| tail.file) else { return Ok(()) };
        self.discard_pieces(device, blobs, "a newer snapshot has replaced them", |piece| {
            if piece.is_snapshot { piece.file < newest } else { piece.file < first }
        })
    }

    pub(super) fn discard_pieces(
        &self,
        device: &Device,
        blobs: &dyn NamedBlobs,
        why: &str,
        is_discarded: impl Fn(LogPiece) -> bool,
    ) -> io::Result<()> {
        // The number of pieces of each folder, and the first byte of the last one.
        let mut folders: BTreeMap<String, (usize, u64)> = BTreeMap::new();
        let pieces = blobs.list(LOG_PREFIX)?;
        for piece in pieces.iter().filter_map(|name| LogPiece::parse(name)).filter(|piece| is_discarded(*piece)) {
            let (count, last) = folders.entry(piece.folder()).or_default();
            (*count, *last) = (*count + 1, piece.start);
        }
        let (count, bytes) = folders.values().fold((0, 0), |sum, piece| (sum.0 + piece.0, sum.1 + piece.1));
        let what = format!("pieces of the log on {}", device.path.display());
        Discard { what: &what, why, count, bytes, of_bytes: bytes }.allow(true).map_err(io::Error::other)?;
        folders.keys().try_for_each(|folder| blobs.delete_below(folder))
    }

    /// Forgets what a target's copy of the log is known to hold: the target was emptied, or is an older copy of itself.
    pub(super) fn forget_copied(&self, device: &Device) {
        if let Err(error) = std::fs::remove_file(self.copied_note(device))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(target = %device.path.display(), %error, "the note about the copy of the log on this target could not be removed; remove the file copied-{} of the store's directory", device.id);
        }
    }

    pub(super) fn copied_note(&self, device: &Device) -> PathBuf {
        copied_note(&self.dir, device.id)
    }
}

/// Returns the end of what a target's copy of the log is known to hold: the file of the log, and the position in it.
pub fn read_copied(dir: &Path, target: TargetId) -> (u64, u64) {
    let copied = read_regular(&copied_note(dir, target)).ok().and_then(|text| Copied::parse(&text)).unwrap_or_default();
    (copied.file, copied.position)
}

fn copied_note(dir: &Path, target: TargetId) -> PathBuf {
    dir.join(format!("copied-{target}"))
}

/// Copies a range of a file, and returns the end of what is there then: another process may have copied more.
fn copy_range(blobs: &dyn NamedBlobs, path: &Path, start: u64, end: u64) -> io::Result<u64> {
    let (source, folder) = (open_regular(path)?, path.file_name().unwrap_or_default().display().to_string());
    let mut at = start;
    while at < end {
        let mut bytes = vec![0; (end - at).min(MAX_PIECE_BYTES) as usize];
        source.read_exact_at(&mut bytes, at)?;
        let (name, length) = (format!("{LOG_PREFIX}{folder}/{at:016x}"), bytes.len() as u64);
        at += match blobs.write_new(&name, bytes.clone())? {
            true => length,
            false => pass_piece(blobs, &name, bytes, &source, at)?,
        };
        fail::point("pieces:written");
    }
    Ok(at)
}

/// Returns the length of a piece that is there, and is one of this log: its writer ended before it noted that.
fn pass_piece(blobs: &dyn NamedBlobs, name: &str, bytes: Vec<u8>, source: &File, at: u64) -> io::Result<u64> {
    let there = blobs.read(name)?;
    if there.is_empty() {
        // Where a blob can be seen while it is written, its writer was killed.
        let length = bytes.len() as u64;
        return blobs.replace(name, bytes).map(|()| length);
    }
    let mut own = vec![0; there.len()];
    if source.read_exact_at(&mut own, at).is_err() || own != there {
        return Err(goes_on_differently(name));
    }
    Ok(there.len() as u64)
}

fn goes_on_differently(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, format!("the copy of the log there goes on differently ({name})"))
}
