//! The frame format of requests in the log and on stdin.
//!
//! All integers are little-endian. A frame is a header of 32 bytes, then the destination, the producer and the bytes:
//!
//! | at | size | what |
//! | --- | --- | --- |
//! | 0 | 4 | `tfr1` |
//! | 4 | 2 | length of the destination |
//! | 6 | 2 | length of the producer; 0: none |
//! | 8 | 4 | number of bytes |
//! | 12 | 4 | flags: 1 append, 2 the destination ends behind these bytes |
//! | 16 | 8 | offset; 0 where it is an append |
//! | 24 | 8 | the producer's sequence, from 1 on; 0 where there is no producer |

use std::io::Read;

use bytes::Bytes;

use crate::request::{Framed, MAX_REQUEST_BYTES, Name, Origin, Place, Request};
use crate::{Error, Result};

/// The size of the fixed header of a frame.
const HEADER_BYTES: usize = 32;
const FRAME_MAGIC: [u8; 4] = *b"tfr1";
const FLAG_APPEND: u32 = 1;
const FLAG_ENDS: u32 = 2;

impl Framed {
    /// Appends the frame to `out`.
    ///
    /// # Errors
    /// Where the request or its origin is not allowed.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let Framed { request, origin } = self;
        request.check()?;
        let producer: &[u8] = origin.as_ref().map_or(&[], |origin| &origin.producer);
        if let Some(origin) = origin
            && (producer.is_empty() || producer.len() > 255 || producer.contains(&0) || origin.sequence == 0)
        {
            return Err(Error::BadProducer(String::from_utf8_lossy(producer).into()));
        }
        let (offset, append) = match request.place {
            Place::Append => (0, FLAG_APPEND),
            Place::At(offset) => (offset, 0),
        };
        let flags = append | if request.ends { FLAG_ENDS } else { 0 };
        out.extend_from_slice(&FRAME_MAGIC);
        out.extend_from_slice(&(request.destination.len() as u16).to_le_bytes());
        out.extend_from_slice(&(producer.len() as u16).to_le_bytes());
        out.extend_from_slice(&(request.bytes.len() as u32).to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&origin.as_ref().map_or(0, |origin| origin.sequence).to_le_bytes());
        out.extend_from_slice(&request.destination);
        out.extend_from_slice(producer);
        out.extend_from_slice(&request.bytes);
        Ok(())
    }
}

/// The header's fields.
struct Header {
    destination: usize,
    producer: usize,
    bytes: usize,
    flags: u32,
    offset: u64,
    sequence: u64,
}

impl Header {
    fn parse(raw: &[u8; HEADER_BYTES]) -> Result<Header, String> {
        let number = |range: std::ops::Range<usize>| {
            raw.get(range).unwrap_or_default().iter().rev().fold(0, |n: u64, byte| n << 8 | u64::from(*byte))
        };
        if raw.first_chunk() != Some(&FRAME_MAGIC) {
            return Err(format!("it should begin with {:?}", String::from_utf8_lossy(&FRAME_MAGIC)));
        }
        let header = Header {
            destination: number(4..6) as usize,
            producer: number(6..8) as usize,
            bytes: number(8..12) as usize,
            flags: number(12..16) as u32,
            offset: number(16..24),
            sequence: number(24..32),
        };
        if header.flags & !(FLAG_APPEND | FLAG_ENDS) != 0 {
            return Err(format!("flags {:#x} are not known", header.flags));
        }
        if header.bytes > MAX_REQUEST_BYTES {
            return Err(Error::TooLong { bytes: header.bytes }.to_string());
        }
        if header.flags & FLAG_APPEND != 0 && header.offset != 0 {
            return Err("an append has an offset".into());
        }
        if (header.producer == 0) != (header.sequence == 0) {
            return Err("a producer goes with a sequence of 1 or more".into());
        }
        Ok(header)
    }

    fn length(&self) -> usize {
        self.destination + self.producer + self.bytes
    }

    /// Decodes the frame from the bytes that follow the header.
    fn frame(&self, body: &Bytes) -> Result<Framed, String> {
        let names = self.destination + self.producer;
        let part = |range: std::ops::Range<usize>| body.get(range).unwrap_or_default();
        let place = if self.flags & FLAG_APPEND != 0 { Place::Append } else { Place::At(self.offset) };
        let request = Request {
            destination: part(0..self.destination).into(),
            place,
            bytes: body.slice(names..),
            ends: self.flags & FLAG_ENDS != 0,
        };
        request.check().map_err(|e| e.to_string())?;
        let producer: Name = part(self.destination..names).into();
        let origin = (!producer.is_empty()).then_some(Origin { producer, sequence: self.sequence });
        if origin.as_ref().is_some_and(|origin| origin.producer.len() > 255 || origin.producer.contains(&0)) {
            return Err("the producer's name is not allowed".into());
        }
        Ok(Framed { request, origin })
    }
}

/// Splits the first frame off `bytes`, or returns `None` at their end. `at` is the offset of `bytes` in the input.
pub fn take(bytes: &mut Bytes, at: u64) -> Result<Option<Framed>> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bad = |reason: String| Error::BadFrame { at, reason };
    let cut = || bad("it is cut off".into());
    let header = Header::parse(bytes.first_chunk().ok_or_else(cut)?).map_err(bad)?;
    if bytes.len() < HEADER_BYTES + header.length() {
        return Err(cut());
    }
    let mut body = bytes.split_to(HEADER_BYTES + header.length());
    header.frame(&body.split_off(HEADER_BYTES)).map(Some).map_err(bad)
}

/// An iterator over the frames of a byte stream.
pub struct Frames<R> {
    source: R,
    at: u64,
}

impl<R: Read> Frames<R> {
    /// Reads frames from `source`.
    pub fn new(source: R) -> Frames<R> {
        Frames { source, at: 0 }
    }

    fn read(&mut self) -> Result<Option<Framed>> {
        let at = self.at;
        let bad = |reason: String| Error::BadFrame { at, reason };
        let mut header = [0; HEADER_BYTES];
        match fill(&mut self.source, &mut header)? {
            0 => return Ok(None),
            HEADER_BYTES => {}
            _ => return Err(bad("it is cut off".into())),
        }
        let header = Header::parse(&header).map_err(bad)?;
        let mut body = vec![0; header.length()];
        if fill(&mut self.source, &mut body)? < body.len() {
            return Err(bad("it is cut off".into()));
        }
        self.at += (HEADER_BYTES + body.len()) as u64;
        header.frame(&Bytes::from(body)).map(Some).map_err(bad)
    }
}

impl<R: Read> Iterator for Frames<R> {
    type Item = Result<Framed>;

    fn next(&mut self) -> Option<Result<Framed>> {
        self.read().transpose()
    }
}

/// Reads until `out` is full or the source ends, and returns the number of bytes read.
fn fill(source: &mut impl Read, out: &mut [u8]) -> Result<usize> {
    let mut filled = 0;
    while let Some(rest) = out.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match source.read(rest) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Error::io("reading requests")(e)),
        }
    }
    Ok(filled)
}
