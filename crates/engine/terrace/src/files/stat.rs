//! What a file is beside its bytes, and how an object's attributes say it.
//!
//! Mode and time of modification are attributes of every object. What only files have is kept in `posix.` pairs, and
//! only where it differs from what is usual: the owner from the store's, the other times from that of modification.

use terrace_catalog::{Attributes, Kind, Object};
use terrace_system::clock::unix_nanos;

const UID: &str = "posix.uid";
const GID: &str = "posix.gid";
const ACCESSED: &str = "posix.accessed";
const CHANGED: &str = "posix.changed";
const TYPE: &str = "posix.type";
const DEVICE: &str = "posix.device";
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
        Owner { uid: id(UID, usual.uid), gid: id(GID, usual.gid) }
    }

    /// Makes attributes say it, where it is another than `usual`.
    pub fn keep(self, attributes: &mut Attributes, usual: Owner) {
        for (name, id, usual) in [(UID, self.uid, usual.uid), (GID, self.gid, usual.gid)] {
            match id == usual {
                true => attributes.user.remove(name),
                false => attributes.user.insert(name.to_owned(), id.to_string()),
            };
        }
    }
}

/// What is no file, but has a place among files. Its bytes are none; what it does is up to whoever shows it.
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

    /// What an object's attributes say.
    pub(super) fn of(attributes: &Attributes) -> Option<Special> {
        let device = || attributes.user.get(DEVICE).and_then(|text| text.parse().ok()).unwrap_or_default();
        match attributes.user.get(TYPE)?.as_str() {
            "pipe" => Some(Special::Pipe),
            "socket" => Some(Special::Socket),
            "character" => Some(Special::Character(device())),
            "block" => Some(Special::Block(device())),
            _ => None,
        }
    }
}

/// What is known about a file. Times are nanoseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The object's number; none for the root, and for a directory that exists only as a part of keys.
    pub id: Option<u64>,
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// What it is where it is no file after all; its kind is a file's then.
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
    /// What an object is as a file; it belongs to `owner` where nothing else is said.
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
            accessed: time(ACCESSED).unwrap_or(modified),
            changed: time(CHANGED).map_or(modified, |changed: i64| changed.max(modified)),
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
            user.insert(TYPE.to_owned(), name.to_owned());
            user.extend(device.map(|device| (DEVICE.to_owned(), device.to_string())));
        }
        let mut say = |name: &str, value: i64, usual: bool| {
            match usual {
                true => user.remove(name),
                false => user.insert(name.to_owned(), value.to_string()),
            };
        };
        say(ACCESSED, self.accessed, self.accessed == self.modified);
        say(CHANGED, self.changed, self.changed <= self.modified);
        let mut attributes = Attributes { kind: self.kind, mtime: self.modified, mode: self.mode, user };
        self.owner.keep(&mut attributes, usual);
        attributes
    }
}

/// What is to be changed of a file's attributes; what is none stays.
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
