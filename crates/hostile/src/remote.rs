//! Pages of frame headers, as another node sends them. What stands behind their checksums is tested with frames.

use terrace::frame::{Identity, Scratch, encode};
use terrace::tier::Place;

const STORE_ID: u64 = 7;

pub fn samples() -> Vec<Vec<u8>> {
    let numbers: Vec<u8> = (0..80_000u32).flat_map(|n| (n / 3).to_le_bytes()).collect();
    let page = |lengths: &[usize]| {
        let mut page = Vec::new();
        for (write, length) in (1..).zip(lengths) {
            let identity = Identity { object: 3, write, offset: 0, replica: 0 };
            let mut scratch = Scratch::default();
            let frame = encode(identity, terrace::Encoding::NONE, numbers.get(..*length)?, &mut scratch).ok()?;
            let place = Place { segment: write, offset: write << 20, length: frame.header.frame_len() as u32 };
            terrace_remote::write_header(&mut page, STORE_ID, place, &frame.header);
        }
        Some(page)
    };
    [&[5000][..], &[1, 70_000, 300_000], &[]].into_iter().filter_map(page).collect()
}

pub fn parse(input: &[u8]) -> bool {
    terrace_remote::read_headers(input, STORE_ID).is_ok()
}
