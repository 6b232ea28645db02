//! The attributes of files, and how they are stored in an object's attributes.
//!
//! Every object has a mode and a time of modification. Attributes that only files have are kept in `posix.` pairs, and only
//! if they differ from the default: the owner from the store's, the other times from the time of modification.

use terrace_catalog::{Attributes, Kind, Object};
use terrace_system::clock::unix_nanos;

const UID_ATTRIBUTE: &str = "posix.uid";
const GID_ATTRIBUTE: &str = "posix.gid";
const ACCESSED_ATTRIBUTE: &str = "posix.accessed";
const CHANGED_ATTRIBUTE: &str = "posix.changed";
const TYPE_ATTRIBUTE: &str = "posix.type";
const DEVICE_ATTRIBUTE: &str = "posix.device";
/// The permission bits of a directory that exists only as a part of keys.
pub const DIRECTORY_MODE: u32 = 0o755;

/// The owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Owner {
    /// Returns the owner of a file of the system.
    pub fn of(metadata: &std::fs::Metadata) -> Owner {
        use std::os::unix::fs::MetadataExt;
        Owner { uid: metadata.uid(), gid: metadata.gid() }
    }

    /// Returns the owner of an object: `usual`, the store's owner, if its attributes name none.
    pub fn of_object(attributes: &Attributes, usual: Owner) -> Owner {
        let id = |name, usual| attributes.user.get(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
        Owner { uid: id(UID_ATTRIBUTE, usual.uid), gid: id(GID_ATTRIBUTE, usual.gid) }
    }

    /// Records the owner in attributes, if it differs from `usual`.
    pub fn keep(self, attributes: &mut Attributes, usual: Owner) {
        for (name, id, usual) in [(UID_ATTRIBUTE, self.uid, usual.uid), (GID_ATTRIBUTE, self.gid, usual.gid)] {
            match id == usual {
                true => attributes.user.remove(name),
                false => attributes.user.insert(name.to_owned(), id.to_string()),
            };
        }
    }
}

/// A special file. It has no bytes; its behaviour is up to the door that shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// A named pipe.
    Pipe,
    /// A socket of the local machine.
    Socket,
    /// A character device of this number.
    Character(u32),
    /// A block device of this number.
    Block(u32),
}

impl Special {
    /// Returns its name in an object's attributes, and the device's number.
    fn pair(self) -> (&'static str, Option<u32>) {
        match self {
            Special::Pipe => ("pipe", None),
            Special::Socket => ("socket", None),
            Special::Character(device) => ("character", Some(device)),
            Special::Block(device) => ("block", Some(device)),
        }
    }

    /// Reads it from an object's attributes.
    pub fn of(attributes: &Attributes) -> Option<Special> {
        let device = || attributes.user.get(DEVICE_ATTRIBUTE).and_then(|text| text.parse().ok()).unwrap_or_default();
        match attributes.user.get(TYPE_ATTRIBUTE)?.as_str() {
            "pipe" => Some(Special::Pipe),
            "socket" => Some(Special::Socket),
            "character" => Some(Special::Character(device())),
            "block" => Some(Special::Block(device())),
            _ => None,
        }
    }
}

/// The attributes of a file. Times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The object's number. None for the root, and for a directory that exists only as a prefix of keys.
    pub id: Option<u64>,
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// The kind of special file, if it is one; `kind` is then a file's.
    pub special: Option<Special>,
    /// Length in bytes.
    pub length: u64,
    /// Permission bits.
    pub mode: u32,
    /// The owner.
    pub owner: Owner,
    /// When its bytes were last changed.
    pub modified: i64,
    /// When it was last read, if a program has set this. Reading does not change it.
    pub accessed: i64,
    /// When its bytes or attributes were last changed.
    pub changed: i64,
    /// 0 for a file that was removed and is still open, else 1.
    pub links: u32,
}

impl Stat {
    /// Returns the file attributes of an object. It belongs to `owner` if it records no other.
    pub(super) fn of(object: &Object, owner: Owner) -> Stat {
        let attributes = &object.attributes;
        let pair = |name| attributes.user.get(name);
        let time = |name| pair(name).and_then(|text| text.parse().ok());
        let modified = attributes.mtime;
        Stat {
            id: Some(object.id),
            kind: attributes.kind,
            special: Special::of(attributes),
            length: if attributes.kind == Kind::Directory { 0 } else { object.length },
            mode: attributes.mode,
            owner: Owner::of_object(attributes, owner),
            modified,
            accessed: time(ACCESSED_ATTRIBUTE).unwrap_or(modified),
            changed: time(CHANGED_ATTRIBUTE).map_or(modified, |changed: i64| changed.max(modified)),
            links: 1,
        }
    }

    /// Returns the attributes of a directory that exists only as a prefix of keys.
    pub(super) fn implied(owner: Owner, time: i64) -> Stat {
        Stat {
            id: None,
            kind: Kind::Directory,
            special: None,
            length: 0,
            mode: DIRECTORY_MODE,
            owner,
            modified: time,
            accessed: time,
            changed: time,
            links: 1,
        }
    }

    /// Returns the attributes of a new, empty file.
    pub(super) fn fresh(kind: Kind, mode: u32, owner: Owner) -> Stat {
        Stat { kind, mode: mode & 0o7777, ..Stat::implied(owner, unix_nanos()) }
    }

    /// Returns object attributes that hold these file attributes, and the other pairs of `user`.
    pub(super) fn attributes(&self, mut user: std::collections::BTreeMap<String, String>, usual: Owner) -> Attributes {
        if let Some((name, device)) = self.special.map(Special::pair) {
            user.insert(TYPE_ATTRIBUTE.to_owned(), name.to_owned());
            user.extend(device.map(|device| (DEVICE_ATTRIBUTE.to_owned(), device.to_string())));
        }
        let mut say = |name: &str, value: i64, usual: bool| {
            match usual {
                true => user.remove(name),
                false => user.insert(name.to_owned(), value.to_string()),
            };
        };
        say(ACCESSED_ATTRIBUTE, self.accessed, self.accessed == self.modified);
        say(CHANGED_ATTRIBUTE, self.changed, self.changed <= self.modified);
        let mut attributes = Attributes { kind: self.kind, mtime: self.modified, mode: self.mode, user };
        self.owner.keep(&mut attributes, usual);
        attributes
    }
}

/// Changes to a file's attributes. `None` leaves an attribute as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setting {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The time of the last read, in nanoseconds since 1970.
    pub accessed: Option<i64>,
    /// The time of modification, in nanoseconds since 1970.
    pub modified: Option<i64>,
}

impl Setting {
    pub(super) fn apply(&self, stat: &mut Stat) {
        stat.mode = self.mode.map_or(stat.mode, |mode| mode & 0o7777);
        stat.owner = Owner { uid: self.uid.unwrap_or(stat.owner.uid), gid: self.gid.unwrap_or(stat.owner.gid) };
        stat.accessed = self.accessed.unwrap_or(stat.accessed);
        stat.modified = self.modified.unwrap_or(stat.modified);
        stat.changed = unix_nanos();
    }
}
