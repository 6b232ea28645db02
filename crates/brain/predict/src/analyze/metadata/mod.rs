//! The metadata of self-describing files: the ranges with numbers of one type, and the compressed ranges.
//!
//! A file arrives in windows, one block at a time, as it is written. The parser uses what is completely inside a window,
//! and ignores references to bytes outside, except those of HDF5 to later windows. It does not trust the bytes: lengths and counts are bounds-checked, and invalid
//! metadata are ignored.

mod containers;
mod fits;
mod hdf5;
mod netcdf;
mod npy;
mod parquet;
mod window;

use super::{Elements, Format};
use window::Window;

/// A range of a file that its metadata describe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The offset of the first byte.
    pub start: u64,
    /// The offset after the last byte.
    pub end: u64,
    /// The content of the range.
    pub content: Content,
}

/// The content of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Numbers of one type.
    Numbers(Elements),
    /// Compressed bytes.
    Compressed,
}

/// The maximum number of spans, and of objects examined, per window; a container with more counts as unknown bytes.
const MAX_ENTRIES_PER_WINDOW: usize = 4096;

impl Span {
    /// Returns None if the range is empty.
    fn new(start: u64, length: u64, content: Content) -> Option<Span> {
        let end = start.checked_add(length)?;
        (end > start).then_some(Span { start, end, content })
    }
}

/// Parses the metadata of a file, window by window.
#[derive(Clone, Debug)]
pub struct Metadata {
    format: Format,
    /// HDF5 references to later windows.
    pending: hdf5::Pending,
}

impl Metadata {
    /// Starts parsing a file of this format.
    pub fn new(format: Format) -> Self {
        Metadata { format, pending: hdf5::Pending::default() }
    }

    /// Returns the spans that a window at offset `base` describes, in ascending order. Windows arrive in order; the
    /// first one should contain the head of the file, 64 KiB to 1 MiB.
    pub fn parse(&mut self, base: u64, window: &[u8]) -> Vec<Span> {
        let window = Window { base, bytes: window };
        let mut spans = match self.format {
            Format::Hdf5 => self.pending.parse(window),
            _ if base > 0 => Vec::new(),
            Format::NetCdf => netcdf::spans(window).unwrap_or_default(),
            Format::Parquet => parquet::spans(window).unwrap_or_default(),
            Format::Npy => npy::span(window).into_iter().collect(),
            Format::Fits => fits::spans(window),
            Format::Avro => containers::avro(window).into_iter().collect(),
            Format::Orc => containers::orc(window).into_iter().collect(),
            _ => Vec::new(),
        };
        spans.truncate(MAX_ENTRIES_PER_WINDOW);
        spans.sort_by_key(|span| (span.start, span.end));
        spans.dedup();
        spans
    }
}

/// Returns the content of most of the bytes from `start` to `end`, if it covers more than half of them.
pub fn content(spans: &[Span], start: u64, end: u64) -> Option<Content> {
    let mut shares: Vec<(Content, u64)> = Vec::new();
    for span in spans {
        let bytes = span.end.min(end).saturating_sub(span.start.max(start));
        match shares.iter_mut().find(|(content, _)| *content == span.content) {
            Some((_, share)) => *share += bytes,
            None => shares.push((span.content, bytes)),
        }
    }
    let (content, share) = shares.into_iter().max_by_key(|(_, share)| *share)?;
    (share > (end - start) / 2).then_some(content)
}
