//! Requests of clients of Redis.

use terrace_redis::request::RequestReader;

pub fn samples() -> Vec<Vec<u8>> {
    [
        "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nhello\r\n",
        "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        "set 'a b' \"\\x41\\n\"\r\nget 'a b'\r\n",
        "*0\r\n*-1\r\nPING\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// Whether the bytes are whole requests.
pub fn parse(input: &[u8]) -> bool {
    [false, true].into_iter().all(|is_trusted| {
        let mut reader = RequestReader::default();
        // As they might arrive.
        input
            .chunks(7)
            .try_for_each(|piece| {
                reader.extend(piece);
                while reader.next(is_trusted)?.is_some() {}
                Ok::<(), terrace_redis::request::Malformed>(())
            })
            .is_ok()
    })
}
