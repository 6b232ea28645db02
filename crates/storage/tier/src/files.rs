//! Targets that also hold whole objects as ordinary files.

use std::fs::File;
use std::io;

use terrace_format::frame::Frame;

use super::Place;

/// A plain file, with the attributes that it has under its key.
#[derive(Clone, Copy, Debug)]
pub struct Whole {
    /// Its number.
    pub file: u64,
    /// The object's length.
    pub length: u64,
    /// The object's permission bits.
    pub mode: u32,
    /// The object's last modification: nanoseconds since 1970.
    pub mtime: i64,
}

/// How the bytes of another program's file became a plain file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adoption {
    /// As a file of the target's own, which shares the blocks of the other one until one of them is changed.
    Cloned,
    /// As a further name (hard link) of the other file. The target only reads it.
    Linked,
}

/// Whole objects as ordinary files, which are readable without Terrace.
///
/// Each file has a number, in which [`PLAIN_SEGMENT_BIT`](crate::PLAIN_SEGMENT_BIT) is set, and may stand under the key of its object. Its frames
/// are read, synced, scanned and discarded by the methods of [`Target`](crate::Target), with the number as their segment.
pub trait FileStore: Send + Sync {
    /// Writes a raw frame into the file of this number, at the frame's own offset. The first frame creates the file.
    fn write_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place>;

    /// Makes the bytes of another program's file the plain file of this number, without copying them. None if the file system can
    /// neither clone nor link the file here. The other file is not changed, now or later, by any method.
    fn adopt(&self, file: u64, source: &File) -> io::Result<Option<Adoption>>;

    /// Adds the header of a raw frame whose payload is in the adopted file already, at the frame's own offset.
    fn describe_frame(&self, file: u64, frame: &Frame<'_>) -> io::Result<Place>;

    /// Returns whether a file was adopted as a hard link, so that its owner may change it.
    fn is_linked(&self, file: u64) -> bool;

    /// Puts the file `now` under a key, and replaces any file there. Without `now`, removes the key's file if it is one of
    /// `before`. Files of others stay.
    ///
    /// Returns false, and leaves the name as it is, if the file is longer than its object. A file is never truncated: the bytes
    /// behind the object's end may be needed until the next sync mark.
    ///
    /// A linked file gets no name under its key: its owner could change it there.
    fn set_name(&self, key: &[u8], now: Option<&Whole>, before: &[u64]) -> io::Result<bool>;

    /// Returns whether this file stands under a key and is not longer than its object, or needs no name because it is linked.
    fn is_named(&self, key: &[u8], whole: &Whole) -> io::Result<bool>;

    /// Lists the keys under which plain files stand, with the number of each file.
    fn names(&self) -> io::Result<Vec<(Vec<u8>, u64)>>;

    /// Lists the numbers of all plain files.
    fn numbers(&self) -> io::Result<Vec<u64>>;
}
