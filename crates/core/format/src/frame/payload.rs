//! The payload of a frame: encodes an extent's bytes, and decodes any range of them.

use std::cell::RefCell;
use std::ops::Range;
use std::thread::LocalKey;

use terrace_codec::{self as codec, Encoding};
use terrace_system::clock::thread_seconds;
use xxhash_rust::xxh3::xxh3_64;

use super::header::sub_block_len;
use super::{Header, Identity, SubBlock};

/// A frame to append. The header is completed once its place is known.
pub struct Frame<'a> {
    /// The header.
    pub header: Header,
    /// The stored bytes, `header.stored_len` of them.
    pub payload: &'a [u8],
}

/// The encoded bytes of an extent. Frames of several replicas are made of them.
pub struct OwnedFrame {
    header: Header,
    /// None if they are stored raw.
    payload: Option<Vec<u8>>,
}

impl OwnedFrame {
    /// Encodes `raw` as [`encode`] does.
    ///
    /// # Errors
    /// Those of the codec.
    pub fn encode(encoding: Encoding, raw: &[u8], scratch: &mut Scratch) -> Result<OwnedFrame, codec::Error> {
        let nobody = Identity { object: 0, write: 0, offset: 0, replica: 0 };
        let Frame { header, payload } = encode(nobody, encoding, raw, scratch)?;
        let payload = (header.encoding != Encoding::NONE).then(|| payload.to_vec());
        Ok(OwnedFrame { header, payload })
    }

    /// Returns the frame of a replica. `raw` must be the bytes that were encoded.
    pub fn of<'a>(&'a self, identity: Identity, raw: &'a [u8]) -> Frame<'a> {
        Frame { header: Header { identity, ..self.header.clone() }, payload: self.payload.as_deref().unwrap_or(raw) }
    }
}

/// Reusable buffers and codec contexts, one for each thread that encodes or decodes.
#[derive(Default)]
pub struct Scratch {
    codec: codec::Scratch,
    coded: Vec<u8>,
    payload: Vec<u8>,
    raw: Vec<u8>,
    fetched: Vec<u8>,
    /// The last frame that was read.
    pub frame: Vec<u8>,
    /// The codec's result for the last encoded frame.
    pub encoded: Coded,
    /// The decoding work since this was last taken.
    pub decoded: Coded,
}

thread_local! {
    static FRAME_SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
    static RAW_BLOCK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends the thread's buffers and codec contexts.
pub fn with_scratch<T>(run: impl FnOnce(&mut Scratch) -> T) -> T {
    lend(&FRAME_SCRATCH, run)
}

/// Lends the thread's buffer for raw bytes, an extent at a time. It has any length and content. Memory that is used again costs less than new
/// memory, whose pages the system clears.
pub fn with_block<T>(run: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    lend(&RAW_BLOCK, run)
}

fn lend<B: Default, T>(own: &'static LocalKey<RefCell<B>>, run: impl FnOnce(&mut B) -> T) -> T {
    own.with(|buffer| match buffer.try_borrow_mut() {
        Ok(mut buffer) => run(&mut buffer),
        Err(_) => run(&mut B::default()),
    })
}

/// The work of a codec.
#[derive(Clone, Copy, Default)]
pub struct Coded {
    /// Number of raw bytes.
    pub raw: usize,
    /// Number of stored bytes.
    pub stored: usize,
    /// Seconds of thread time.
    pub seconds: f64,
}

impl Coded {
    fn add(&mut self, raw: usize, stored: usize, since: f64) {
        self.raw += raw;
        self.stored += stored;
        self.seconds += thread_seconds() - since;
    }
}

/// Encodes `raw`, of 1 byte up to a block, as a frame. Each sub-block that does not shrink is stored raw. If none shrinks,
/// the whole frame is.
pub fn encode<'a>(
    identity: Identity,
    encoding: Encoding,
    raw: &'a [u8],
    scratch: &'a mut Scratch,
) -> Result<Frame<'a>, codec::Error> {
    if encoding != Encoding::NONE {
        let mut sub_blocks = Vec::with_capacity(4);
        scratch.payload.clear();
        scratch.encoded = Coded::default();
        for part in raw.chunks(sub_block_len(encoding) as usize) {
            let start = thread_seconds();
            let shrunk = codec::encode(encoding, part, &mut scratch.coded, &mut scratch.codec)?;
            let stored = if shrunk.is_some() { scratch.coded.as_slice() } else { part };
            scratch.encoded.add(part.len(), stored.len(), start);
            scratch.payload.extend_from_slice(stored);
            sub_blocks.push(SubBlock {
                end: scratch.payload.len() as u32,
                stored: xxh3_64(stored),
                raw: xxh3_64(part),
            });
        }
        if scratch.payload.len() < raw.len() {
            let header = header(identity, encoding, raw, scratch.payload.len(), sub_blocks);
            return Ok(Frame { header, payload: &scratch.payload });
        }
    }
    let mut end = 0;
    let sub_blocks = raw
        .chunks(sub_block_len(Encoding::NONE) as usize)
        .map(|part| {
            end += part.len() as u32;
            let checksum = xxh3_64(part);
            SubBlock { end, stored: checksum, raw: checksum }
        })
        .collect();
    Ok(Frame { header: header(identity, Encoding::NONE, raw, raw.len(), sub_blocks), payload: raw })
}

