//! Where something stands in the text.

/// Bytes `start..end` of one of the files that were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The file: its number in [`Sources`](crate::Sources).
    pub file: usize,
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// From the beginning of this to the end of the other.
    pub fn to(self, end: Span) -> Span {
        Span { end: end.end.max(self.start), ..self }
    }

    /// The place just behind.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}
