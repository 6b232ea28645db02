//! Restores the modes, owners and times of files that `get` writes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};
use terrace::Attributes;
use terrace::files::Owner;

use crate::output::count;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const ALL_MODE_BITS: u32 = 0o7777;

/// The number of files with attributes that could not be restored.
#[derive(Default)]
pub struct NotRestored {
    // Relaxed everywhere: counts, which are read once all threads have ended.
    owners: AtomicU64,
    modes: AtomicU64,
}

impl NotRestored {
    /// The number of files without their owner.
    pub fn owners(&self) -> u64 {
        self.owners.load(Ordering::Relaxed)
    }

    /// The number of files without their mode.
    pub fn modes(&self) -> u64 {
        self.modes.load(Ordering::Relaxed)
    }

    /// Returns the message for users, if any.
    pub fn words(&self) -> Option<String> {
        if self.owners() == 0 {
            return None;
        }
        let mut words = format!("the owner of {} is not restored, which needs root", count(self.owners(), "file"));
        if self.modes() > 0 {
            words.push_str(&format!("; {} lost setuid or setgid by that", self.modes()));
        }
        Some(words)
    }

    /// Sets the recorded owner of the file, or of the link itself, at `path`, if permitted.
    pub fn owner(&self, path: &Path, attributes: &Attributes, usual: Owner) -> io::Result<()> {
        let wanted = Owner::of_object(attributes, usual);
        if Owner::of(&fs::symlink_metadata(path)?) == wanted {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(wanted.uid), Gid::from_raw(wanted.gid));
        let give = |user, group| chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW);
        if give(Some(user), Some(group)).is_err() {
            // A user may set any of the user's own groups.
            let _ = give(None, Some(group));
            self.owners.fetch_add(1, Ordering::Relaxed);
            tracing::info!(path = %path.display(), "the owner is not restored");
        }
        Ok(())
    }

    /// Sets a file's mode and time. Call it after setting the owner, because a change of the owner clears setuid and setgid.
    pub fn mode_and_time(&self, file: &File, attributes: &Attributes, usual: Owner) -> io::Result<()> {
        let wanted = attributes.mode & ALL_MODE_BITS;
        let mode = allowed_mode(attributes, Owner::of(&file.metadata()?), usual);
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        // The system silently drops mode bits that this user may not set.
        if file.metadata()?.mode() & ALL_MODE_BITS != wanted {
            self.modes.fetch_add(1, Ordering::Relaxed);
        }
        file.set_modified(modified(attributes))
    }
}

/// Returns the mode that is safe for a file of `owner`. It keeps setuid and setgid only for the user or group that had them: otherwise a
/// program of one user would run with the rights of another.
pub fn allowed_mode(attributes: &Attributes, owner: Owner, usual: Owner) -> u32 {
    let wanted = Owner::of_object(attributes, usual);
    let mut mode = attributes.mode & ALL_MODE_BITS;
    if owner.uid != wanted.uid {
        mode &= !SET_USER_ID;
    }
    if owner.gid != wanted.gid {
        mode &= !SET_GROUP_ID;
    }
    mode
}

/// Returns whether a file has the mode and time that it gets.
pub fn has_mode_and_time(found: &fs::Metadata, attributes: &Attributes, usual: Owner) -> io::Result<bool> {
    let mode = allowed_mode(attributes, Owner::of(found), usual);
    Ok(found.mode() & ALL_MODE_BITS == mode && found.modified()? == modified(attributes))
}

/// Returns the recorded modification time.
fn modified(attributes: &Attributes) -> SystemTime {
    let distance = Duration::from_nanos(attributes.mtime.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if attributes.mtime < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
    time.unwrap_or(epoch)
}
