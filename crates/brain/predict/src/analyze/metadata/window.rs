//! Bounds-checked reading.

/// A window: the bytes of a file from an offset on.
#[derive(Clone, Copy)]
pub struct Window<'a> {
    /// The offset of the first byte.
    pub base: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

impl<'a> Window<'a> {
    /// Returns the offset after the last byte.
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.bytes.len() as u64)
    }

    /// Returns the fields from an offset of the file on, if it is in the window.
    pub fn at(&self, place: u64) -> Option<Fields<'a>> {
        let skip = usize::try_from(place.checked_sub(self.base)?).ok()?;
        Some(Fields(self.bytes.get(skip..)?))
    }
}

/// The unread fields.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Takes the next bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    /// Skips bytes.
    pub fn skip(&mut self, length: usize) -> Option<()> {
        self.take(length).map(drop)
    }

    /// Takes the next byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    /// Takes a little-endian number of up to eight bytes.
    pub fn little(&mut self, width: usize) -> Option<u64> {
        (width <= 8).then_some(())?;
        Some(self.take(width)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Takes a big-endian number of up to eight bytes.
    pub fn big(&mut self, width: usize) -> Option<u64> {
        (width <= 8).then_some(())?;
        Some(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Takes a little-endian count or length.
    pub fn count(&mut self, width: usize) -> Option<usize> {
        usize::try_from(self.little(width)?).ok()
    }
}
