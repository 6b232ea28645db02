//! The boot mark says whether the catalog can be trusted. The catalog is not synced while it is in use, so it cannot be
//! trusted after the machine went down or the file system was unmounted unexpectedly, nor in a copy of the directory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use terrace_catalog::Catalog;
use terrace_system::boot::{BOOT_ID_FILE, read_id};
use terrace_system::{Locked, failed_sync, open_regular, read_regular};

use super::identity::BOOT_MARK_FILE;
use super::incarnation::read_incarnation;
use super::mounts_noted::{find_remounted, note_mounts};
use super::{refuse, write_file};
use crate::config::Config;
use crate::{Error, Result};

/// The mark of a catalog that is closed and durable. The boot in which it was closed follows.
const CLEAN_WORD: &str = "clean";
/// Follows the boot in the mark of a catalog from an earlier boot that was not yet compared with the targets.
const RESTARTED_WORD: &str = "restarted";
/// Follows the boot in the mark of a catalog that is being made from the log ...
const UNFINISHED_WORD: &str = "unfinished";
/// ... after the machine went down while the store was in use.
const CUT_OFF_WORD: &str = "cut-off";
/// Separates the boot from the incarnation of the directory.
const INCARNATION_SEPARATOR: char = '/';
/// The longest wait for another process to leave the store, or to note that it is in use.
const OTHERS_WAIT: Duration = Duration::from_secs(10);
const OTHERS_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The meaning of the boot mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The catalog was closed and is durable, in this boot.
    Clean,
    /// It was closed and is durable, in an earlier boot. Names of plain files, which are not synced, may have changed since.
    CleanBefore,
    /// It is, or was, in use since the machine was started.
    ThisBoot,
    /// It is in use since the machine was started, but was not yet compared with the targets.
    Restarted,
    /// It is being made from the log, or the process that made it died. `was_cut_off` says that it was in use when the
    /// machine went down.
    Unfinished { was_cut_off: bool },
    /// It was in use when the machine went down, or when its file system or a target's was unmounted; or it is in a copy of the
    /// directory.
    CutOff,
    /// There is no mark, or it cannot be read or is damaged.
    Unknown,
}

impl Mark {
    /// Returns whether the catalog is as its last user left it.
    pub fn is_trusted(self) -> bool {
        matches!(self, Mark::Clean | Mark::CleanBefore | Mark::ThisBoot | Mark::Restarted)
    }

    /// Returns whether a process has begun to make the catalog match the targets, and has not finished.
    pub fn is_pending(self) -> bool {
        matches!(self, Mark::Restarted | Mark::Unfinished { .. })
    }

    /// Returns whether the machine or the file system went down while the store was in use, and the catalog was not rebuilt
    /// since.
    pub fn was_cut_off(self) -> bool {
        matches!(self, Mark::CutOff | Mark::Unfinished { was_cut_off: true })
    }

    /// Returns whether the machine has not gone down since the store was last used, so that no written byte is lost.
    pub fn is_of_this_boot(self) -> bool {
        matches!(self, Mark::Clean | Mark::ThisBoot)
    }

    /// Returns the mark for an open store. Only [`mark_in_use`] ends a pending mark.
    fn when_opened(self, has_catalog: bool) -> Mark {
        match self {
            _ if !has_catalog => Mark::Unfinished { was_cut_off: self.was_cut_off() },
            Mark::Clean | Mark::ThisBoot => Mark::ThisBoot,
            Mark::Unfinished { .. } => self,
            Mark::CleanBefore | Mark::Restarted | Mark::CutOff | Mark::Unknown => Mark::Restarted,
        }
    }

    /// Returns the text of the mark while the store is in use in this boot.
    fn in_use(self, boot: &str) -> String {
        match self {
            Mark::Restarted => format!("{boot} {RESTARTED_WORD}"),
            Mark::Unfinished { was_cut_off: true } => format!("{boot} {UNFINISHED_WORD} {CUT_OFF_WORD}"),
            Mark::Unfinished { was_cut_off: false } => format!("{boot} {UNFINISHED_WORD}"),
            _ => boot.to_owned(),
        }
    }
}

