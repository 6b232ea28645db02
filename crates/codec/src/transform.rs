//! Shuffle: bytes of equal rank side by side, so that what changes slowly compresses well.

/// Puts the bytes of all whole elements of `width` bytes in planes by rank; a rest stays at the end.
pub fn shuffle(raw: &[u8], width: usize, out: &mut Vec<u8>) {
    out.resize(raw.len(), 0);
    match width {
        2 => planes::<2>(raw, out),
        4 => planes::<4>(raw, out),
        8 => planes::<8>(raw, out),
        32 => planes::<32>(raw, out),
        _ => out.copy_from_slice(raw),
    }
}

/// Undoes [`shuffle`].
pub fn unshuffle(shuffled: &[u8], width: usize, raw: &mut [u8]) {
    match width {
        2 => elements::<2>(shuffled, raw),
        4 => elements::<4>(shuffled, raw),
        8 => elements::<8>(shuffled, raw),
        32 => elements::<32>(shuffled, raw),
        _ => raw.copy_from_slice(shuffled),
    }
}

fn planes<const W: usize>(raw: &[u8], out: &mut [u8]) {
    let count = raw.len() / W;
    let (whole, rest) = raw.split_at(count * W);
    let (planes, end) = out.split_at_mut(count * W);
    end.copy_from_slice(rest);
    if count == 0 {
        return;
    }
    for (rank, plane) in planes.chunks_exact_mut(count).enumerate() {
        for (byte, element) in plane.iter_mut().zip(whole.chunks_exact(W)) {
            *byte = element[rank];
        }
    }
}

fn elements<const W: usize>(shuffled: &[u8], raw: &mut [u8]) {
    let count = raw.len() / W;
    let (planes, rest) = shuffled.split_at(count * W);
    let (whole, end) = raw.split_at_mut(count * W);
    end.copy_from_slice(rest);
    if count == 0 {
        return;
    }
    for (rank, plane) in planes.chunks_exact(count).enumerate() {
        for (byte, element) in plane.iter().zip(whole.chunks_exact_mut(W)) {
            element[rank] = *byte;
        }
    }
}
