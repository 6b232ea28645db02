//! The abilities of each kind of target.

/// The abilities of a kind of target, beyond holding frames. Each field is here because some code asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The contents are gone when the process ends, like those of memory.
    pub ends_with_process: bool,
    /// The target is behind a network: a request costs more than the bytes of a frame.
    pub remote: bool,
    /// The path is one of this machine's file systems. It is made absolute, overlaps with no other target's, and shares
    /// the free space of its file system.
    pub local_path: bool,
    /// The path is a directory with the file [`MARKER_FILE`](crate::MARKER_FILE), in which the store may keep a copy of its log.
    pub log_copies: bool,
    /// [`Target::files`](crate::Target::files) offers a [`FileStore`](crate::FileStore).
    pub plain_files: bool,
    /// Frames are appended to segments that stay open for more. While one is open,
    /// [`Target::discard`](crate::Target::discard) refuses to delete it. Without this, each frame is a segment of its own.
    pub open_segments: bool,
    /// The target itself ends calls that take longer than the tier's `timeout`.
    pub ends_hung_calls: bool,
}
