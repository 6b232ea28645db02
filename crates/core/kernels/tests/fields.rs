//! Fields of records, compared with splitting byte by byte.

use proptest::prelude::*;
use terrace_kernels::{Level, join_fields, join_fields_at, split_fields, split_fields_at};

const ALL_LEVELS: [Level; 3] = [Level::Scalar, Level::Avx2, Level::Avx512];

/// Splits records byte by byte.
fn slowly(widths: &[usize], records: &[u8]) -> Vec<u8> {
    let size: usize = widths.iter().sum();
    let mut fields = Vec::new();
    let mut offset = 0;
    for width in widths {
        for record in records.chunks(size) {
            fields.extend_from_slice(&record[offset..offset + width]);
        }
        offset += width;
    }
    fields
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 10 } else { 1000 }, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn fields_are_those_of_each_record(
        widths in prop::collection::vec(prop::sample::select(vec![1usize, 1, 2, 3, 4, 4, 8, 16, 21]), 1..40),
        equal: bool, count in 0usize..300, seed: u64,
    ) {
        let widths = if equal { vec![widths[0]; widths.len()] } else { widths };
        let length = count * widths.iter().sum::<usize>();
        let mut state = seed | 1;
        let records: Vec<u8> = (0..length).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        }).collect();
        let expected = slowly(&widths, &records);
        for level in ALL_LEVELS {
            let (mut fields, mut back) = (vec![1; length], vec![2; length]);
            prop_assert!(split_fields_at(level, &widths, &records, &mut fields));
            prop_assert_eq!(&fields, &expected, "{:?}", level);
            prop_assert!(join_fields_at(level, &widths, &fields, &mut back));
            prop_assert_eq!(&back, &records, "{:?}", level);
        }
    }
}

#[test]
fn buffers_of_other_lengths_are_left_alone() {
    let mut out = [7; 12];
    for (widths, length) in [(&[4usize, 4][..], 12), (&[4, 4], 8), (&[], 12), (&[0], 12)] {
        assert!(!split_fields(widths, &[1; 16][..length], &mut out), "{widths:?}");
        assert!(!join_fields(widths, &[1; 16][..length], &mut out), "{widths:?}");
    }
    assert_eq!(out, [7; 12]);
}
