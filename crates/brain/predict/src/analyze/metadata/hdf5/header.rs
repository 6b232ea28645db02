//! Object headers: messages that describe a dataset's type, layout and filters.

use super::super::Elements;
use super::super::window::{Fields, Window};
use super::{Widths, datatype};

/// At most this many messages of a header, and blocks of messages, are examined.
const MAX_MESSAGES_PER_HEADER: usize = 256;
const MAX_BLOCKS_PER_HEADER: usize = 16;

/// The kinds of messages.
const MESSAGE_DATATYPE: u16 = 0x03;
const MESSAGE_LAYOUT: u16 = 0x08;
const MESSAGE_FILTERS: u16 = 0x0B;
const MESSAGE_CONTINUATION: u16 = 0x10;
/// The flag of a message whose content is elsewhere.
const SHARED_MESSAGE_FLAG: u8 = 0x02;
/// Filters that keep the number of bytes.
const FILTER_SHUFFLE: u64 = 2;
const FILTER_CHECKSUM: u64 = 3;

/// A dataset with a known location.
#[derive(Debug)]
pub struct Dataset {
    pub elements: Option<Elements>,
    pub compressed: bool,
    pub shuffled: bool,
    pub layout: Layout,
}

/// The location of a dataset.
#[derive(Clone, Copy, Debug)]
pub enum Layout {
    Contiguous { start: u64, length: u64 },
    Chunks { tree: u64, dimensions: usize },
}

/// The contents of the messages so far.
#[derive(Default)]
struct Told {
    elements: Option<Elements>,
    size: u64,
    compressed: bool,
    shuffled: bool,
    layout: Option<Layout>,
    more: Vec<(u64, usize)>,
    messages: usize,
}

/// A header of version 2, which begins with a signature.
pub fn new(window: Window, address: u64, widths: Widths) -> Option<Dataset> {
    let mut fields = window.at(address)?;
    fields.skip(4)?;
    (fields.byte()? == 2).then_some(())?;
    let flags = fields.byte()?;
    fields.skip(if flags & 0x20 > 0 { 16 } else { 0 } + if flags & 0x10 > 0 { 4 } else { 0 })?;
    let length = fields.count(1 << (flags & 3))?;
    let head = 4 + if flags & 4 > 0 { 2 } else { 0 };
    let messages = |mut fields: Fields, told: &mut Told| {
        while fields.0.len() > head && told.counted()? {
            let kind = fields.byte()?.into();
            let length = fields.count(2)?;
            let flags = fields.byte()?;
            fields.skip(head - 4)?;
            told.read_message(kind, flags, Fields(fields.take(length)?), widths);
        }
        Some(())
    };
    let mut told = Told::default();
    messages(Fields(fields.take(length)?), &mut told)?;
    told.rest(window, |mut fields, told| {
        // The header begins with a signature, and ends with a checksum.
        (fields.take(4)? == b"OCHK").then_some(())?;
        let length = fields.0.len().checked_sub(4)?;
        messages(Fields(fields.take(length)?), told)
    });
    told.dataset()
}

/// A header of version 1, which has no signature.
pub fn old(window: Window, address: u64, widths: Widths) -> Option<Dataset> {
    let mut fields = window.at(address)?;
    (fields.take(2)? == [1, 0]).then_some(())?;
    fields.skip(6)?;
    let length = fields.count(4)?;
    fields.skip(4)?;
    let messages = |mut fields: Fields, told: &mut Told| {
        while fields.0.len() >= 8 && told.counted()? {
            let kind = u16::try_from(fields.little(2)?).ok()?;
            let length = fields.count(2)?;
            let flags = fields.byte()?;
            fields.skip(3)?;
            told.read_message(kind, flags, Fields(fields.take(length)?), widths);
        }
        Some(())
    };
    let mut told = Told::default();
    messages(Fields(fields.take(length)?), &mut told)?;
    told.rest(window, messages);
    told.dataset()
}

impl Told {
    /// Counts a message. Returns `None` if there are too many.
    fn counted(&mut self) -> Option<bool> {
        self.messages += 1;
        (self.messages <= MAX_MESSAGES_PER_HEADER).then_some(true)
    }

