//! The attributes of files, and how an object's attributes hold them.
//!
//! Mode and time of modification are attributes of every object. What only files have is kept in `posix.` pairs, and
//! only where it differs from what is usual: the owner from the store's, the other times from that of modification.

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

/// Who a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

impl Owner {
    /// Of a file of the system.
    pub fn of(metadata: &std::fs::Metadata) -> Owner {
        use std::os::unix::fs::MetadataExt;
        Owner { uid: metadata.uid(), gid: metadata.gid() }
    }

    /// Who an object belongs to; to `usual`, the store's owner, where its attributes say nothing.
    pub fn of_object(attributes: &Attributes, usual: Owner) -> Owner {
        let id = |name, usual| attributes.user.get(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
        Owner { uid: id(UID_ATTRIBUTE, usual.uid), gid: id(GID_ATTRIBUTE, usual.gid) }
    }

    /// Makes attributes say it, where it is another than `usual`.
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
    /// Its name in an object's attributes, and the device's number.
    fn pair(self) -> (&'static str, Option<u32>) {
        match self {
            Special::Pipe => ("pipe", None),
            Special::Socket => ("socket", None),
            Special::Character(device) => ("character", Some(device)),
            Special::Block(device) => ("block", Some(device)),
        }
    }

    /// Reads it from an object's attributes.
    pub(super) fn of(attributes: &Attributes) -> Option<Special> {
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
    /// The object's number; none for the root, and for a directory that exists only as a part of keys.
    pub id: Option<u64>,
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// The kind of special file, if it is one; `kind` is then a file's.
    pub special: Option<Special>,
    /// Bytes.
    pub length: u64,
    /// Permission bits.
    pub mode: u32,
    /// Whose it is.
    pub owner: Owner,
    /// When its bytes were last changed.
    pub modified: i64,
    /// When it was last read, if ever somebody said so: reading does not change it.
    pub accessed: i64,
    /// When anything of it was last changed.
    pub changed: i64,
    /// 0 for a file that was removed and is still open, else 1.
    pub links: u32,
}

impl Stat {
    /// The file attributes of an object. It belongs to `owner` if it records no other.
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

    /// A directory that exists only as a part of keys.
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

    /// A new file of no bytes.
    pub(super) fn fresh(kind: Kind, mode: u32, owner: Owner) -> Stat {
        Stat { kind, mode: mode & 0o7777, ..Stat::implied(owner, unix_nanos()) }
    }

    /// The attributes that say this, other pairs kept.
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
    /// The user that it belongs to.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// The time of reading: nanoseconds since 1970.
    pub accessed: Option<i64>,
    /// The time of modification: nanoseconds since 1970.
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
