//! The state of a stream.

use crate::analyze::{Content, Elements, Format, Metadata, Span, content};
use crate::model::{CLASS_COUNT, Class, Evidence};
use terrace_cost::Objective;

/// A sequence of blocks that are likely to be similar: a file, a variable, a column. A stream stores the measurements
/// of its bytes and their cost. It reads a file's metadata, and keeps separate measurements for each class of bytes.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The known length in bytes.
    length: u64,
    seen: u64,
    /// The budget that was lent to the stream, in seconds.
    lent: f64,
    elements: Option<Elements>,
    /// The file of the next block, and the block's offset in it.
    file: u64,
    place: u64,
    files: Vec<File>,
    /// The time spent on choosing, in seconds.
    pub(crate) spent: f64,
    /// The class of the last block.
    class: Class,
    /// The objective of the last study.
    pub(crate) objective: Option<Objective>,
    /// The kinds of bytes of each class, the most recent first; at least one as soon as something is known.
    known: [Vec<Known>; CLASS_COUNT],
    /// The number of kinds so far.
    kinds: u32,
}

/// The metadata of a file.
#[derive(Clone, Debug)]
struct File {
    id: u64,
    format: Format,
    metadata: Metadata,
    spans: Vec<Span>,
}

/// The evidence about one kind of bytes. A class may have several kinds, which alternate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The number of the kind in the stream.
    pub kind: u32,
    pub evidence: Box<Evidence>,
    /// The objective of the last choice.
    pub decided: Option<Objective>,
    /// The last choice.
    pub chosen: usize,
    /// Whether the last choice was more expensive than expected.
    pub surprised: bool,
    /// The candidate used last since the evidence was collected, and its stored size per byte.
    pub realised: Option<(usize, f64)>,
    /// Whether the evidence is about other bytes than those that arrive now.
    pub stale: bool,
}

/// The time to inspect a block for a format and metadata, in seconds: per block, and per byte.
const INSPECTION_FIXED_SECONDS: f64 = 5e-6;
const INSPECTION_SECONDS_PER_BYTE: f64 = 1e-10;
/// Choosing may take this fraction of the time to transfer the known bytes of the stream.
const MAX_CHOICE_TIME_FRACTION: f64 = 0.02;
/// The maximum number of spans kept per file.
const MAX_SPANS_PER_FILE: usize = 16 << 10;
/// The maximum number of files whose metadata are kept.
const MAX_REMEMBERED_FILES: usize = 8;
/// The maximum number of kinds of bytes kept per class.
const MAX_KINDS_PER_CLASS: usize = 8;

impl Stream {
    /// Creates a stream of unknown length.
    pub fn new() -> Self {
        Stream::default()
    }

    /// Sets the known length in bytes, which adds to the budget in advance.
    #[must_use]
    pub fn with_length(self, length: u64) -> Self {
        Stream { length, ..self }
    }

    /// Sets the type of the elements, if the caller knows it.
    #[must_use]
    pub fn with_elements(self, elements: Elements) -> Self {
        Stream { elements: Some(elements), ..self }
    }

    /// Returns whether the stream is empty so far.
    pub fn is_new(&self) -> bool {
        self.seen == 0
    }

    /// Sets the budget that is lent in advance to what transferring `bytes` bytes under another objective would add. This is for
    /// streams whose first bytes go to a tier that is too fast to add any budget, and whose later bytes will not have
    /// room there.
    pub fn lend(&mut self, bytes: u64, objective: &Objective) {
        self.lent = MAX_CHOICE_TIME_FRACTION * objective.transfer(bytes);
    }

    /// Returns the thread time spent on choosing, in seconds.
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// Returns the class of the last block.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Returns what is known about the class and kind of the last block.
    pub(crate) fn known_now(&self) -> Option<&Known> {
        self.known[self.class as usize].first()
    }

