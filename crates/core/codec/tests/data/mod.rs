//! Synthetic data of the kinds on which codecs differ.

/// Makes bytes of one kind; equal seeds give equal bytes.
pub fn bytes(kind: u8, length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let mut out = Vec::with_capacity(length + 32);
    while out.len() < length {
        let i = out.len() as f64;
        match kind % 8 {
            0 => out.push(random() as u8),
            1 => out.push(42),
            2 => out.extend(((i / 400.0).sin() as f32 + (random() % 1000) as f32 * 1e-6).to_le_bytes()),
            3 => out.extend((i / 8.0).sqrt().to_le_bytes()),
            4 => out.extend(((i as i32) - 1000 + (random() % 9) as i32).to_le_bytes()),
            5 => out.extend((1_700_000_000_000i64 + i as i64 * 125 + i64::from(random() % 50)).to_le_bytes()),
            6 => {
                out.extend_from_slice([&b"tier "[..], b"the store ", b"extent, ", b"replica. "][random() as usize % 4])
            }
            _ => out.extend((0..8).flat_map(|n| (n as f32 + (random() % 100) as f32 * 0.01).to_le_bytes())),
        }
    }
    out.truncate(length);
    out
}
