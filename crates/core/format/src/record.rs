//! The records of objects in the catalog and the commit log.

use std::collections::{BTreeMap, HashSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use terrace_codec::Encoding;
use terrace_system::clock::unix_nanos;

use crate::Place;

/// A target's number in its store; never given to another target.
pub type TargetId = u16;

/// One stored copy of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replica {
    /// The target that holds it.
    pub target: TargetId,
    /// Where its frame lies there.
    pub place: Place,
    /// Bytes of the frame's payload.
    pub stored: u32,
    /// How it is encoded.
    pub encoding: Encoding,
}

/// An immutable run of an object's bytes, or what newer writes have left of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "UncheckedExtent")]
pub struct Extent {
    /// The first byte's offset in the object.
    pub offset: u64,
    /// Bytes that are still visible.
    pub length: u32,
    /// How many of the frame's raw bytes come before `offset`.
    pub skip: u32,
    /// Raw bytes of the whole frame.
    pub raw_len: u32,
    /// The write that made the frames; with the frame's first offset it names them.
    pub write: u64,
    /// The copies that exist.
    pub replicas: SmallVec<[Replica; 3]>,
}

/// An extent as it is stored. A record may be damaged, or made up, and still have the right checksum.
#[derive(Deserialize)]
struct UncheckedExtent {
    offset: u64,
    length: u32,
    skip: u32,
    raw_len: u32,
    write: u64,
    replicas: SmallVec<[Replica; 3]>,
}

impl TryFrom<UncheckedExtent> for Extent {
    type Error = &'static str;

    /// Offsets are added and subtracted everywhere: an extent whose sums do not exist must not come in.
    fn try_from(stored: UncheckedExtent) -> Result<Extent, Self::Error> {
        let UncheckedExtent { offset, length, skip, raw_len, write, replicas } = stored;
        let frame_end = offset.checked_sub(skip.into()).and_then(|start| start.checked_add(raw_len.into()));
        let visible = skip.checked_add(length).filter(|visible| *visible <= raw_len);
        match (frame_end, visible) {
            (Some(_), Some(_)) => Ok(Extent { offset, length, skip, raw_len, write, replicas }),
            _ => Err("an extent lies outside of its frame"),
        }
    }
}

impl Extent {
    /// The offset in the object of the frame's first raw byte.
    pub fn frame_offset(&self) -> u64 {
        self.offset - u64::from(self.skip)
    }

    /// The offset behind the last visible byte.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }

    /// Whether both are parts of one frame.
    pub fn same_frame(&self, other: &Extent) -> bool {
        self.frame() == other.frame()
    }

    /// The identity of its frame among all frames of the object: the write, and where the frame begins.
    pub fn frame(&self) -> (u64, u64) {
        (self.write, self.frame_offset())
    }
}

/// One extent of each frame: a frame whose middle was overwritten has two.
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
    /// A directory, kept where it is empty.
    Directory,
    /// A symbolic link; its bytes are where it points.
    Symlink,
}

/// The attributes of an object; `get` restores them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// File, directory or symlink.
    pub kind: Kind,
    /// Last modification: nanoseconds since 1970.
    pub mtime: i64,
    /// Permission bits.
    pub mode: u32,
    /// Whatever else the user wants kept.
    pub user: BTreeMap<String, String>,
}

impl Attributes {
    /// Those of a file that was modified just now.
    pub fn now() -> Attributes {
        Attributes { mode: 0o644, mtime: unix_nanos(), ..Attributes::default() }
    }

    /// Those of a file of the system.
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

/// An object as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Object {
    /// Its number; a rename keeps it, a `put` over the key gives a new one.
    pub id: u64,
    /// The sequence of the last commit that changed it.
    pub generation: u64,
    /// Its length in bytes. Bytes that no extent covers are zero.
    pub length: u64,
    /// How many replicas each extent should have.
    pub want: u8,
    /// All else.
    pub attributes: Attributes,
    /// Its extents where they are two or fewer; else they have records of their own.
    pub inline: Option<SmallVec<[Extent; 2]>>,
}

/// A replica that is to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owed {
    /// The object's key.
    #[serde(with = "serde_bytes")]
    pub key: Vec<u8>,
    /// Raw bytes of the frame.
    pub raw_len: u32,
    /// The target from which the replica is dropped once the new one is there.
    pub then_drop: Option<TargetId>,
    /// The sequence of the commit that owed it.
    pub since: u64,
}

/// Names an owed replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Task {
    /// The object.
    pub object: u64,
    /// The frame's first offset in it.
    pub frame_offset: u64,
    /// The write that made the frame.
    pub write: u64,
    /// Where the replica is to be.
    pub target: TargetId,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log record whose checksum was right held an extent that began before its frame: replaying it panicked.
    #[test]
    fn extents_outside_of_their_frames_are_not_decoded() {
        let inside = Extent { offset: 500, length: 100, skip: 50, raw_len: 200, write: 1, replicas: SmallVec::new() };
        let decode = |extent: &Extent| postcard::from_bytes::<Extent>(&postcard::to_stdvec(extent).expect("encodes"));
        assert_eq!(decode(&inside), Ok(inside.clone()));
        let outside = [
            Extent { skip: 101, ..inside.clone() },
            Extent { skip: 501, raw_len: 1000, ..inside.clone() },
            Extent { length: u32::MAX, ..inside.clone() },
            Extent { offset: u64::MAX, ..inside },
        ];
        for extent in outside {
            assert!(decode(&extent).is_err(), "{extent:?}");
        }
    }
}