/// Returns the id of this boot of the machine.
///
/// # Errors
/// If it cannot be read: two unknown boots must not count as the same.
fn boot_id() -> Result<String> {
    let id = read_id().map_err(Error::io(format!(
        "reading {BOOT_ID_FILE}, by which a restart of the machine is noticed (is /proc mounted?)"
    )))?;
    let is_one = !id.is_empty() && id != CLEAN_WORD && !id.contains(INCARNATION_SEPARATOR);
    is_one
        .then_some(id)
        .ok_or_else(|| refuse(Path::new(BOOT_ID_FILE), "it holds no boot id; check that /proc is mounted"))
}

/// Returns the boot, and the incarnation of `dir` if it is known. Both stay the same as long as no unsynced write is lost.
pub(super) fn boot_and_incarnation(dir: &Path) -> Result<String> {
    let boot = boot_id()?;
    Ok(match read_incarnation(dir) {
        Some(incarnation) => format!("{boot}{INCARNATION_SEPARATOR}{incarnation}"),
        None => boot,
    })
}

/// Returns whether two names are of the same boot and incarnation. An unknown incarnation may be any.
fn is_same_incarnation(one: &str, other: &str) -> bool {
    let boot = |name: &str| name.split(INCARNATION_SEPARATOR).next().map(str::to_owned);
    let are_known = [one, other].iter().all(|name| name.contains(INCARNATION_SEPARATOR));
    if are_known { one == other } else { boot(one) == boot(other) }
}

/// Reads the mark of the store in `dir`.
pub fn read_mark(dir: &Path) -> Result<Mark> {
    let text = read_regular(&dir.join(BOOT_MARK_FILE)).unwrap_or_default();
    let text = String::from_utf8(text).unwrap_or_default();
    let words: Vec<&str> = text.split_whitespace().collect();
    let (boot, own) = (boot_id()?, boot_and_incarnation(dir)?);
    Ok(match words.as_slice() {
        [] => Mark::Unknown,
        [CLEAN_WORD, id] if *id == boot => Mark::Clean,
        // Older versions did not name the boot.
        [CLEAN_WORD, ..] => Mark::CleanBefore,
        [id, ..] if !is_same_incarnation(id, &own) => Mark::CutOff,
        _ if find_remounted(dir).is_some() => Mark::CutOff,
        [_] => Mark::ThisBoot,
        [_, RESTARTED_WORD] => Mark::Restarted,
        [_, UNFINISHED_WORD] => Mark::Unfinished { was_cut_off: false },
        [_, UNFINISHED_WORD, CUT_OFF_WORD] => Mark::Unfinished { was_cut_off: true },
        _ => Mark::Unknown,
    })
}

/// Notes that the catalog is in use in this boot, or is about to be made. This must come before the first write to it,
/// because writes to it are not durable.
pub fn mark_opened(dir: &Path, config: &Config) -> Result<()> {
    let mark = read_mark(dir)?;
    let opened = mark.when_opened(has_catalog(dir));
    if opened != mark {
        write_file(&dir.join(BOOT_MARK_FILE), opened.in_use(&boot_and_incarnation(dir)?).as_bytes())?;
    }
    // After the mark, which says from now on that the store is cut off if a target was mounted again.
    note_mounts(dir, config, matches!(mark, Mark::Clean | Mark::CleanBefore))
}

/// Notes that the catalog matches the targets and is in use. This must come after all commits of the recovery, because later
/// openers do not repeat it.
pub fn mark_in_use(dir: &Path) -> Result<()> {
    write_file(&dir.join(BOOT_MARK_FILE), boot_and_incarnation(dir)?.as_bytes())
}

/// Notes that the targets of this node may have lost frames, and that the node has not found all of them. [`mark_in_use`] follows.
pub fn mark_doubtful(dir: &Path) -> Result<()> {
    write_file(&dir.join(BOOT_MARK_FILE), Mark::Restarted.in_use(&boot_and_incarnation(dir)?).as_bytes())
}

