//! Reads a file of a watched directory in parts.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use terrace::Attributes;

use crate::entry::SourceFile;
use crate::request::{Name, Place, Request};

/// The size of a part, which becomes one request.
const PART_BYTES: u64 = 1 << 20;

/// A file that is being pulled.
pub struct Reading {
    pub name: Name,
    pub facts: Arc<SourceFile>,
    file: File,
    size: u64,
    offset: u64,
}

/// The number of parts of a file. An empty file has one part.
pub fn parts(size: u64) -> u64 {
    size.div_ceil(PART_BYTES).max(1)
}

impl Reading {
    /// Starts at the first byte.
    pub fn new(name: &Name, file: File, metadata: &Metadata) -> Reading {
        let (device, inode) = (metadata.dev(), metadata.ino());
        let facts =
            Arc::new(SourceFile { attributes: Attributes::of(metadata), device, inode, delivered_to: OnceLock::new() });
        Reading { name: name.clone(), facts, file, size: metadata.size(), offset: 0 }
    }

    /// Reads the next part.
    pub fn part(&mut self) -> io::Result<Request> {
        let offset = self.offset;
        let mut bytes = vec![0; (self.size - offset.min(self.size)).min(PART_BYTES) as usize];
        match self.file.read_exact_at(&mut bytes, offset) {
            Ok(()) => {}
            // The file was truncated. Its delivery restarts when the changed identity is noticed.
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(e) => return Err(e),
        }
        self.offset += bytes.len() as u64;
        let ends = self.offset >= self.size;
        Ok(Request { destination: self.name.clone(), place: Place::At(offset), bytes: Bytes::from(bytes), ends })
    }
}