    /// Reads a message; ignores an unknown one.
    fn read_message(&mut self, kind: u16, flags: u8, fields: Fields, widths: Widths) {
        let _ = match kind {
            _ if flags & SHARED_MESSAGE_FLAG > 0 => None,
            MESSAGE_DATATYPE => self.datatype(fields),
            MESSAGE_LAYOUT => self.layout(fields, widths),
            MESSAGE_FILTERS => self.filters(fields),
            MESSAGE_CONTINUATION => self.continuation(fields, widths),
            _ => None,
        };
    }

    fn datatype(&mut self, fields: Fields) -> Option<()> {
        let mut size = fields;
        size.skip(4)?;
        self.size = size.little(4)?;
        self.elements = datatype::elements(fields);
        Some(())
    }

    fn continuation(&mut self, mut fields: Fields, widths: Widths) -> Option<()> {
        self.more.push((fields.little(widths.address)?, fields.count(widths.length)?));
        Some(())
    }

    fn layout(&mut self, mut fields: Fields, widths: Widths) -> Option<()> {
        let version = fields.byte()?;
        self.layout = match (version, fields.byte()?) {
            (3 | 4, 1) => {
                let (start, length) = (fields.little(widths.address)?, fields.little(widths.length)?);
                Some(Layout::Contiguous { start, length })
            }
            (3, 2) => {
                let dimensions = fields.byte()?.into();
                Some(Layout::Chunks { tree: fields.little(widths.address)?, dimensions })
            }
            // A single filtered chunk.
            (4, 2) => {
                let (flags, dimensions) = (fields.byte()?, usize::from(fields.byte()?));
                let each = usize::from(fields.byte()?);
                let sides = (0..dimensions).map(|_| fields.little(each)).collect::<Option<Vec<_>>>()?;
                (fields.byte()? == 1).then_some(())?;
                let length = if flags & 2 > 0 {
                    let length = fields.little(widths.length)?;
                    fields.skip(4)?;
                    length
                } else {
                    sides.into_iter().try_fold(1u64, u64::checked_mul)?
                };
                Some(Layout::Contiguous { start: fields.little(widths.address)?, length })
            }
            (1 | 2, dimensions) => {
                let class = fields.byte()?;
                fields.skip(5)?;
                let address = fields.little(widths.address)?;
                let sides = (0..dimensions).map(|_| fields.little(4)).collect::<Option<Vec<_>>>()?;
                let count = sides.into_iter().try_fold(1u64, u64::checked_mul)?;
                match class {
                    1 => Some(Layout::Contiguous { start: address, length: count.checked_mul(self.size.max(1))? }),
                    2 => Some(Layout::Chunks { tree: address, dimensions: dimensions.into() }),
                    _ => None,
                }
            }
            _ => None,
        };
        Some(())
    }

    fn filters(&mut self, mut fields: Fields) -> Option<()> {
        let version = fields.byte()?;
        let count = fields.byte()?;
        fields.skip(if version == 1 { 6 } else { 0 })?;
        for _ in 0..count {
            let filter = fields.little(2)?;
            let name = if version == 1 || filter >= 256 { fields.count(2)? } else { 0 };
            fields.skip(2)?;
            let values = fields.count(2)?;
            fields.skip(if version == 1 { name.next_multiple_of(8) } else { name })?;
            fields.skip(4 * values + if version == 1 && values % 2 > 0 { 4 } else { 0 })?;
            self.shuffled |= filter == FILTER_SHUFFLE;
            self.compressed |= filter != FILTER_SHUFFLE && filter != FILTER_CHECKSUM;
        }
        Some(())
    }

    /// Reads the blocks that continue the header.
    fn rest(&mut self, window: Window, messages: impl Fn(Fields, &mut Told) -> Option<()>) {
        for number in 0..MAX_BLOCKS_PER_HEADER {
            let Some((address, length)) = self.more.get(number).copied() else { return };
            if let Some(bytes) = window.at(address).and_then(|mut fields| fields.take(length)) {
                // A block that ends early is not an error: what was read before its end counts.
                let _ = messages(Fields(bytes), self);
            }
        }
    }

    fn dataset(self) -> Option<Dataset> {
        let Told { elements, compressed, shuffled, layout, .. } = self;
        Some(Dataset { elements, compressed, shuffled, layout: layout? })
    }
}
