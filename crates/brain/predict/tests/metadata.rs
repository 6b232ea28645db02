//! Metadata may contain anything: there is never a panic, and the spans are bounded and in order.
//!
//! `CASES=100000 cargo test -p terrace-predict --test metadata` tries more. Files are those of `TERRACE_DATA`, if it is set.

use std::sync::LazyLock;

use proptest::prelude::*;
use terrace_predict::analyze::{Format, Metadata};
use terrace_testkit::real_files;

const TESTED_FORMATS: [Format; 7] =
    [Format::Hdf5, Format::NetCdf, Format::Parquet, Format::Npy, Format::Fits, Format::Avro, Format::Orc];

/// Signatures and words of formats, for synthetic files.
const FORMAT_WORDS: [&[u8]; 14] = [
    b"OHDR\x02\x00\x60",
    b"SNOD\x01\x00\xff\xff",
    b"TREE\x01\x00\xff\xff",
    b"\x89HDF\r\n\x1a\n\x02\x08\x08",
    b"CDF\x01\0\0\0\x03\0\0\0\x0a",
    b"\0\0\0\x0b\0\0\0\x02",
    b"PAR1",
    b"\x15\x04\x19\x2c",
    b"\x93NUMPY\x01\0\xff\xff",
    b"{'descr': '<f8'",
    b"SIMPLE  =                    T",
    b"avro.codec\x0c",
    b"ORC\x19",
    b"\x08\x20\0\x11\x20\x1f\0",
];

fn cases() -> u32 {
    std::env::var("CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1000)
}

static GIVEN_FILES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut files = Vec::new();
    let Some(root) = real_files("damaged files") else { return files };
    for folder in ["h5", "nc", "tab", "fits", "npy"] {
        let paths = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        files.extend(paths.filter_map(|entry| std::fs::read(entry.path()).ok()));
    }
    files
});

fn parse_in_windows(format: Format, bytes: &[u8], window: usize) {
    let (mut metadata, mut base) = (Metadata::new(format), 0);
    for block in bytes.chunks(window) {
        let spans = metadata.parse(base, block);
        assert!(spans.len() <= 4096);
        assert!(spans.is_sorted_by_key(|span| span.start) && spans.iter().all(|span| span.start < span.end));
        base += block.len() as u64;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn made_up_files(
        format in 0..TESTED_FORMATS.len(),
        pieces in prop::collection::vec((0..FORMAT_WORDS.len(), prop::collection::vec(any::<u8>(), 0..40)), 0..30),
        window in 1usize..4000,
    ) {
        let bytes: Vec<u8> = pieces.iter().flat_map(|(word, rest)| [FORMAT_WORDS[*word], rest].concat()).collect();
        parse_in_windows(TESTED_FORMATS[format], &bytes, window);
    }

    #[test]
    fn damaged_files(
        which in any::<prop::sample::Index>(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in any::<prop::sample::Index>(),
        whole: bool,
    ) {
        if GIVEN_FILES.is_empty() {
            return Ok(());
        }
        let mut bytes = GIVEN_FILES[which.index(GIVEN_FILES.len())].clone();
        let format = Format::of(&bytes[..4096]);
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        // Headers are at both ends.
        let near = bytes.len().min(8192);
        for (at, byte) in flips {
            let at = at.index(2 * near + 1);
            let at = if at < near { at } else { bytes.len() - (at - near) };
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
        }
        parse_in_windows(format, &bytes, 1 << 20);
    }
}
