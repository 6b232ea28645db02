//! What is remembered of a stream.

use crate::analyze::{Content, Elements, Format, Metadata, Span, content};
use crate::model::{CLASSES, Class, Evidence};
use terrace_cost::Objective;

/// Bytes that come one block after the other and are likely to be alike: a file, a variable, a column. Remembers what
/// was measured of them, and what that took. What a file says of its own bytes is heard; of each class of bytes in it, what
/// was measured is kept apart.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Bytes that it is known to hold.
    length: u64,
    seen: u64,
    /// Seconds of effort that were lent to it.
    lent: f64,
    elements: Option<Elements>,
    /// The file that the next block is of, and its place there.
    file: u64,
    place: u64,
    files: Vec<File>,
    /// Seconds spent on choosing.
    pub(crate) spent: f64,
    /// The class of the block seen last.
    class: Class,
    /// What that was studied for.
    pub(crate) objective: Option<Objective>,
    /// For each class the kinds of bytes that have come, the last first; one at least once something is known.
    known: [Vec<Known>; CLASSES],
    /// Kinds so far.
    kinds: u32,
}

/// What a file said of itself.
#[derive(Clone, Debug)]
struct File {
    id: u64,
    format: Format,
    metadata: Metadata,
    spans: Vec<Span>,
}

/// What is known of one kind of bytes: a class may have several, which come by turns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Which of all kinds of the stream it is.
    pub kind: u32,
    pub evidence: Box<Evidence>,
    /// What the last choice was for.
    pub decided: Option<Objective>,
    /// What was chosen last.
    pub chosen: usize,
    /// Whether that turned out dearer than it was expected to be.
    pub surprised: bool,
    /// The candidate that was used last since evidence was taken, and the size for each byte that came out.
    pub realised: Option<(usize, f64)>,
    /// Whether the evidence is of other bytes than now come.
    pub stale: bool,
}

/// Seconds to look at a block's beginning, and for each byte to look for what it says of itself.
const GLANCE: f64 = 5e-6;
const HEARING: f64 = 1e-10;
/// The share of the time to move what a stream is known to hold that choosing may take.
const SHARE: f64 = 0.02;
/// Spans that are kept, at most.
const SPANS: usize = 16 << 10;
/// Files whose words are remembered.
const FILES: usize = 8;
/// Kinds of bytes of a class that are remembered.
const KINDS: usize = 8;

impl Stream {
    /// A stream of unknown length.
    pub fn new() -> Self {
        Stream::default()
    }

    /// A stream that is known to hold this many bytes, which earns effort in advance.
    #[must_use]
    pub fn with_length(self, length: u64) -> Self {
        Stream { length, ..self }
    }

    /// A stream whose elements' type the caller knows.
    #[must_use]
    pub fn with_elements(self, elements: Elements) -> Self {
        Stream { elements: Some(elements), ..self }
    }

    /// Whether nothing of it has come.
    pub fn is_new(&self) -> bool {
        self.seen == 0
    }

    /// Earns in advance what moving so many bytes would, for another objective: where the first go to a tier that is too
    /// quick to earn anything, and those that follow will not have room there.
    pub fn lend(&mut self, bytes: u64, objective: &Objective) {
        self.lent = SHARE * objective.transfer(bytes);
    }

    /// Seconds of thread time that choosing has taken.
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// The class of the block seen last.
    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// What is known of bytes of the class and kind seen last.
    pub(crate) fn known_now(&self) -> Option<&Known> {
        self.known[self.class as usize].first()
    }

    /// What is known of the kinds of each class, the last first.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &[Known]> {
        self.known.iter().map(Vec::as_slice)
    }

    /// What is known of the kind of bytes of a class that came last.
    pub(crate) fn known(&mut self, class: Class) -> &mut Known {
        if self.known[class as usize].is_empty() {
            self.add(class, Evidence::none(class));
        }
        &mut self.known[class as usize][0]
    }

    /// What is known of a kind, as long as that is remembered.
    pub(crate) fn known_of(&mut self, class: Class, kind: u32) -> Option<&mut Known> {
        self.known[class as usize].iter_mut().find(|known| known.kind == kind)
    }

    /// Goes on with the first kind of a class for which this holds. Whether there is one.
    pub(crate) fn turn_to(&mut self, class: Class, holds: impl FnMut(&Known) -> bool) -> bool {
        let known = &mut self.known[class as usize];
        let found = known.iter().position(holds);
        found.inspect(|at| known[..=*at].rotate_right(1)).is_some()
    }

    /// Goes on with a kind of which this is known. The one that has not come for longest may be forgotten.
    pub(crate) fn add(&mut self, class: Class, evidence: Evidence) {
        self.kinds += 1;
        let known = &mut self.known[class as usize];
        known.retain(|known| !known.stale);
        known.truncate(KINDS - 1);
        known.insert(0, Known { kind: self.kinds, evidence: Box::new(evidence), ..Known::default() });
    }

    /// Says that the next block is of this file, and where in it. Without a word blocks are of one file, in order.
    pub fn at(&mut self, file: u64, place: u64) {
        self.file = file;
        self.place = place;
    }

    /// Takes in the next block, in about so many seconds at most. The first one is its file's head, and may say what it is.
    pub(crate) fn see(&mut self, block: &[u8], earned: f64) {
        let heard = block.len() as f64 * HEARING + GLANCE <= earned;
        if self.place == 0 && heard {
            self.files.retain(|file| file.id != self.file);
            if self.files.len() == FILES {
                self.files.remove(0);
            }
            let format = Format::of(block);
            self.files.push(File { id: self.file, format, metadata: Metadata::new(format), spans: Vec::new() });
        }
        let end = self.place + block.len() as u64;
        let file = self.files.iter_mut().find(|file| file.id == self.file);
        let format = file.as_ref().map_or(Format::Unknown, |file| file.format);
        let said = match (self.elements, file) {
            (Some(elements), _) => Some(Content::Numbers(elements)),
            (None, Some(file)) => {
                if heard {
                    file.hear(self.place, block);
                }
                content(&file.spans, self.place, end)
            }
            (None, None) => None,
        };
        self.class = Class::of(format, said);
        self.place = end;
        self.seen += block.len() as u64;
    }

    /// Seconds that choosing may take now, once another block has come: a share of the time to move what it is known to
    /// hold, and what was lent, less what was spent.
    pub(crate) fn earned(&self, coming: usize, objective: &Objective) -> f64 {
        SHARE * self.earning(coming as u64, objective) + self.lent - self.spent
    }

    /// Seconds to move what it is known to hold; of what is still to come half, for it may change and need more effort.
    fn earning(&self, now: u64, objective: &Objective) -> f64 {
        let coming = self.length.saturating_sub(self.seen + now);
        objective.transfer(self.seen + now + coming / 2)
    }
}

impl File {
    /// Hears what a block says of itself and of what is to come.
    fn hear(&mut self, place: u64, block: &[u8]) {
        let new = self.metadata.hear(place, block);
        if self.spans.len() + new.len() <= SPANS {
            self.spans.extend(new);
        }
    }
}
