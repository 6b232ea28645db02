//! Frames: header and payload.

use std::io;

use terrace::Encoding;
use terrace::frame::{Header, Identity, Scratch, decode_range, encode};
use terrace::tier::Place;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The store's id. At segment 0 and offset 0 it alone is the seed of a header's checksum.
const STORE_ID: u64 = 7;
const FRAME_PLACE: Place = Place { segment: 0, offset: 0, length: 0 };
const CHECKSUM_AT: usize = 8;

pub fn samples() -> Vec<Vec<u8>> {
    let numbers: Vec<u8> = (0..80_000u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
    let identity = Identity { object: 3, write: 9, offset: 1 << 20, replica: 1 };
    let encodings = terrace_codec::ALL_ENCODINGS.iter().chain(terrace_codec::RARE_ENCODINGS).chain([&Encoding::NONE]);
    let frame = |(encoding, length): (&Encoding, usize)| {
        let mut scratch = Scratch::default();
        let frame = encode(identity, *encoding, numbers.get(..length)?, &mut scratch).ok()?;
        let mut bytes = Vec::new();
        frame.header.write(STORE_ID, FRAME_PLACE, &mut bytes);
        bytes.extend_from_slice(frame.payload);
        Some(bytes)
    };
    encodings.flat_map(|encoding| [(encoding, 1), (encoding, 5000), (encoding, 300_000)]).filter_map(frame).collect()
}

pub fn parse(input: &[u8]) -> bool {
    let mut is_valid = false;
    // The header's length follows from bytes that its checksum covers, so the right length is found by trying.
    let lengths = (64..input.len().min(terrace::frame::MAX_HEADER) + 1)
        .filter(|length| matches!((length - 64) % 12, 0) || matches!((length - 64) % 20, 0));
    for length in lengths {
        let Some(header) = input.get(..length) else { break };
        let mut header = header.to_vec();
        header.splice(CHECKSUM_AT..CHECKSUM_AT + 8, [0; 8]);
        let checksum = xxh3_64_with_seed(&header, STORE_ID).to_le_bytes();
        header.splice(CHECKSUM_AT..CHECKSUM_AT + 8, checksum);
        if let Ok(header) = Header::read(&header, STORE_ID, FRAME_PLACE) {
            is_valid |= parse_payload(header, input.get(length..).unwrap_or_default());
        }
    }
    is_valid
}

/// Decodes the whole frame and parts of it, with correct checksums of the stored bytes. Returns whether the whole is valid.
fn parse_payload(mut header: Header, payload: &[u8]) -> bool {
    let mut start = 0;
    for sub_block in &mut header.sub_blocks {
        let end = sub_block.end as usize;
        sub_block.stored = xxh3_64(payload.get(start..end).unwrap_or_default());
        start = end;
    }
    let mut scratch = Scratch::default();
    let mut is_readable = |start: u32, length: u32| {
        let mut out = vec![0; length as usize];
        let read = decode_range(&header, start, &mut out, &mut scratch, |range, into| {
            let stored = payload.get(range.start as usize..range.end as usize);
            into.copy_from_slice(stored.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        });
        read.is_ok()
    };
    let _ = (is_readable(header.raw_len / 2, header.raw_len / 3), is_readable(header.raw_len, 1));
    is_readable(0, header.raw_len)
}
