//! Streams: requests that `terrace flush - --stream NAME` delivers, exactly once.

use std::ffi::{c_char, c_void};

use crate::failure::guard;
use crate::options::ack;
use crate::store::{Store, find_store};
use crate::{Failure, Status};
use terrace_foreign::Handles;
use terrace_foreign::{caller_bytes, required_text, string, write_out};

static OPEN_STREAMS: Handles<Stream> = Handles::new("stream");

/// An open stream. Many threads may use one at once.
pub struct Stream {
    stream: stream::Stream,
}

/// Bytes for a place in a destination.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Request {
    /// The destination: a path below the stream's target, such as `"runs/a.h5"`.
    pub destination: *const c_char,
    /// The offset of the first byte. -1 appends the bytes behind all that were delivered before.
    pub offset: i64,
    /// The bytes.
    pub bytes: *const c_void,
    /// The number of bytes.
    pub length: usize,
    /// The name of the producer; or null, if the request is never sent again.
    pub producer: *const c_char,
    /// The request's number among those of the producer, from 1 on. A request that was accepted before is not taken again.
    pub sequence: u64,
}

impl Request {
    /// Checks the fields, and copies what they point to.
    fn parse(&self) -> Result<stream::Framed, Failure> {
        let destination = string(self.destination, "the destination")?;
        let bytes = caller_bytes(self.bytes, self.length)?.to_vec();
        let request = match u64::try_from(self.offset) {
            Ok(offset) => stream::Request::at(destination, offset, bytes),
            Err(_) if self.offset == -1 => stream::Request::append(destination, bytes),
            Err(_) => return Err(Failure::Invalid(format!("the offset {} is less than -1", self.offset))),
        };
        let origin = match self.producer.is_null() {
            true => None,
            false => {
                let producer = string(self.producer, "the producer")?.into();
                Some(stream::Origin { producer, sequence: self.sequence })
            }
        };
        Ok(stream::Framed { request, origin })
    }
}

/// Opens a stream; the first request makes it. `level` says when a request counts as accepted: `"placed"`, `"replicated"` or
/// `"durable"`.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_stream_open(
    store: *const Store,
    name: *const c_char,
    level: *const c_char,
    stream: *mut *mut Stream,
) -> Status {
    guard(|| {
        if stream.is_null() {
            return Err(Failure::Invalid("the place for the stream is null".into()));
        }
        let store = find_store(store)?;
        let name = required_text(name, "the name")?;
        let level = ack(required_text(level, "the level")?)?;
        write_out(stream, OPEN_STREAMS.keep(Stream { stream: stream::Stream::open(&store.store, name, level)? }));
        Ok(())
    })
}

/// Closes a stream; all that was accepted stays. Closing null does nothing. Closing a stream twice is an error that does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_stream_close(stream: *mut Stream) -> Status {
    guard(|| {
        if !stream.is_null() {
            OPEN_STREAMS.take(stream)?;
        }
        Ok(())
    })
}

/// Adds all or none of the requests to a stream, and returns once they are accepted. `added` gets the number of those that are new, and may
/// be null.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_stream_append(
    stream: *const Stream,
    requests: *const Request,
    count: usize,
    added: *mut usize,
) -> Status {
    guard(|| {
        let stream = OPEN_STREAMS.find(stream)?;
        let framed = terrace_foreign::items(requests, count, "the requests")?;
        let framed = framed.iter().map(Request::parse).collect::<Result<Vec<_>, _>>()?;
        let accepted = stream.stream.append_framed(framed)?;
        write_out(added, accepted.iter().filter(|accepted| **accepted == stream::Accepted::New).count());
        Ok(())
    })
}

/// Returns the number of requests that are not delivered yet, and of their bytes. Both places may be null.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_stream_backlog(stream: *const Stream, requests: *mut u64, bytes: *mut u64) -> Status {
    guard(|| {
        let backlog = OPEN_STREAMS.find(stream)?.stream.backlog()?;
        write_out(requests, backlog.requests);
        write_out(bytes, backlog.bytes);
        Ok(())
    })
}