/// Shares the store's lock with the other processes that have it open.
pub fn shared(dir: &Path, lock: &Locked) -> Result<()> {
    let context = format!("locking {}", dir.join("lock").display());
    lock.change(FlockOperation::LockShared).map_err(Error::io(context))
}

/// Makes sure that no other process has the store open. If one has, the lock is released.
pub fn alone(dir: &Path, lock: &Locked) -> Result<()> {
    lock.change(FlockOperation::NonBlockingLockExclusive).map_err(|_| {
        refuse(dir, "another process has the store open, and this operation needs it alone; end that process first")
    })
}

/// Waits until no other process has the store open, or until one of them has done what this one is waiting to do. There is
/// no limit while another process does it. Returns true if this process is alone.
pub fn alone_unless(dir: &Path, lock: &Locked, is_done: impl Fn() -> Result<bool>) -> Result<bool> {
    let mut until = Instant::now() + OTHERS_WAIT;
    loop {
        match alone(dir, lock) {
            Ok(()) => return Ok(true),
            Err(_) if is_done()? => {
                shared(dir, lock)?;
                return Ok(false);
            }
            // Waiting processes do not hold the lock, so its holder does the work.
            Err(_) if read_mark(dir)?.is_pending() => until = Instant::now() + OTHERS_WAIT,
            Err(error) if Instant::now() > until => return Err(error),
            Err(_) => {}
        }
        thread::sleep(OTHERS_POLL_INTERVAL);
    }
}

/// Removes the catalog. The log must be known to be whole.
pub fn forget_catalog(dir: &Path) -> Result<()> {
    terrace_system::remove_folder(&dir.join("catalog")).map_err(Error::io("removing the old catalog"))
}

/// Returns whether there is a catalog.
pub fn has_catalog(dir: &Path) -> bool {
    dir.join("catalog").join("data.mdb").exists()
}

/// Notes that the catalog of a shared log, which nobody uses any more, is durable.
pub fn mark_clean(dir: &Path) -> Result<()> {
    write_file(&dir.join(BOOT_MARK_FILE), format!("{CLEAN_WORD} {}", boot_id()?).as_bytes())
}

/// When the last process closes the store, makes the catalog durable and notes it as clean, if the log is durable to its
/// end: a durable catalog must not name a commit that the log may lose. If anything fails, the mark stays as it is, and the
/// catalog is rebuilt after the next restart of the machine.
pub fn close(dir: &Path, lock: &Locked, catalog: &Catalog) {
    let close = || -> Result<()> {
        if catalog.is_shared() {
            // Its node does this.
            return Ok(());
        }
        lock.change(FlockOperation::NonBlockingLockExclusive).map_err(Error::io("locking the store"))?;
        // If the catalog was not compared with the targets yet, the next opener does that.
        if read_mark(dir)? != Mark::ThisBoot {
            return Ok(());
        }
        let tail = catalog.tail()?;
        // The mark is itself the last commit. All commits before it are durable, with their frames. Without any mark, the
        // first commit would be mistaken for one.
        let synced = catalog.synced()?;
        if synced + 1 < tail.sequence || synced == 0 && tail.sequence > 0 {
            return Ok(());
        }
        // The process that committed the mark may have ended before it synced the log behind it.
        catalog.log().sync(tail)?;
        // A sync that failed is noted at the file: the next one succeeds although bytes are missing. A catalog with the note
        // is never clean; one that is made from the log is a new file.
        let data = dir.join("catalog").join("data.mdb");
        let data = open_regular(&data).map_err(Error::io(format!("opening {}", data.display())))?;
        if failed_sync::has_failed(&data).map_err(Error::io("asking for a failed sync of the catalog"))? {
            return Ok(());
        }
        catalog.force_sync().inspect_err(|_| failed_sync::note(&data))?;
        mark_clean(dir)
    };
    if let Err(error) = close() {
        tracing::debug!(store = %dir.display(), %error, "the store could not be marked as cleanly closed; its catalog is rebuilt after the next restart of the machine");
    }
}

pub fn random_id() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
