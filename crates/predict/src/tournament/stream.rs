//! What is remembered of a stream.

use crate::Objective;
use crate::analyze::{Elements, Format};
use crate::model::{Class, Evidence};

/// Bytes that come one block after the other and are likely to be alike: a file, a variable, a column. Remembers what
/// was measured of them, and what that took.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Bytes that it is known to hold.
    length: u64,
    seen: u64,
    elements: Option<Elements>,
    /// Seconds spent on choosing.
    pub(crate) spent: f64,
    pub(crate) evidence: Evidence,
    /// What the last choice was for.
    pub(crate) decided: Option<Objective>,
    /// What was chosen last.
    pub(crate) chosen: usize,
    /// The candidate that was used last since evidence was taken, and the size for each byte that came out.
    pub(crate) realised: Option<(usize, f64)>,
    /// Whether the evidence is of other bytes than now come.
    pub(crate) stale: bool,
}

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

    /// Seconds of thread time that choosing has taken.
    pub fn spent(&self) -> f64 {
        self.spent
    }

    /// Takes in the next block. The first one is the stream's head, and may say what it is.
    pub(crate) fn see(&mut self, block: &[u8]) {
        if self.seen == 0 {
            let format = Format::of(block);
            let elements = self.elements.or_else(|| Elements::from_head(format, block));
            self.evidence = Evidence::none(Class::of(format, elements));
        }
        self.seen += block.len() as u64;
    }

    /// Seconds to move what it is known to hold; of what is still to come half, for it may change and need more effort.
    pub(crate) fn earning(&self, objective: &Objective) -> f64 {
        let coming = self.length.saturating_sub(self.seen);
        objective.transfer(self.seen + coming / 2)
    }
}
