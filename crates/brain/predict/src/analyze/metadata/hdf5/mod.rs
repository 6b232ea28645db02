//! HDF5, including NetCDF 4: each object header describes the type, layout and filters of a dataset.
//!
//! The parser finds headers of version 2 by their signature, and headers of version 1 by the nodes of groups, which
//! have a signature. It therefore does not walk the tree of groups, and uses every window by itself.

mod chunks;
mod datatype;
mod header;

use memchr::memmem;

use super::window::{Fields, Window};
use super::{Content, MAX_ENTRIES_PER_WINDOW, Span};
use header::{Dataset, Layout};

/// The widths of addresses and of lengths, in bytes.
#[derive(Clone, Copy)]
struct Widths {
    address: usize,
    length: usize,
}

/// The usual widths.
const USUAL_WIDTHS: Widths = Widths { address: 8, length: 8 };

/// References from earlier windows to later ones.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    headers: Vec<u64>,
    trees: Vec<Tree>,
}

/// A B-tree of chunks, or a branch of one.
#[derive(Clone, Copy, Debug)]
struct Tree {
    address: u64,
    dimensions: usize,
    content: Content,
}

impl Pending {
    pub fn parse(&mut self, window: Window) -> Vec<Span> {
        let widths = superblock(window).unwrap_or(USUAL_WIDTHS);
        let (mut spans, mut trees) = (Vec::new(), std::mem::take(&mut self.trees));
        let mut take = |dataset: Dataset| match (content(&dataset), dataset.layout) {
            (Some(content), Layout::Contiguous { start, length }) => spans.extend(Span::new(start, length, content)),
            (Some(content), Layout::Chunks { tree, dimensions }) if trees.len() < MAX_ENTRIES_PER_WINDOW => {
                trees.push(Tree { address: tree, dimensions, content });
            }
            _ => {}
        };
        for at in memmem::find_iter(window.bytes, b"OHDR").take(MAX_ENTRIES_PER_WINDOW) {
            header::new(window, window.base + at as u64, widths).into_iter().for_each(&mut take);
        }
        let mut headers = std::mem::take(&mut self.headers);
        for at in memmem::find_iter(window.bytes, b"SNOD").take(MAX_ENTRIES_PER_WINDOW) {
            headers.extend(group(Fields(&window.bytes[at + 4..]), widths));
            headers.truncate(MAX_ENTRIES_PER_WINDOW);
        }
        let (later, here) = headers.into_iter().partition(|address| *address >= window.end());
        self.headers = later;
        for address in here {
            header::old(window, address, widths).into_iter().for_each(&mut take);
        }
        let (chunks, later) = chunks::chunks(window, trees, widths);
        self.trees = later;
        spans.extend(chunks);
        spans
    }
}

fn superblock(window: Window) -> Option<Widths> {
    let mut fields = window.at(0)?;
    (fields.take(8)? == b"\x89HDF\r\n\x1a\n").then_some(())?;
    let version = fields.byte()?;
    if version < 2 {
        fields.skip(4)?;
    }
    let widths = Widths { address: fields.byte()?.into(), length: fields.byte()?.into() };
    ([2, 4, 8].contains(&widths.address) && [2, 4, 8].contains(&widths.length)).then_some(widths)
}

/// Returns the addresses of the object headers in a node of a group.
fn group(mut fields: Fields, widths: Widths) -> Vec<u64> {
    let mut addresses = Vec::new();
    let mut read = || {
        let version = fields.byte()?;
        fields.skip(1)?;
        for _ in 0..if version == 1 { fields.little(2)? } else { 0 } {
            fields.skip(widths.address)?;
            addresses.push(fields.little(widths.address)?);
            fields.skip(24)?;
        }
        Some(())
    };
    // The entries before the end of a truncated node are valid.
    let _ = read();
    addresses
}

fn content(dataset: &Dataset) -> Option<Content> {
    match dataset {
        Dataset { compressed: true, .. } => Some(Content::Compressed),
        Dataset { elements: Some(elements), shuffled: false, .. } => Some(Content::Numbers(*elements)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Elements, Format};
    use super::super::Metadata;
    use super::*;
    use terrace_codec::Element;

    fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
        out.extend([kind, body.len() as u8, 0, 0]);
        out.extend(body);
    }

    /// Makes a header of version 2: a type, a layout, filters.
    fn header(class: [u8; 8], layout: &[u8], filter: Option<u8>) -> Vec<u8> {
        let mut messages = Vec::new();
        message(&mut messages, 3, &[&class[..], &[0; 12]].concat());
        message(&mut messages, 8, layout);
        if let Some(filter) = filter {
            message(&mut messages, 0x0B, &[2, 1, filter, 0, 0, 0, 0, 0]);
        }
        let mut out = b"OHDR\x02\x00".to_vec();
        out.push(messages.len() as u8);
        out.extend(messages);
        out.extend([0; 4]);
        out
    }

    fn at(place: u64, length: u64) -> Vec<u8> {
        [&[3, 1][..], &place.to_le_bytes(), &length.to_le_bytes()].concat()
    }

    const F32_DATATYPE: [u8; 8] = [0x11, 0x20, 0x1f, 0, 4, 0, 0, 0];
    const BIG_I16: [u8; 8] = [0x10, 9, 0, 0, 2, 0, 0, 0];

    /// Makes a file with two headers in the first window, and one in the second window that a group of the first one
    /// refers to.
    fn file() -> Vec<u8> {
        let mut out = b"\x89HDF\r\n\x1a\n\x02\x08\x08\x00".to_vec();
        out.resize(64, 0);
        out.extend(header(F32_DATATYPE, &at(4096, 1000), None));
        out.extend(header(F32_DATATYPE, &at(6000, 500), Some(1)));
        out.extend(b"SNOD\x01\x00\x01\x00");
        out.extend(0u64.to_le_bytes());
        out.extend(1024u64.to_le_bytes());
        out.resize(1024, 0);
        out.extend([1, 0, 2, 0, 1, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0]);
        out.extend([3, 0, 24, 0, 0, 0, 0, 0]);
        out.extend([&BIG_I16[..], &[0; 16]].concat());
        out.extend([8, 0, 24, 0, 0, 0, 0, 0]);
        out.extend([&at(8000, 2000)[..], &[0; 6]].concat());
        out.resize(1200, 0);
        out
    }

    fn heard(windows: &[&[u8]]) -> Vec<(u64, u64, Content)> {
        let (mut metadata, mut base, mut heard) = (Metadata::new(Format::Hdf5), 0, Vec::new());
        for window in windows {
            heard.extend(metadata.parse(base, window));
            base += window.len() as u64;
        }
        heard.sort_by_key(|span| span.start);
        heard.iter().map(|span| (span.start, span.end, span.content)).collect()
    }

    #[test]
    fn datasets_have_their_types_and_places_however_the_file_is_cut() {
        let file = file();
        let expected = [
            (4096, 5096, Content::Numbers(Elements::of(Element::F32))),
            (6000, 6500, Content::Compressed),
            (8000, 10_000, Content::Numbers(Elements { element: Element::I16, big_endian: true })),
        ];
        assert_eq!(heard(&[&file]), expected);
        assert_eq!(heard(&[&file[..1024], &file[1024..]]), expected, "a group points into the next window");
        assert_eq!(heard(&[&file[..500], &file[500..]]), expected);
    }
}
