//! The fields of messages: little-endian numbers, and strings preceded by their length.

/// A message that violates the protocol.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a damaged message: {0}")]
pub struct Damaged(pub &'static str);

/// The unread rest of a message.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Takes this number of bytes.
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Damaged("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Damaged("it ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A number of one byte.
    pub fn one(&mut self) -> Result<u8, Damaged> {
        Ok(u8::from_le_bytes(self.number()?))
    }

    /// A number of two bytes.
    pub fn two(&mut self) -> Result<u16, Damaged> {
        Ok(u16::from_le_bytes(self.number()?))
    }

    /// A number of four bytes.
    pub fn four(&mut self) -> Result<u32, Damaged> {
        Ok(u32::from_le_bytes(self.number()?))
    }

    /// A number of eight bytes.
    pub fn eight(&mut self) -> Result<u64, Damaged> {
        Ok(u64::from_le_bytes(self.number()?))
    }

    /// Takes a string, which need not be UTF-8.
    pub fn text(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.two()?;
        self.take(length.into())
    }

    /// Checks that no bytes are left.
    pub fn end(&self) -> Result<(), Damaged> {
        if self.0.is_empty() { Ok(()) } else { Err(Damaged("it goes on behind its end")) }
    }
}
