//! The records of objects in the catalog and the commit log.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::de::{Error, SeqAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;
use terrace_codec::Encoding;
use terrace_system::clock::unix_nanos;

use crate::Place;

/// A target's number in its store. It is never given to another target.
pub type TargetId = u16;

/// A stored copy of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The target that holds it.
    pub target: TargetId,
    /// The place of its frame there.
    pub place: Place,
    /// Length of the frame's payload in bytes.
    pub stored: u32,
    /// Its encoding.
    pub encoding: Encoding,
}

/// The object and the offset under which a frame was written, as in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Source {
    /// The object.
    pub object: u64,
    /// The frame's first offset in it.
    pub offset: u64,
}

/// An immutable run of an object's bytes, or the part of it that newer writes have left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first byte's offset in the object.
    pub offset: u64,
    /// Number of bytes that are still visible.
    pub length: u32,
    /// Number of the frame's raw bytes before `offset`.
    pub skip: u32,
    /// Number of raw bytes of the whole frame.
    pub raw_len: u32,
    /// The write that made the frame. Together with the frame's first offset it identifies the frame.
    pub write: u64,
    /// The replicas that exist. In the catalog's records, the replicas of a shared frame are in the frame's record.
    pub replicas: SmallVec<[Replica; 3]>,
    /// The source of a shared frame. The catalog then has a record for the frame, which may have several owners.
    pub source: Option<Source>,
}

/// In the record of an extent with a source, this value is in place of the raw length, which is never 0. Programs that do not know
/// sources refuse the record.
const SOURCE_FOLLOWS: u32 = 0;
/// Fields of an extent with a source.
const EXTENT_FIELDS: [&str; 8] = ["offset", "length", "skip", "raw_len", "write", "replicas", "frame_len", "source"];

impl Serialize for Extent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let count = if self.source.is_some() { EXTENT_FIELDS.len() } else { EXTENT_FIELDS.len() - 2 };
        let mut fields = serializer.serialize_struct("Extent", count)?;
        fields.serialize_field(EXTENT_FIELDS[0], &self.offset)?;
        fields.serialize_field(EXTENT_FIELDS[1], &self.length)?;
        fields.serialize_field(EXTENT_FIELDS[2], &self.skip)?;
        let raw_len = if self.source.is_some() { SOURCE_FOLLOWS } else { self.raw_len };
        fields.serialize_field(EXTENT_FIELDS[3], &raw_len)?;
        fields.serialize_field(EXTENT_FIELDS[4], &self.write)?;
        fields.serialize_field(EXTENT_FIELDS[5], &self.replicas)?;
        if let Some(source) = &self.source {
            fields.serialize_field(EXTENT_FIELDS[6], &self.raw_len)?;
            fields.serialize_field(EXTENT_FIELDS[7], source)?;
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Extent", &EXTENT_FIELDS, ExtentFields)
    }
}

struct ExtentFields;

impl<'de> Visitor<'de> for ExtentFields {
    type Value = Extent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an extent")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Extent, A::Error> {
        fn next<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(fields: &mut A) -> Result<T, A::Error> {
            fields.next_element()?.ok_or_else(|| A::Error::custom("an extent ends early"))
        }
        let mut extent = Extent {
            offset: next(&mut fields)?,
            length: next(&mut fields)?,
            skip: next(&mut fields)?,
            raw_len: next(&mut fields)?,
            write: next(&mut fields)?,
            replicas: next(&mut fields)?,
            source: None,
        };
        if extent.raw_len == SOURCE_FOLLOWS {
            extent.raw_len = next(&mut fields)?;
            extent.source = Some(next(&mut fields)?);
        }
        extent.check().map_err(A::Error::custom)?;
        Ok(extent)
    }
}

impl Extent {
    /// Checks that sums of its numbers do not overflow, because they are added and subtracted everywhere. A record may be
    /// damaged, or forged, and still have a correct checksum.
    fn check(&self) -> Result<(), &'static str> {
        let frame_end =
            self.offset.checked_sub(self.skip.into()).and_then(|start| start.checked_add(self.raw_len.into()));
        let visible = self.skip.checked_add(self.length).filter(|visible| *visible <= self.raw_len);
        let source_end = self.source.map_or(Some(0), |source| source.offset.checked_add(self.raw_len.into()));
        match (frame_end, visible, source_end) {
            (Some(_), Some(_), Some(_)) => Ok(()),
            _ => Err("an extent lies outside of its frame"),
        }
    }
}

impl Extent {
    /// Returns the offset in the object of the frame's first raw byte.
    pub fn frame_offset(&self) -> u64 {
        self.offset - u64::from(self.skip)
    }

    /// Returns the offset behind the last visible byte.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// Returns whether both are parts of one frame.
    pub fn same_frame(&self, other: &Extent) -> bool {
        self.frame() == other.frame()
    }

    /// Returns the identity of its frame among all frames of the object: the write, and the frame's first offset.
    pub fn frame(&self) -> (u64, u64) {
        (self.write, self.frame_offset())
    }

    /// Returns the source of its frame, for an extent of `object`.
    pub fn source_in(&self, object: u64) -> Source {
        self.source.unwrap_or_else(|| Source { object, offset: self.frame_offset() })
    }

