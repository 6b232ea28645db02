//! Modes, owners and times of files that `get` writes.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};
use terrace::Attributes;
use terrace::files::Owner;

use crate::output::count;

const SET_USER_ID: u32 = 0o4000;
const SET_GROUP_ID: u32 = 0o2000;
const ALL_MODE_BITS: u32 = 0o7777;

/// How many files did not get all that is known about them.
#[derive(Default)]
pub struct NotRestored {
    pub owners: u64,
    pub modes: u64,
}

impl NotRestored {
    /// What people are told of it.
    pub fn words(&self) -> Option<String> {
        if self.owners == 0 {
            return None;
        }
        let mut words = format!("the owner of {} is not restored, which needs root", count(self.owners, "file"));
        if self.modes > 0 {
            words.push_str(&format!("; {} lost setuid or setgid by that", self.modes));
        }
        Some(words)
    }

    /// Gives what is at `path`, a link itself, the owner that the attributes say, where that is allowed.
    pub fn owner(&mut self, path: &Path, attributes: &Attributes, usual: Owner) -> io::Result<()> {
        let wanted = Owner::of_object(attributes, usual);
        if Owner::of(&fs::symlink_metadata(path)?) == wanted {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(wanted.uid), Gid::from_raw(wanted.gid));
        let give = |user, group| chownat(CWD, path, user, group, AtFlags::SYMLINK_NOFOLLOW);
        if give(Some(user), Some(group)).is_err() {
            // One of the user's own groups may be given by anybody.
            let _ = give(None, Some(group));
            self.owners += 1;
            tracing::info!(path = %path.display(), "the owner is not restored");
        }
        Ok(())
    }

    /// Gives a file its mode and its time, after its owner: a change of the owner takes setuid and setgid away.
    pub fn mode_and_time(&mut self, file: &File, attributes: &Attributes, usual: Owner) -> io::Result<()> {
        let wanted = attributes.mode & ALL_MODE_BITS;
        let mode = allowed_mode(attributes, Owner::of(&file.metadata()?), usual);
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        // The system leaves bits off by itself that this user may not set.
        self.modes += u64::from(file.metadata()?.mode() & ALL_MODE_BITS != wanted);
        file.set_modified(modified(attributes))
    }
}

/// The mode that a file of `owner` may have. It is setuid or setgid only for whom it was so: else a program of one user would run with the
/// rights of another.
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

/// The time of modification that the attributes say.
pub fn modified(attributes: &Attributes) -> SystemTime {
    let distance = Duration::from_nanos(attributes.mtime.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let time = if attributes.mtime < 0 { epoch.checked_sub(distance) } else { epoch.checked_add(distance) };
    time.unwrap_or(epoch)
}
