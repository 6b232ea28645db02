//! [`InputBuffer`]: bytes that have arrived and are not read yet.

/// A buffer that has grown beyond this size is released when it is empty.
const MAX_KEPT_INPUT_BYTES: usize = 16 << 10;

/// Bytes of a connection that have arrived.
#[derive(Debug, Default)]
pub struct InputBuffer {
    bytes: Vec<u8>,
    /// The bytes before this position were read.
    at: usize,
    /// No line ends between that position and this one.
    searched: usize,
}

/// A line has more bytes than it may have.
#[derive(Debug)]
pub struct LineTooLong;

impl InputBuffer {
    /// Takes bytes that have arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// The memory that it takes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Reads some bytes, if all of them have arrived.
    pub fn take(&mut self, length: usize) -> Option<&[u8]> {
        if self.rest().len() < length {
            self.free_read();
            return None;
        }
        let start = self.at;
        self.at += length;
        Some(&self.bytes[start..self.at])
    }

    /// Reads a line, without its end, if that has arrived. No byte is searched twice.
    pub fn line(&mut self, limit: usize) -> Result<Option<&[u8]>, LineTooLong> {
        let start = self.at;
        let from = self.searched.max(start);
        let until = self.bytes.len().min(start.saturating_add(limit));
        match self.bytes[from..until].iter().position(|byte| *byte == b'\n') {
            Some(length) => {
                let end = from + length;
                self.at = end + 1;
                let line = &self.bytes[start..end];
                Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
            }
            None if until - start >= limit => Err(LineTooLong),
            None => {
                self.searched = until;
                self.free_read();
                Ok(None)
            }
        }
    }

    /// Frees the buffer, if it is large: all was read.
    pub fn release(&mut self) {
        (self.at, self.searched) = (0, 0);
        match self.bytes.capacity() > MAX_KEPT_INPUT_BYTES {
            true => self.bytes = Vec::new(),
            false => self.bytes.clear(),
        }
    }

    /// Frees the bytes that were read, while the next ones are awaited.
    fn free_read(&mut self) {
        self.bytes.drain(..self.at);
        self.searched = self.searched.saturating_sub(self.at);
        self.at = 0;
    }
}
