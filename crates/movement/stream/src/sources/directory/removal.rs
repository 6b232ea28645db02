//! Removes files that are durable at the destination, without losing bytes that another process adds meanwhile.
//!
//! 1. The file is leased: no process has it open for writing, and any process that opens it for writing blocks. The file is unchanged
//!    since its first byte was read.
//! 2. The removal is recorded in the store, and the file is renamed to a hidden name, so that no process can find it by its own name.
//! 3. After a short time, in which every process that found the old name has opened the file, the lease must be unbroken and the file
//!    unchanged. Otherwise the file gets its name back and is delivered again.
//! 4. The destination's path must still lead to the folder that received the file. Otherwise that folder was moved or mounted over, and the
//!    file is delivered again to the place where the path leads now.
//! 5. The file is unlinked, and checked once more through the open descriptor. Bytes added even now are delivered from there.
//!
//! A crash between any two steps leaves the file, the record, or neither. The next run finds the file under one of its two names.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use walkdir::{DirEntryExt, WalkDir};

use super::Identity;
use super::folder::{Folder, Hidden, hidden_name, older_hidden_name, read_hidden};
use super::record::{Recorded, Records};
use super::writers::{Leased, give_lease, is_lease_whole, open_for_writing, take_lease};
use crate::destinations::Destination;
use crate::entry::FolderId;
use crate::request::Name;
use crate::{Error, Failure, Result};

/// The time for a process that has found a file by its name to open it.
const OPENING_TIME: Duration = Duration::from_millis(10);
/// The largest number of files being removed at once. Each holds a descriptor.
const MAX_LEAVING_FILES: usize = 128;

/// The removals of one directory's files.
pub struct Removal {
    root: PathBuf,
    records: Records,
    destination: Arc<dyn Destination>,
    /// How long a file that cannot be leased is watched under its hidden name.
    watched: Duration,
    leaving: VecDeque<Leaving>,
}

/// A file that is completely durable at the destination.
pub struct Delivered {
    /// The directory that it was read from.
    pub from: Arc<Folder>,
    /// Its state when it was read.
    pub identity: Identity,
    /// The folder that received it, for a destination that has folders.
    pub to: Option<FolderId>,
}

/// A file under its hidden name.
struct Leaving {
    name: Name,
    from: Arc<Folder>,
    to: Option<FolderId>,
    hidden: Vec<u8>,
    file: File,
    identity: Identity,
    leased: bool,
    since: Instant,
}

/// The outcome of a file's removal.
pub enum Ended {
    /// The file is removed.
    Removed,
    /// The file is back under its name, and has changed or may change: deliver it again.
    Changed(String),
    /// The file is delivered and cannot be removed, for this reason.
    Stays(String),
    /// The file is unlinked, and its content, which this descriptor still holds, has changed since.
    Added(File),
}

impl Removal {
    pub fn new(root: &Path, records: Records, destination: Arc<dyn Destination>, settled: Duration) -> Removal {
        let (root, watched) = (root.to_owned(), settled.max(OPENING_TIME));
        Removal { root, records, destination, watched, leaving: VecDeque::new() }
    }

    pub fn is_idle(&self) -> bool {
        self.leaving.is_empty()
    }

    pub fn is_leaving(&self, name: &Name) -> bool {
        self.leaving.iter().any(|leaving| leaving.name == *name)
    }

    fn stays(&self, name: &[u8], doing: &str, cause: &io::Error) -> Ended {
        let path = self.root.join(OsStr::from_bytes(name));
        Ended::Stays(format!("it is delivered, but {doing} {}: {cause}", path.display()))
    }

