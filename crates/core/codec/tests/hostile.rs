//! Damaged and synthetic payloads cause an error or bytes of the declared length, but never a panic or unbounded memory
//! use.
//!
//! `CASES=100000 cargo test -p terrace-codec --test hostile` tries more payloads.

mod data;

use proptest::prelude::*;
use terrace_codec::{ALL_ENCODINGS, Encoding, RARE_ENCODINGS, Scratch, decode, encode};

fn cases() -> u32 {
    std::env::var("CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(1500)
}

/// The peak memory of this process must be far below the lengths that damaged payloads declare.
fn assert_memory_bounded() {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    let kib: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(kib < 256 << 10, "{kib} KiB");
}

fn nth(which: usize) -> Encoding {
    *ALL_ENCODINGS.iter().chain(RARE_ENCODINGS).nth(which).expect("a row")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_payloads(
        kind in 0u8..8,
        length in 1usize..9000,
        which in 0..ALL_ENCODINGS.len() + RARE_ENCODINGS.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 1u8..), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        declared in prop::option::of(0usize..20_000),
    ) {
        let (encoding, raw, mut scratch) = (nth(which), data::bytes(kind, length, 1), Scratch::default());
        let mut stored = Vec::new();
        if encode(encoding, &raw, &mut stored, &mut scratch).expect("encodes").is_none() {
            stored.clone_from(&raw);
        }
        for (at, bits) in flips {
            let at = at.index(stored.len());
            stored[at] ^= bits;
        }
        if let Some(cut) = cut {
            stored.truncate(cut.index(stored.len()));
        }
        let mut back = vec![0; declared.unwrap_or(length)];
        let _ = decode(encoding, &stored, &mut back, &mut scratch);
        // The scratch still works.
        if encode(encoding, &raw, &mut stored, &mut scratch).expect("encodes").is_some() {
            back.resize(length, 0);
            decode(encoding, &stored, &mut back, &mut scratch).expect("decodes");
            prop_assert_eq!(back, raw);
        }
        assert_memory_bounded();
    }

    #[test]
    fn made_up_payloads(
        stored in prop::collection::vec(any::<u8>(), 0..300), which in 0..ALL_ENCODINGS.len() + RARE_ENCODINGS.len(), declared in 0usize..5000,
    ) {
        let _ = decode(nth(which), &stored, &mut vec![0; declared], &mut Scratch::default());
        assert_memory_bounded();
    }
}
