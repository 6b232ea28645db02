//! The checksum of HDF5's metadata: Bob Jenkins' lookup3 (public domain) over little-endian words.

/// Returns the checksum of bytes.
pub fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    let word = |chunk: &[u8], at: usize| {
        let byte = |i: usize| u32::from(chunk.get(at + i).copied().unwrap_or(0)) << (8 * i);
        byte(0) | byte(1) | byte(2) | byte(3)
    };
    let mut chunks = bytes.chunks(12).peekable();
    while let Some(chunk) = chunks.next() {
        a = a.wrapping_add(word(chunk, 0));
        b = b.wrapping_add(word(chunk, 4));
        c = c.wrapping_add(word(chunk, 8));
        if chunks.peek().is_some() {
            for (i, turn) in [4, 6, 8, 16, 19, 4].into_iter().enumerate() {
                let (x, y, z) = match i % 3 {
                    0 => (&mut a, &mut c, b),
                    1 => (&mut b, &mut a, c),
                    _ => (&mut c, &mut b, a),
                };
                *x = x.wrapping_sub(*y) ^ y.rotate_left(turn);
                *y = y.wrapping_add(z);
            }
        } else {
            for (i, turn) in [14, 11, 25, 16, 4, 14, 24].into_iter().enumerate() {
                let (x, y) = match i % 3 {
                    0 => (&mut c, b),
                    1 => (&mut a, c),
                    _ => (&mut b, a),
                };
                *x = (*x ^ y).wrapping_sub(y.rotate_left(turn));
            }
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_equals_the_authors_examples() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