    /// Starts the removal of a delivered file. Returns `None` while the removal is in progress.
    pub fn begin(&mut self, name: &Name, delivered: Delivered) -> Result<Option<Ended>> {
        let Delivered { from, identity, to } = delivered;
        let changed = |reason: &str| Ok(Some(Ended::Changed(reason.into())));
        let file = match from.file(name) {
            Ok(file) => file,
            Err(e) => return changed(&format!("it was delivered, and then could not be opened: {e}")),
        };
        let leased = match take_lease(&file) {
            Leased::Held => true,
            Leased::Writers => return changed("it is open for writing"),
            // One scan of all processes serves many files, after these have their hidden names.
            Leased::Unsupported => false,
        };
        let now = file.metadata().map_err(Error::io("looking at a file that is to be removed"))?;
        if Identity::of(&now) != identity {
            return changed("it changed while it was delivered");
        }
        let held = self.is_at_destination(name, identity.size);
        self.records.add(name, identity, to)?;
        terrace::fail::point("stream:recorded");
        let hidden = hidden_name(name, identity.inode);
        if let Err(e) = from.rename(name, &hidden) {
            self.records.remove(name)?;
            return match e.kind() {
                io::ErrorKind::NotFound => changed("it was renamed or removed by somebody else"),
                io::ErrorKind::AlreadyExists => {
                    let hidden = self.root.join(OsStr::from_bytes(&hidden));
                    Ok(Some(Ended::Stays(format!(
                        "it is delivered, and stays here: the hidden name under which it would be removed, {}, belongs to a \
                         file that another run was removing; run the stream that took that file again, or move that file away",
                        hidden.display()
                    ))))
                }
                _ => Ok(Some(self.stays(name, "cannot be removed: renaming", &e))),
            };
        }
        terrace::fail::point("stream:set-aside");
        let leaving = Leaving { name: name.clone(), from, to, hidden, file, identity, leased, since: Instant::now() };
        if !self.is_hidden(&leaving) {
            // Another process put a different file in its place at the last moment.
            return self.give_back(leaving, "another file took its name").map(Some);
        }
        if held && !self.is_at_destination(name, identity.size) {
            // Compare identities, because both paths may lead to one file through different file systems.
            let reason = "it vanished from the destination when it was renamed here: both are the same directory";
            return match self.give_back(leaving, reason)? {
                Ended::Changed(reason) => Ok(Some(Ended::Stays(reason))),
                ended => Ok(Some(ended)),
            };
        }
        self.leaving.push_back(leaving);
        if self.leaving.len() >= MAX_LEAVING_FILES {
            thread::sleep(OPENING_TIME);
        }
        Ok(None)
    }

    fn is_at_destination(&self, name: &[u8], size: u64) -> bool {
        matches!(self.destination.length(name), Ok(Some(length)) if length == size)
    }

    fn is_hidden(&self, leaving: &Leaving) -> bool {
        let hidden = leaving.from.file(&leaving.hidden).and_then(|file| file.metadata());
        hidden.is_ok_and(|metadata| Identity::of(&metadata).is_same_file(&leaving.identity))
    }

    /// Restores a file's own name.
    fn give_back(&self, leaving: Leaving, reason: &str) -> Result<Ended> {
        let Leaving { name, from, hidden, .. } = leaving;
        // Remove the record first: the next run also restores a hidden file without a record, and does not count it as removed.
        self.records.remove(&name)?;
        if let Err(e) = from.rename(&hidden, &name) {
            let hidden = OsStr::from_bytes(&hidden).display().to_string();
            return Ok(self.stays(
                &name,
                &format!("{reason}, and its name was taken meanwhile; see {hidden}; naming"),
                &e,
            ));
        }
        Ok(Ended::Changed(reason.into()))
    }

    /// Removes the files whose waiting time has passed; with `all`, waits for the remaining ones too.
    pub fn proceed(&mut self, all: bool) -> Result<Vec<(Name, Ended)>> {
        let mut ended = Vec::new();
        let mut writers: Option<HashSet<(u64, u64)>> = None;
        while let Some(first) = self.leaving.front() {
            let time = if first.leased { OPENING_TIME } else { self.watched };
            let rest = time.saturating_sub(first.since.elapsed());
            match (rest.is_zero(), all) {
                (true, _) => {}
                (false, true) => thread::sleep(rest),
                (false, false) => break,
            }
            let Some(leaving) = self.leaving.pop_front() else { break };
            let is_quiet = match leaving.leased {
                true => is_lease_whole(&leaving.file),
                false => {
                    let writers = writers.get_or_insert_with(open_for_writing);
                    !writers.contains(&(leaving.identity.device, leaving.identity.inode))
                }
            };
            ended.push((leaving.name.clone(), self.end(leaving, is_quiet)?));
        }
        Ok(ended)
    }

