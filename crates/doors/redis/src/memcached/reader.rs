//! [`MemcachedReader`]: commands in a stream of bytes. It takes memory only for bytes that have arrived.

use super::command::{ItemDeed, MemcachedCommand, StoreWay};
use super::parse::{Line, parse_line};
use crate::input_buffer::InputBuffer;

/// A longer line ends the connection. A `get` may name thousands of items in one line.
const MAX_LINE_BYTES: usize = 1 << 20;
/// The limits for a client that has not given the password. It must not fill the memory.
const MAX_STRANGER_LINE_BYTES: usize = 2 << 10;
const MAX_STRANGER_BLOCK_BYTES: usize = 2 << 10;
/// The end of a block.
const BLOCK_END: &[u8] = b"\r\n";

/// The error for a line that exceeds the limit. It ends the connection.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLongLine;

impl TooLongLine {
    /// The last reply.
    pub const REPLY_LINE: &str = "CLIENT_ERROR line too long";
}

/// Takes commands out of the bytes of a connection.
#[derive(Debug)]
pub struct MemcachedReader {
    input: InputBuffer,
    max_item_bytes: usize,
    awaited: Awaited,
}

/// The bytes that come next.
#[derive(Debug, Default)]
enum Awaited {
    #[default]
    Line,
    /// The value of a command, of this length without [`BLOCK_END`].
    Block(MemcachedCommand, usize),
    /// This number of bytes to skip, [`BLOCK_END`] included, and the command to return then.
    Refused(MemcachedCommand, usize),
}

impl MemcachedReader {
    /// A reader for values up to a length.
    pub fn new(max_item_bytes: usize) -> MemcachedReader {
        MemcachedReader { input: InputBuffer::default(), max_item_bytes, awaited: Awaited::default() }
    }

    /// Takes bytes that have arrived.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.input.extend(bytes);
    }

    /// The number of bytes that were not read as commands yet.
    pub fn buffered_bytes(&self) -> usize {
        self.input.rest().len()
    }

    /// The memory that the bytes in the buffer take.
    pub fn held_bytes(&self) -> usize {
        self.input.held_bytes()
    }

    /// Returns the next command, or none if its end has not arrived. `is_trusted` clients may send long lines and values.
    ///
    /// # Errors
    /// If a line does not end. Nothing more can be read then.
    pub fn next(&mut self, is_trusted: bool) -> Result<Option<MemcachedCommand>, TooLongLine> {
        loop {
            match std::mem::take(&mut self.awaited) {
                Awaited::Line => {
                    if self.input.rest().is_empty() {
                        self.input.release();
                        return Ok(None);
                    }
                    let limit = if is_trusted { MAX_LINE_BYTES } else { MAX_STRANGER_LINE_BYTES };
                    let Some(line) = self.input.line(limit).map_err(|_| TooLongLine)? else { return Ok(None) };
                    match parse_line(line) {
                        Line::Whole(command) => return Ok(Some(command)),
                        Line::WithBlock(command, length) => {
                            self.awaited = self.await_block(command, length, is_trusted)
                        }
                        Line::WrongWithBlock(reply, length) => {
                            let wrong = MemcachedCommand { deed: ItemDeed::Say(reply), is_silent: false };
                            self.awaited = Awaited::Refused(wrong, length + BLOCK_END.len());
                        }
                    }
                }
                Awaited::Block(mut command, length) => {
                    let Some(block) = self.input.take(length + BLOCK_END.len()) else {
                        self.awaited = Awaited::Block(command, length);
                        return Ok(None);
                    };
                    match (&mut command.deed, block.strip_suffix(BLOCK_END)) {
                        (ItemDeed::Store { bytes, .. }, Some(block)) => *bytes = block.to_vec(),
                        (deed, _) => *deed = ItemDeed::Say("CLIENT_ERROR bad data chunk"),
                    }
                    return Ok(Some(command));
                }
                Awaited::Refused(command, left) => {
                    let arrived = self.input.rest().len().min(left);
                    self.input.take(arrived);
                    if arrived == left {
                        return Ok(Some(command));
                    }
                    self.input.release();
                    self.awaited = Awaited::Refused(command, left - arrived);
                    return Ok(None);
                }
            }
        }
    }

    fn await_block(&self, command: MemcachedCommand, length: usize, is_trusted: bool) -> Awaited {
        let limit = if is_trusted { self.max_item_bytes } else { MAX_STRANGER_BLOCK_BYTES };
        match command.deed {
            ItemDeed::Store { way, key, .. } if length > limit => {
                let deed = ItemDeed::StoreTooLong { removes_old: way == StoreWay::Set, key };
                Awaited::Refused(MemcachedCommand { deed, ..command }, length + BLOCK_END.len())
            }
            _ => Awaited::Block(command, length),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(pieces: &[&[u8]], max_item_bytes: usize) -> Result<Vec<MemcachedCommand>, TooLongLine> {
        let (mut reader, mut found) = (MemcachedReader::new(max_item_bytes), Vec::new());
        for piece in pieces {
            reader.extend(piece);
            while let Some(command) = reader.next(true)? {
                found.push(command);
            }
        }
        Ok(found)
    }

    fn store(key: &[u8], bytes: &[u8]) -> MemcachedCommand {
        let (key, bytes) = (key.to_vec(), bytes.to_vec());
        let deed = ItemDeed::Store { way: StoreWay::Set, key, flags: 7, expiry: -1, bytes };
        MemcachedCommand { deed, is_silent: false }
    }

    proptest! {
        #[test]
        fn commands_arrive_whole_however_they_are_cut(
            items in prop::collection::vec(("[a-z]{1,9}", prop::collection::vec(any::<u8>(), 0..9)), 0..5),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9),
        ) {
            let encode = |(key, value): &(String, Vec<u8>)| {
                let line = format!("set {key} 7 -1 {}\r\n", value.len());
                [line.as_bytes(), value, b"\r\n"].concat()
            };
            let bytes: Vec<u8> = items.iter().flat_map(encode).collect();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            let expected = items.iter().map(|(key, value)| store(key.as_bytes(), value)).collect();
            prop_assert_eq!(read_all(&pieces, 9), Ok(expected));
        }
    }

    #[test]
    fn blocks_of_refused_commands_are_no_commands() {
        let long_key = "k".repeat(251);
        for line in [
            "set a 0 0 9".to_owned(),
            format!("set {long_key} 0 0 9"),
            "set a -1 0 9".to_owned(),
            "cas a 0 0 9 x".to_owned(),
        ] {
            let found = read_all(&[format!("{line}\r\n").as_bytes(), b"flush", b"_all\r\nversion\r\n"], 8).unwrap();
            assert_eq!(found.len(), 2, "{line}: {found:?}");
            assert_eq!(found[1].deed, ItemDeed::Version, "{line}: {found:?}");
        }
    }

    #[test]
    fn an_endless_line_is_refused() {
        assert_eq!(read_all(&[&vec![b'x'; MAX_LINE_BYTES]], 9), Err(TooLongLine));
        let mut stranger = MemcachedReader::new(1 << 20);
        stranger.extend(&vec![b'x'; MAX_STRANGER_LINE_BYTES]);
        assert_eq!(stranger.next(false), Err(TooLongLine));
    }
}
