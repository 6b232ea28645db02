//! Commands of clients of memcached.

use terrace_redis::memcached::{MemcachedReader, TooLongLine};

/// The reader refuses longer values.
const MAX_ITEM_BYTES: usize = 64;

pub fn samples() -> Vec<Vec<u8>> {
    [
        "set a 7 60 5\r\nhello\r\nget a b\r\n",
        "cas a 0 0 1 18446744073709551615 noreply\r\nx\r\ngats 10 a\r\n",
        "set a 0 0 70\r\n0123456789012345678901234567890123456789012345678901234567890123456789\r\nincr a 1\r\n",
        "append a -1 0 3\r\nabc\r\ntouch a 1\r\ndelete a 0 noreply\r\nflush_all 10\r\nstats\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Returns false if a line is longer than the reader allows.
pub fn parse(input: &[u8]) -> bool {
    [false, true].into_iter().all(|is_trusted| {
        let mut reader = MemcachedReader::new(MAX_ITEM_BYTES);
        // In small pieces, as bytes may arrive from a socket.
        input
            .chunks(7)
            .try_for_each(|piece| {
                reader.extend(piece);
                while reader.next(is_trusted)?.is_some() {}
                Ok::<(), TooLongLine>(())
            })
            .is_ok()
    })
}
