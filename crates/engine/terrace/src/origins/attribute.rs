//! The attributes by which objects of origins are known.

use terrace_catalog::{Attributes, Kind, Object};
pub use terrace_format::ORIGIN_ATTRIBUTE;
use terrace_tier::{OriginEntry, OriginKind, is_recent};

/// When a folder was last listed: nanoseconds since 1970.
const LISTED_ATTRIBUTE: &str = "terrace.origin.listed";
/// The number of names in a folder that cannot be shown.
pub const LEFT_OUT_ATTRIBUTE: &str = "terrace.origin.left-out";

/// The permission bits of entries of an origin without any. As on a read-only mount, they say nothing about writing here.
const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;

/// The record of an object about its origin.
pub struct Pinned<'a> {
    /// The number of the origin.
    pub number: u32,
    /// The identity of the bytes. Empty for a folder.
    pub identity: &'a str,
}

impl Pinned<'_> {
    /// Reads it from an object's attributes.
    pub fn of(object: &Object) -> Option<Pinned<'_>> {
        let text = object.attributes.user.get(ORIGIN_ATTRIBUTE)?;
        let (number, identity) = text.split_once(' ').unwrap_or((text, ""));
        Some(Pinned { number: number.parse().ok()?, identity })
    }

    /// Returns whether the file was being written when it was looked at.
    pub fn is_recent(&self) -> bool {
        is_recent(self.identity)
    }

    /// Returns whether the object is this entry.
    pub fn is(object: &Object, origin: u32, entry: &OriginEntry) -> bool {
        let same = |pinned: Pinned<'_>| pinned.number == origin && pinned.identity == entry.identity;
        object.attributes.kind == kind_of(entry)
            && object.length == entry.length
            && Pinned::of(object).is_some_and(same)
    }
}

/// Returns whether bytes in holes of the object are at an origin.
pub fn is_at_origin(object: &Object) -> bool {
    object.attributes.user.contains_key(ORIGIN_ATTRIBUTE)
}

/// Makes attributes, perhaps those of a file of an origin, the attributes of an object that holds its own bytes.
pub fn forget_origin(attributes: &mut Attributes) {
    attributes.user.remove(ORIGIN_ATTRIBUTE);
}

/// Returns the attributes of the object that shows an entry.
pub fn attributes_of(origin: u32, entry: &OriginEntry) -> Attributes {
    let usual = if entry.kind == OriginKind::Folder { FOLDER_MODE } else { FILE_MODE };
    let text = match entry.kind {
        OriginKind::Folder => origin.to_string(),
        OriginKind::File | OriginKind::Link => format!("{origin} {}", entry.identity),
    };
    Attributes {
        kind: kind_of(entry),
        mtime: entry.modified,
        mode: entry.mode.map_or(usual, |mode| mode & 0o777),
        user: [(ORIGIN_ATTRIBUTE.to_owned(), text)].into(),
    }
}

fn kind_of(entry: &OriginEntry) -> Kind {
    match entry.kind {
        OriginKind::File => Kind::File,
        OriginKind::Folder => Kind::Directory,
        OriginKind::Link => Kind::Symlink,
    }
}

/// Returns when a folder was last listed.
pub fn listed_at(folder: &Object) -> Option<i64> {
    folder.attributes.user.get(LISTED_ATTRIBUTE)?.parse().ok()
}

/// Notes that a folder was listed at a time, and how many names cannot be shown.
pub fn note_listed(attributes: &mut Attributes, at: i64, left_out: u64) {
    attributes.user.insert(LISTED_ATTRIBUTE.to_owned(), at.to_string());
    match left_out {
        0 => attributes.user.remove(LEFT_OUT_ATTRIBUTE),
        _ => attributes.user.insert(LEFT_OUT_ATTRIBUTE.to_owned(), left_out.to_string()),
    };
}
