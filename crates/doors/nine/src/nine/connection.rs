//! Reads requests and writes replies.

use std::io::{self, BufReader, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use terrace_kit::Connection;
use terrace_tree::Tree;

use super::message::{Damaged, HEADER_BYTES, NO_TAG, Request};
use super::reply::Reply;
use super::session::Session;

/// The size of the read buffer for short requests.
const READ_BUFFER_BYTES: usize = 64 << 10;
/// A buffer that has grown beyond this size is released when requests are short again.
const MAX_KEPT_BUFFER_BYTES: usize = 256 << 10;

/// Answers a connection's requests until it ends. While it waits for a request, the server spares it according to what it holds.
///
/// # Errors
/// If the connection breaks, or a message cannot be decoded. The client is told of the latter.
pub fn serve(tree: &Arc<Tree>, connection: &Connection, spared: Duration) -> io::Result<()> {
    let mut session = Session::new(tree);
    let mut from = BufReader::with_capacity(READ_BUFFER_BYTES, connection);
    let mut to = connection;
    let (mut message, mut out) = (Vec::new(), Vec::new());
    loop {
        let damaged = match next(&mut from, session.limit(), &mut message, connection)? {
            Next::End => return Ok(()),
            Next::Damaged(damaged) => (NO_TAG, damaged),
            Next::Message { kind, tag } => match Request::decode(kind, &message) {
                Ok(request) => {
                    session.answer(tag, request, &mut out);
                    to.write_all(&out)?;
                    connection.end_request(session.spared(spared));
                    for buffer in [&mut message, &mut out] {
                        if buffer.capacity() > MAX_KEPT_BUFFER_BYTES && buffer.len() < READ_BUFFER_BYTES {
                            *buffer = Vec::new();
                        }
                    }
                    continue;
                }
                Err(damaged) => (tag, damaged),
            },
        };
        let (tag, damaged) = damaged;
        Reply::Error(&damaged.to_string()).encode(tag, &mut out);
        // The client may have stopped reading, so an error can be ignored.
        let _ = to.write_all(&out);
        return Err(io::Error::new(io::ErrorKind::InvalidData, damaged));
    }
}

enum Next {
    End,
    Message { kind: u8, tag: u16 },
    Damaged(Damaged),
}

/// Reads a message: its part after the header goes into `body`, which grows only as bytes arrive.
fn next(from: &mut impl Read, limit: u32, body: &mut Vec<u8>, connection: &Connection) -> io::Result<Next> {
    let mut header = [0; HEADER_BYTES];
    let mut have = 0;
    while have < 4 {
        match from.read(&mut header[have..4]) {
            Ok(0) if have == 0 => return Ok(Next::End),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(length) => {
                connection.begin_request();
                have += length;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let [a, b, c, d, ..] = header;
    let size = u32::from_le_bytes([a, b, c, d]);
    if (size as usize) < HEADER_BYTES {
        return Ok(Next::Damaged(Damaged("it is shorter than a header")));
    }
    if size > limit {
        return Ok(Next::Damaged(Damaged("it is longer than agreed on")));
    }
    from.read_exact(&mut header[4..])?;
    let [.., kind, low, high] = header;
    let length = size as usize - HEADER_BYTES;
    body.clear();
    if from.by_ref().take(length as u64).read_to_end(body)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Next::Message { kind, tag: u16::from_le_bytes([low, high]) })
}