fn header(identity: Identity, encoding: Encoding, raw: &[u8], stored: usize, sub_blocks: Vec<SubBlock>) -> Header {
    Header { identity, raw_len: raw.len() as u32, stored_len: stored as u32, encoding, sub_blocks }
}

/// Whether these are the stored bytes that the header speaks of. Nothing is decoded.
pub fn is_payload_of(header: &Header, payload: &[u8]) -> bool {
    let mut start = 0;
    header.sub_blocks.iter().all(|sub| {
        let stored = payload.get(start..sub.end as usize);
        start = sub.end as usize;
        stored.is_some_and(|stored| xxh3_64(stored) == sub.stored)
    })
}

/// Fills `out` with the raw bytes of the frame from `start` on. `fetch(range, into)` reads a range of the payload. Only the
/// sub-blocks that the request touches are read, verified and decoded.
pub fn decode_range(
    header: &Header,
    start: u32,
    out: &mut [u8],
    scratch: &mut Scratch,
    mut fetch: impl FnMut(Range<u32>, &mut [u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let damaged = |what| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let size = sub_block_len(header.encoding);
    let end = start + out.len() as u32;
    if end > header.raw_len {
        return Err(damaged("the frame is shorter than the extent"));
    }
    let mut done = 0;
    while done < out.len() {
        let at = start + done as u32;
        let index = at / size;
        let raw_start = index * size;
        let raw_len = size.min(header.raw_len - raw_start);
        let sub = header.sub_blocks.get(index as usize).ok_or_else(|| damaged("a sub-block is missing"))?;
        let from = index.checked_sub(1).and_then(|i| header.sub_blocks.get(i as usize)).map_or(0, |s| s.end);
        let stored_len = sub.end - from;
        let take = (raw_start + raw_len).min(end) - at;
        let want = &mut out[done..done + take as usize];
        if stored_len == raw_len && take == raw_len {
            fetch(from..sub.end, want)?;
            if xxh3_64(want) != sub.stored {
                return Err(damaged("a sub-block's checksum is wrong"));
            }
        } else {
            scratch.fetched.resize(stored_len as usize, 0);
            fetch(from..sub.end, &mut scratch.fetched)?;
            if xxh3_64(&scratch.fetched) != sub.stored {
                return Err(damaged("a sub-block's checksum is wrong"));
            }
            let skip = (at - raw_start) as usize;
            if stored_len == raw_len {
                want.copy_from_slice(&scratch.fetched[skip..skip + take as usize]);
            } else if take == raw_len {
                decode(header.encoding, &scratch.fetched, want, &mut scratch.codec, sub.raw, &mut scratch.decoded)?;
            } else {
                scratch.raw.resize(raw_len as usize, 0);
                decode(
                    header.encoding,
                    &scratch.fetched,
                    &mut scratch.raw,
                    &mut scratch.codec,
                    sub.raw,
                    &mut scratch.decoded,
                )?;
                want.copy_from_slice(&scratch.raw[skip..skip + take as usize]);
            }
        }
        done += take as usize;
    }
    Ok(())
}

fn decode(
    encoding: Encoding,
    stored: &[u8],
    raw: &mut [u8],
    scratch: &mut codec::Scratch,
    checksum: u64,
    decoded: &mut Coded,
) -> std::io::Result<()> {
    let damaged = |what: String| std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    let start = thread_seconds();
    codec::decode(encoding, stored, raw, scratch).map_err(|e| damaged(e.to_string()))?;
    decoded.add(raw.len(), stored.len(), start);
    if xxh3_64(raw) == checksum { Ok(()) } else { Err(damaged("the decoded bytes' checksum is wrong".into())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;
    use proptest::prelude::*;

    const SOME_PLACE: Place = Place { segment: 7, offset: 4096, length: 0 };

    fn encodings() -> impl Strategy<Value = Encoding> {
        prop_oneof![Just("none"), Just("lz4"), Just("zstd-1"), Just("shuffle4+zstd-1")]
            .prop_map(|name| name.parse().expect("an encoding"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_range_of_a_frame_reads_back(
            len in 1usize..700_000, period in 1usize..300, noise in any::<bool>(), encoding in encodings(),
            a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
        ) {
            let raw: Vec<u8> = (0..len).map(|i| if noise { (i * i / 7) as u8 ^ (i >> 3) as u8 } else { (i % period) as u8 }).collect();
            let identity = Identity { object: 1, write: 2, offset: 3, replica: 0 };
            let mut scratch = Scratch::default();
            let frame = encode(identity, encoding, &raw, &mut scratch).expect("encodes");
            let mut bytes = Vec::new();
            frame.header.write(9, SOME_PLACE, &mut bytes);
            prop_assert_eq!(bytes.len(), frame.header.written_len());
            let payload = frame.payload.to_vec();
            let header = Header::read(&bytes, 9, SOME_PLACE).expect("reads");
            prop_assert_eq!(&header, &frame.header);
            prop_assert!(Header::read(&bytes, 8, SOME_PLACE).is_err(), "another store's");
            prop_assert!(Header::read(&bytes, 9, Place { offset: 0, ..SOME_PLACE }).is_err(), "another place's");
            let (a, b) = (a.index(len + 1), b.index(len + 1));
            let (start, end) = (a.min(b), a.max(b));
            let mut out = vec![0; end - start];
            decode_range(&header, start as u32, &mut out, &mut Scratch::default(), |range, into| {
                into.copy_from_slice(&payload[range.start as usize..range.end as usize]);
                Ok(())
            }).expect("decodes");
            prop_assert_eq!(&out, &raw[start..end]);
        }

        #[test]
        fn a_flipped_bit_is_never_passed_on(bit in any::<prop::sample::Index>(), encoding in encodings()) {
            let raw: Vec<u8> = (0..300_000u32).map(|i| (i / 64) as u8).collect();
            let mut scratch = Scratch::default();
            let frame = encode(Identity { object: 1, write: 2, offset: 0, replica: 0 }, encoding, &raw, &mut scratch).expect("encodes");
            let mut bytes = Vec::new();
            frame.header.write(9, SOME_PLACE, &mut bytes);
            let head = bytes.len();
            bytes.extend_from_slice(frame.payload);
            let bit = bit.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let Ok(header) = Header::read(&bytes, 9, SOME_PLACE) else { return Ok(()) };
            let mut out = vec![0; raw.len()];
            let read = decode_range(&header, 0, &mut out, &mut Scratch::default(), |range, into| {
                into.copy_from_slice(&bytes[head + range.start as usize..head + range.end as usize]);
                Ok(())
            });
            prop_assert!(read.is_err());
        }
    }
}