    /// Returns the task for a pending replica of its frame on `target`, for an extent of `object`.
    pub fn task(&self, object: u64, target: TargetId) -> Task {
        let Source { object, offset } = self.source_in(object);
        Task { object, frame_offset: offset, write: self.write, target }
    }
}

/// Returns one extent of each frame. A frame whose middle was overwritten has two extents.
pub fn frames(extents: &[Extent]) -> impl Iterator<Item = &Extent> {
    let mut seen = HashSet::new();
    extents.iter().filter(move |extent| seen.insert(extent.frame()))
}

/// The kind of file that an object is shown as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A regular file.
    #[default]
    File,
    /// A directory. It has an object of its own if it is empty.
    Directory,
    /// A symbolic link. Its bytes are the target's path.
    Symlink,
}

/// The attributes of an object, which `get` restores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// File, directory or symlink.
    pub kind: Kind,
    /// Last modification: nanoseconds since 1970.
    pub mtime: i64,
    /// Permission bits.
    pub mode: u32,
    /// Other attributes, such as those that a user sets.
    pub user: BTreeMap<String, String>,
}

impl Attributes {
    /// Returns the attributes of a file that was modified just now.
    pub fn now() -> Attributes {
        Attributes { mode: 0o644, mtime: unix_nanos(), ..Attributes::default() }
    }

    /// Returns the attributes of a file of the system.
    pub fn of(metadata: &Metadata) -> Attributes {
        let kind = match metadata.file_type() {
            kind if kind.is_dir() => Kind::Directory,
            kind if kind.is_symlink() => Kind::Symlink,
            _ => Kind::File,
        };
        let mtime = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
        Attributes { kind, mtime, mode: metadata.mode() & 0o7777, ..Attributes::default() }
    }
}

/// An object, as recorded in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its number. A rename keeps it; a `put` to its key makes a new object, with a new number.
    pub id: u64,
    /// The sequence of the last commit that changed it.
    pub generation: u64,
    /// Its length in bytes. Bytes that no extent covers are zero.
    pub length: u64,
    /// How many replicas each extent should have.
    pub want: u8,
    /// The other attributes.
    pub attributes: Attributes,
    /// Its extents if there are at most two. Otherwise they have records of their own.
    pub extents_in_record: Option<SmallVec<[Extent; 2]>>,
}

/// A pending replica.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// The object's key.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// Number of raw bytes of the frame.
    pub raw_len: u32,
    /// The target from which a replica is dropped once this one is made.
    pub then_drop: Option<TargetId>,
    /// The sequence of the commit that made it pending.
    pub since: u64,
}

/// Identifies a pending replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Task {
    /// The object.
    pub object: u64,
    /// The frame's first offset in it.
    pub frame_offset: u64,
    /// The write that made the frame.
    pub write: u64,
    /// The target of the replica.
    pub target: TargetId,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log record with a correct checksum held an extent that began before its frame. Replaying it panicked.
    #[test]
    fn extents_outside_of_their_frames_are_not_decoded() {
        let replicas = SmallVec::new();
        let inside = Extent { offset: 500, length: 100, skip: 50, raw_len: 200, write: 1, replicas, source: None };
        let decode = |extent: &Extent| postcard::from_bytes::<Extent>(&postcard::to_stdvec(extent).expect("encodes"));
        assert_eq!(decode(&inside), Ok(inside.clone()));
        let outside = [
            Extent { skip: 101, ..inside.clone() },
            Extent { skip: 501, raw_len: 1000, ..inside.clone() },
            Extent { length: u32::MAX, ..inside.clone() },
            Extent { offset: u64::MAX, ..inside.clone() },
            Extent { source: Some(Source { object: 1, offset: u64::MAX }), ..inside.clone() },
        ];
        for extent in outside {
            assert!(decode(&extent).is_err(), "{extent:?}");
        }
        let shared = Extent { source: Some(Source { object: 7, offset: 4096 }), ..inside };
        assert_eq!(decode(&shared), Ok(shared.clone()));
        let two = vec![shared.clone(), shared];
        assert_eq!(postcard::from_bytes::<Vec<Extent>>(&postcard::to_stdvec(&two).expect("encodes")), Ok(two));
    }

    /// The record of an extent in versions without sources, as older programs read it.
    #[test]
    fn older_programs_refuse_an_extent_with_a_source() {
        type Older = (u64, u32, u32, u32, u64, SmallVec<[Replica; 3]>);
        let replicas = SmallVec::new();
        let own = Extent { offset: 500, length: 100, skip: 50, raw_len: 200, write: 1, replicas, source: None };
        let read = |extent: &Extent| {
            let bytes = postcard::to_stdvec(extent).expect("encodes");
            let (_, length, skip, raw_len, ..) = postcard::from_bytes::<Older>(&bytes).expect("decodes");
            skip + length <= raw_len
        };
        assert!(read(&own));
        assert!(
            !read(&Extent { source: Some(Source { object: 7, offset: 0 }), ..own }),
            "it lies outside of its frame"
        );
    }
}
