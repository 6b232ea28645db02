//! The numbers in frames on disks. A row may be added here; none may change.

use terrace_codec::{ALL_ENCODINGS, Encoding, RARE_ENCODINGS};

const GOLDEN_IDS: &[(&str, [u8; 4])] = &[
    ("none", [0, 0, 0, 0]),
    ("lz4", [0, 0, 1, 0]),
    ("huffman", [0, 0, 3, 0]),
    ("zstd-1", [0, 0, 2, 1]),
    ("zstd-3", [0, 0, 2, 3]),
    ("zstd-9", [0, 0, 2, 9]),
    ("shuffle2+lz4", [1, 1, 1, 0]),
    ("shuffle2+zstd-1", [1, 1, 2, 1]),
    ("shuffle4+lz4", [1, 4, 1, 0]),
    ("shuffle4+zstd-1", [1, 4, 2, 1]),
    ("shuffle4+zstd-3", [1, 4, 2, 3]),
    ("delta4+lz4", [2, 4, 1, 0]),
    ("delta4+zstd-1", [2, 4, 2, 1]),
    ("shuffle8+lz4", [1, 5, 1, 0]),
    ("shuffle8+zstd-1", [1, 5, 2, 1]),
    ("shuffle8+zstd-3", [1, 5, 2, 3]),
    ("delta8+lz4", [2, 5, 1, 0]),
    ("delta8+zstd-1", [2, 5, 2, 1]),
    ("shuffle32+lz4", [1, 6, 1, 0]),
    ("shuffle32+zstd-1", [1, 6, 2, 1]),
    ("pco-i32", [0, 2, 4, 8]),
    ("pco-i64", [0, 3, 4, 8]),
    ("pco-f32", [0, 4, 4, 8]),
    ("pco-f64", [0, 5, 4, 8]),
    ("zstd-19", [0, 0, 2, 19]),
    ("lz4hc-9", [0, 0, 5, 9]),
    ("snappy", [0, 0, 6, 0]),
    ("deflate-6", [0, 0, 7, 6]),
    ("brotli-5", [0, 0, 8, 5]),
    ("bzip2-9", [0, 0, 9, 9]),
    ("lzma-6", [0, 0, 10, 6]),
    ("lzo", [0, 0, 11, 0]),
    ("ppmd-6", [0, 0, 12, 6]),
    ("ppmdfit-6", [0, 0, 14, 6]),
    ("delta1+huffman", [2, 0, 3, 0]),
    ("delta2+zstd-1", [2, 1, 2, 1]),
    ("delta32+zstd-1", [2, 6, 2, 1]),
    ("pco-i16", [0, 1, 4, 8]),
    ("pco-u16-4", [0, 7, 4, 4]),
    ("pco-u32-4", [0, 8, 4, 4]),
    ("pco-u64-4", [0, 9, 4, 4]),
    ("pco-f32-4", [0, 4, 4, 4]),
    ("pco-f64-4", [0, 5, 4, 4]),
    ("shuffle4+huffman", [1, 4, 3, 0]),
    ("shuffle8+huffman", [1, 5, 3, 0]),
    ("shuffle2+huffman", [1, 1, 3, 0]),
    ("shuffle32+huffman", [1, 6, 3, 0]),
    ("shuffle2+zstd-3", [1, 1, 2, 3]),
    ("shuffle32+zstd-3", [1, 6, 2, 3]),
    ("delta2+lz4", [2, 1, 1, 0]),
    ("delta32+lz4", [2, 6, 1, 0]),
    ("delta2+huffman", [2, 1, 3, 0]),
    ("delta4+huffman", [2, 4, 3, 0]),
    ("delta8+huffman", [2, 5, 3, 0]),
    ("delta32+huffman", [2, 6, 3, 0]),
    ("delta2+zstd-3", [2, 1, 2, 3]),
    ("delta4+zstd-3", [2, 4, 2, 3]),
    ("delta8+zstd-3", [2, 5, 2, 3]),
    ("delta32+zstd-3", [2, 6, 2, 3]),
    ("pco-i16-4", [0, 1, 4, 4]),
    ("quicklz-1", [0, 0, 13, 1]),
    ("quicklz-3", [0, 0, 13, 3]),
    ("bitshuffle2+lz4", [3, 1, 1, 0]),
    ("bitshuffle4+lz4", [3, 4, 1, 0]),
    ("bitshuffle4+zstd-1", [3, 4, 2, 1]),
    ("bitshuffle8+zstd-1", [3, 5, 2, 1]),
    ("bitshuffle32+lz4", [3, 6, 1, 0]),
    ("fields", [0, 0, 15, 0]),
    ("fields-i16", [0, 1, 15, 0]),
    ("fields-f32", [0, 4, 15, 0]),
    ("fields-f32-4", [0, 4, 15, 4]),
    ("fields-f64-4", [0, 5, 15, 4]),
    ("fields-f32-8", [0, 4, 15, 8]),
    ("fields-f64-8", [0, 5, 15, 8]),
    ("fields-r32", [0, 6, 15, 0]),
    ("fields-r32-4", [0, 6, 15, 4]),
    ("fields-r32-8", [0, 6, 15, 8]),
];

#[test]
fn bytes_never_change() {
    for &(name, bytes) in GOLDEN_IDS {
        let encoding: Encoding = name.parse().expect("a name");
        assert_eq!(encoding.to_bytes(), bytes, "{name}");
        assert_eq!(encoding.to_string(), name);
        assert_eq!(Encoding::from_bytes(bytes).expect("bytes"), encoding, "{name}");
    }
}

#[test]
fn every_row_of_the_tables_has_one_golden_id() {
    for encoding in ALL_ENCODINGS.iter().chain(RARE_ENCODINGS) {
        let name = encoding.to_string();
        assert_eq!(GOLDEN_IDS.iter().filter(|row| row.0 == name).count(), 1, "{name}");
        assert_eq!(ALL_ENCODINGS.iter().chain(RARE_ENCODINGS).filter(|other| *other == encoding).count(), 1, "{name}");
    }
}

#[test]
fn unknown_numbers_are_errors() {
    for bytes in [[4, 0, 0, 0], [0, 10, 0, 0], [0, 0, 255, 0], [255; 4]] {
        assert!(Encoding::from_bytes(bytes).is_err(), "{bytes:?}");
    }
}
