//! What self-describing files say of their own bytes: which ranges hold numbers of which type, and which are compressed.
//!
//! A file comes in windows: a block at a time, as it is written. What a window holds whole is understood; what points
//! out of it is left. Nothing here trusts the bytes: lengths and counts are bounds-checked, and what makes no sense says
//! nothing.

mod containers;
mod fits;
mod hdf5;
mod netcdf;
mod npy;
mod parquet;
mod window;

use super::{Elements, Format};
use window::Window;

/// Bytes of a file of which its metadata tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first byte's place in the file.
    pub start: u64,
    /// The place after the last byte.
    pub end: u64,
    /// What they are.
    pub content: Content,
}

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// Numbers of one type.
    Numbers(Elements),
    /// Compressed already.
    Compressed,
}

/// Spans that are kept of a window, at most: a container of more is taken for one of unknown bytes.
const MOST: usize = 4096;

impl Span {
    /// None where nothing lies between.
    fn new(start: u64, length: u64, content: Content) -> Option<Span> {
        let end = start.checked_add(length)?;
        (end > start).then_some(Span { start, end, content })
    }
}

/// Hears what a file says of itself, window by window.
#[derive(Clone, Debug)]
pub struct Metadata {
    format: Format,
    /// What HDF5 pointed to that was not there yet.
    pending: hdf5::Pending,
}

impl Metadata {
    /// Of a file of some format.
    pub fn new(format: Format) -> Self {
        Metadata { format, pending: hdf5::Pending::default() }
    }

    /// What a window says that begins at byte `base`, in order of place. Windows come in order; the first should hold the
    /// file's head, 64 KiB to 1 MiB.
    pub fn hear(&mut self, base: u64, window: &[u8]) -> Vec<Span> {
        let window = Window { base, bytes: window };
        let mut spans = match self.format {
            Format::Hdf5 => self.pending.hear(window),
            _ if base > 0 => Vec::new(),
            Format::NetCdf => netcdf::spans(window).unwrap_or_default(),
            Format::Parquet => parquet::spans(window).unwrap_or_default(),
            Format::Npy => npy::span(window).into_iter().collect(),
            Format::Fits => fits::spans(window),
            Format::Avro => containers::avro(window).into_iter().collect(),
            Format::Orc => containers::orc(window).into_iter().collect(),
            _ => Vec::new(),
        };
        spans.truncate(MOST);
        spans.sort_by_key(|span| (span.start, span.end));
        spans.dedup();
        spans
    }
}

/// What most of the bytes from `start` to `end` are, if more than half of them are the same.
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