    fn end(&self, leaving: Leaving, is_quiet: bool) -> Result<Ended> {
        let as_it_was = |file: &File| {
            file.metadata().is_ok_and(|metadata| Identity::of(&metadata).has_same_bytes(&leaving.identity))
        };
        if !is_quiet || !as_it_was(&leaving.file) {
            return self.give_back(leaving, "it is open for writing");
        }
        // As late as possible: the file is safe only where the path leads now.
        if let Err(reason) = self.check_delivered(&leaving.name, leaving.to)? {
            return self.give_back(leaving, &reason);
        }
        match leaving.from.unlink(&leaving.hidden) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                let ended = self.stays(&leaving.name, "cannot be removed: unlinking", &e);
                self.give_back(leaving, "it cannot be removed")?;
                return Ok(ended);
            }
            _ => {}
        }
        terrace::fail::point("stream:unlinked");
        // The last check: a process that opened the file just before it was unlinked writes where only this descriptor still leads.
        let is_whole = as_it_was(&leaving.file) && (!leaving.leased || is_lease_whole(&leaving.file));
        if !is_whole {
            give_lease(&leaving.file);
            return Ok(Ended::Added(leaving.file));
        }
        self.records.finish(&leaving.name, leaving.identity.size)?;
        Ok(Ended::Removed)
    }

    /// Whether the destination's path leads to the folder that received a file; otherwise the reason why it does not count as delivered.
    /// Others may have taken the file from there since.
    pub fn check_delivered(&self, name: &Name, to: Option<FolderId>) -> Result<std::result::Result<(), String>> {
        match self.destination.folder(name) {
            Ok(found) if found == to => Ok(Ok(())),
            Ok(_) => Ok(Err("it was delivered, and then the destination's path led to another directory".into())),
            Err(Failure::Later(reason) | Failure::Never(reason)) => Ok(Err(reason)),
            Err(Failure::Fatal(error)) => Err(error),
        }
    }

    /// Completes a removal after all bytes added to the unlinked file are delivered, too.
    pub fn finish(&self, name: &Name, bytes: u64) -> Result<()> {
        self.records.finish(name, bytes)
    }

    /// Continues the removals of an earlier run in this folder. Returns the files whose names cannot be restored, with the reasons.
    pub fn resume(&mut self, folder: &Arc<Folder>) -> Result<Vec<(Name, String)>> {
        for Recorded { name, identity, delivered_to: to } in self.records.all()? {
            let hidden = hidden_name(&name, identity.inode);
            let older = older_hidden_name(&name, identity.inode);
            let is_it = |found: io::Result<std::fs::Metadata>| {
                found.is_ok_and(|found| Identity::of(&found).is_same_file(&identity))
            };
            if is_it(folder.file(&older).and_then(|file| file.metadata())) {
                // If this fails, the file is reported below.
                let _ = folder.rename(&older, &hidden);
            }
            let Ok(file) = folder.file(&hidden) else {
                let named = folder.file(&name).and_then(|file| file.metadata());
                match named.is_ok_and(|metadata| identity.is_earlier_state_of(&metadata)) {
                    // The file was not renamed yet, and may have grown. It is delivered again, which is idempotent.
                    true => self.records.remove(&name)?,
                    false => self.records.finish(&name, identity.size)?,
                }
                continue;
            };
            let leased = take_lease(&file);
            let now = file.metadata().map_err(Error::io("looking at a file that is to be removed"))?;
            if leased != Leased::Writers && Identity::of(&now).has_same_bytes(&identity) {
                let (leased, since) = (leased == Leased::Held, Instant::now());
                self.leaving.push_back(Leaving {
                    name,
                    from: folder.clone(),
                    to,
                    hidden,
                    file,
                    identity,
                    leased,
                    since,
                });
                continue;
            }
            self.records.remove(&name)?;
            // A failure here is retried and reported below.
            let _ = folder.rename(&hidden, &name);
        }
        Ok(self.give_back_strays(folder))
    }

    /// Restores the names of hidden files that must not be removed: they have changed, or have no record.
    fn give_back_strays(&self, folder: &Folder) -> Vec<(Name, String)> {
        let mut stays = Vec::new();
        for entry in WalkDir::new(&self.root).into_iter().flatten().filter(|entry| entry.file_type().is_file()) {
            let Some(found) = read_hidden(entry.file_name(), entry.ino()) else { continue };
            let Ok(hidden) = entry.path().strip_prefix(&self.root) else { continue };
            let bytes = hidden.as_os_str().as_bytes();
            if self.leaving.iter().any(|leaving| leaving.hidden == bytes) {
                continue;
            }
            let Hidden::Of(last) = found else {
                let reason = "it is left alone: it has a name like one that streams give to a file while they remove it, and none is \
                              known to have given it; give it another name, which does not begin with a dot if it is to be delivered";
                stays.push((bytes.into(), reason.to_owned()));
                continue;
            };
            let name = hidden.with_file_name(last);
            let hidden = bytes;
            if let Err(e) = folder.rename(hidden, name.as_os_str().as_bytes()) {
                let reason = match e.kind() {
                    io::ErrorKind::AlreadyExists => format!(
                        "an earlier run was removing it, and another file is called {} now; run the stream that took it \
                         again, or move one of the two away",
                        name.display()
                    ),
                    _ => format!(
                        "an earlier run was removing it, and it cannot be called {} again: {e}; rename it yourself",
                        name.display()
                    ),
                };
                stays.push((hidden.into(), reason));
            }
        }
        stays
    }
}
