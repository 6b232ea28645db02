//! Every encoding restores every kind of data, and only at its own length.

mod data;

use proptest::prelude::*;
use terrace_codec::{ALL_ENCODINGS, Encoding, RARE_ENCODINGS, Scratch, Transform, decode, encode, encode_sample};

fn round_trip(encoding: Encoding, raw: &[u8], scratch: &mut Scratch) -> bool {
    let mut stored = vec![7; 3];
    let made = encode(encoding, raw, &mut stored, scratch).expect("encodes");
    let Some(length) = made else {
        assert!(stored.is_empty(), "{encoding}");
        return false;
    };
    assert_eq!(length, stored.len());
    assert!(length < raw.len(), "{encoding}");
    let mut back = vec![1; raw.len()];
    decode(encoding, &stored, &mut back, scratch).expect("decodes");
    assert!(back == raw, "{encoding} of {} bytes", raw.len());
    // The data is not aligned, like a slice of a larger buffer.
    let mut larger = vec![1; raw.len() + 1];
    decode(encoding, &stored, &mut larger[1..], scratch).expect("decodes");
    assert!(&larger[1..] == raw, "{encoding} of {} bytes, not aligned", raw.len());
    for wrong in [raw.len() - 1, raw.len() + 1, raw.len() / 2, raw.len() * 2, 0] {
        assert!(
            decode(encoding, &stored, &mut vec![0; wrong], scratch).is_err(),
            "{encoding}: {} as {wrong}",
            raw.len()
        );
    }
    true
}

#[test]
fn every_encoding_round_trips_on_every_kind_at_boundary_lengths() {
    let mut scratch = Scratch::default();
    for &encoding in ALL_ENCODINGS.iter().chain(RARE_ENCODINGS) {
        let mut shrank = false;
        for kind in 0..8 {
            for length in [0, 1, 2, 7, 33, 4096, 4099, 65_536] {
                shrank |= round_trip(encoding, &data::bytes(kind, length, 5), &mut scratch);
            }
        }
        assert!(shrank || encoding == Encoding::NONE, "{encoding} shrinks nothing");
    }
}

#[test]
fn an_unaligned_mebibyte_round_trips() {
    let mut scratch = Scratch::default();
    let raw = data::bytes(4, (1 << 20) + 3, 9);
    for &encoding in ALL_ENCODINGS {
        round_trip(encoding, &raw, &mut scratch);
        round_trip(encoding, &raw[1..], &mut scratch);
    }
}

#[test]
fn none_copies_bytes_of_equal_length() {
    let mut scratch = Scratch::default();
    let mut out = vec![1];
    assert_eq!(encode(Encoding::NONE, b"abc", &mut out, &mut scratch).expect("encodes"), None);
    let mut back = [0; 3];
    decode(Encoding::NONE, b"abc", &mut back, &mut scratch).expect("copies");
    assert_eq!(&back, b"abc");
    assert!(decode(Encoding::NONE, b"ab", &mut back, &mut scratch).is_err());
}

#[test]
fn random_bytes_never_grow() {
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let raw = data::bytes(0, 65_536, 3);
    for &encoding in ALL_ENCODINGS.iter().chain(RARE_ENCODINGS).filter(|e| e.transform == Transform::None) {
        assert_eq!(encode(encoding, &raw, &mut out, &mut scratch).expect("encodes"), None, "{encoding}");
    }
}

#[test]
fn samples_are_encoded_like_their_block() {
    let (mut scratch, mut out, mut twice) = (Scratch::default(), Vec::new(), Vec::new());
    let raw = data::bytes(6, 262_144, 3);
    for &encoding in ALL_ENCODINGS {
        // A sample may be the whole block. The result is as long as without sampling, except for the length in the
        // frame.
        let whole = encode(encoding, &raw, &mut out, &mut scratch).expect("encodes").unwrap_or(0);
        let sample = encode_sample(encoding, &raw, 262_144, &mut twice, &mut scratch).expect("encodes").unwrap_or(0);
        assert!(whole.abs_diff(sample) * 200 <= whole, "{encoding}: {whole} and {sample}");
        let sample = &raw[..65_536];
        if encode_sample(encoding, sample, 262_144, &mut out, &mut scratch).expect("encodes").is_some() {
            let mut back = vec![0; sample.len()];
            decode(encoding, &out, &mut back, &mut scratch).expect("decodes");
            assert!(back == sample, "{encoding}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn encoded_bytes_decode(kind in 0u8..8, length in 0usize..20_000, seed: u64, which in 0..ALL_ENCODINGS.len() + RARE_ENCODINGS.len()) {
        let encoding = *ALL_ENCODINGS.iter().chain(RARE_ENCODINGS).nth(which).expect("a row");
        round_trip(encoding, &data::bytes(kind, length, seed), &mut Scratch::default());
    }
}
