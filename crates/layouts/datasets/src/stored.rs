//! The replicas of a dataset and their files, as they are stored.

use terrace::Element;
use terrace_views::layout::Layout;

use crate::declared::UpdateTime;

/// A replica.
pub struct StoredReplica {
    pub layout: Layout,
    /// The number of the replica's first file among [`Loaded::files`].
    pub first_file: usize,
    pub when: UpdateTime,
}

/// A file of a replica.
pub struct StoredFile {
    pub replica: usize,
    pub key: Vec<u8>,
    pub layout: Layout,
    /// The element type, if all elements of the file have the same one.
    pub element: Option<Element>,
}

impl StoredFile {
    /// Returns the file's length in bytes.
    pub fn length(&self) -> u64 {
        self.layout.files.first().copied().unwrap_or(0)
    }
}

impl StoredReplica {
    /// Returns the numbers of the replica's files.
    pub fn files(&self) -> std::ops::Range<usize> {
        self.first_file..self.first_file + self.layout.files.len()
    }
}
