//! Positions in the text.

/// Bytes `start..end` of one of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// The index of the file in [`Sources`](crate::Sources).
    pub file: usize,
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
}

impl Span {
    /// Returns the span from the start of this one to the end of the other.
    pub fn to(self, end: Span) -> Span {
        Span { end: end.end.max(self.start), ..self }
    }

    /// Returns the empty span after this one.
    pub fn after(self) -> Span {
        Span { start: self.end, ..self }
    }
}