    /// Returns what is known about the kinds of each class, the most recent first.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &[Known]> {
        self.known.iter().map(Vec::as_slice)
    }

    /// Returns what is known about the most recent kind of a class.
    pub(crate) fn known(&mut self, class: Class) -> &mut Known {
        if self.known[class as usize].is_empty() {
            self.add(class, Evidence::none(class));
        }
        &mut self.known[class as usize][0]
    }

    /// Returns what is known about a kind, unless it was dropped.
    pub(crate) fn known_of(&mut self, class: Class, kind: u32) -> Option<&mut Known> {
        self.known[class as usize].iter_mut().find(|known| known.kind == kind)
    }

    /// Makes the first kind of a class for which `holds` returns true the current one; returns whether there is one.
    pub(crate) fn select_kind(&mut self, class: Class, holds: impl FnMut(&Known) -> bool) -> bool {
        let known = &mut self.known[class as usize];
        let found = known.iter().position(holds);
        found.inspect(|at| known[..=*at].rotate_right(1)).is_some()
    }

    /// Adds a kind with this evidence and makes it the current one. Drops the least recently used kind if there are too
    /// many.
    pub(crate) fn add(&mut self, class: Class, evidence: Evidence) {
        self.kinds += 1;
        let known = &mut self.known[class as usize];
        known.retain(|known| !known.stale);
        known.truncate(MAX_KINDS_PER_CLASS - 1);
        known.insert(0, Known { kind: self.kinds, evidence: Box::new(evidence), ..Known::default() });
    }

    /// Sets the file and the offset of the next block. By default, all blocks are consecutive blocks of one file.
    pub fn at(&mut self, file: u64, place: u64) {
        self.file = file;
        self.place = place;
    }

    /// Adds the next block; takes at most about `earned` seconds. The first block is the head of its file, and may
    /// contain its format and metadata.
    pub(crate) fn add_block(&mut self, block: &[u8], earned: f64) {
        let inspected = block.len() as f64 * INSPECTION_SECONDS_PER_BYTE + INSPECTION_FIXED_SECONDS <= earned;
        if self.place == 0 && inspected {
            self.files.retain(|file| file.id != self.file);
            if self.files.len() == MAX_REMEMBERED_FILES {
                self.files.remove(0);
            }
            let format = Format::of(block);
            self.files.push(File { id: self.file, format, metadata: Metadata::new(format), spans: Vec::new() });
        }
        let end = self.place + block.len() as u64;
        let file = self.files.iter_mut().find(|file| file.id == self.file);
        let format = file.as_ref().map_or(Format::Unknown, |file| file.format);
        let declared = match (self.elements, file) {
            (Some(elements), _) => Some(Content::Numbers(elements)),
            (None, Some(file)) => {
                if inspected {
                    file.read_metadata(self.place, block);
                }
                content(&file.spans, self.place, end)
            }
            (None, None) => None,
        };
        self.class = Class::of(format, declared);
        self.place = end;
        self.seen += block.len() as u64;
    }

    /// Returns the remaining budget for choosing, in seconds, after another `coming` bytes: a fraction of the transfer
    /// time of the known bytes, plus the lent budget, minus the time spent.
    pub(crate) fn remaining_budget(&self, coming: usize, objective: &Objective) -> f64 {
        MAX_CHOICE_TIME_FRACTION * self.transfer_seconds(coming as u64, objective) + self.lent - self.spent
    }

    /// Returns the time to transfer the known bytes, in seconds. Future bytes count half, because they may differ and
    /// need more measurements.
    fn transfer_seconds(&self, now: u64, objective: &Objective) -> f64 {
        let coming = self.length.saturating_sub(self.seen + now);
        objective.transfer(self.seen + now + coming / 2)
    }
}

impl File {
    /// Reads a block's metadata about the file's bytes.
    fn read_metadata(&mut self, place: u64, block: &[u8]) {
        let new = self.metadata.parse(place, block);
        if self.spans.len() + new.len() <= MAX_SPANS_PER_FILE {
            self.spans.extend(new);
        }
    }
}
