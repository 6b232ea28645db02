//! Turns requests to one destination into runs that are ordered by offset and write each byte once.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

/// Consecutive bytes at one offset of a destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The offset of the first byte.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

impl Run {
    /// The offset behind the last byte.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// Applies the writes in this order and returns the resulting bytes as runs that neither touch nor overlap.
pub fn runs(writes: impl IntoIterator<Item = Run>) -> Vec<Run> {
    let mut laid: BTreeMap<u64, Bytes> = BTreeMap::new();
    for write in writes.into_iter().filter(|write| !write.bytes.is_empty()) {
        cover(&mut laid, &write);
        laid.insert(write.offset, write.bytes);
    }
    join(laid)
}

/// Removes the bytes that a write replaces.
fn cover(laid: &mut BTreeMap<u64, Bytes>, write: &Run) {
    let (start, end) = (write.offset, write.end());
    let overlaps = |(offset, bytes): &(u64, Bytes)| offset + bytes.len() as u64 > start;
    let before = laid.range(..start).next_back().map(|(offset, bytes)| (*offset, bytes.clone()));
    let within = laid.range(start..end).map(|(offset, bytes)| (*offset, bytes.clone()));
    let touched: Vec<(u64, Bytes)> = before.filter(overlaps).into_iter().chain(within).collect();
    for (offset, bytes) in touched {
        laid.remove(&offset);
        if offset < start {
            laid.insert(offset, bytes.slice(..(start - offset) as usize));
        }
        if offset + bytes.len() as u64 > end {
            laid.insert(end, bytes.slice((end - offset) as usize..));
        }
    }
}

fn join(laid: BTreeMap<u64, Bytes>) -> Vec<Run> {
    let mut joined: Vec<(u64, u64, Vec<Bytes>)> = Vec::new();
    for (offset, bytes) in laid {
        let after = offset + bytes.len() as u64;
        match joined.last_mut() {
            Some((_, end, parts)) if *end == offset => {
                *end = after;
                parts.push(bytes);
            }
            _ => joined.push((offset, after, vec![bytes])),
        }
    }
    let whole = |(offset, end, mut parts): (u64, u64, Vec<Bytes>)| {
        let bytes = match parts.len() {
            1 => parts.remove(0),
            _ => {
                let mut bytes = BytesMut::with_capacity((end - offset) as usize);
                parts.iter().for_each(|part| bytes.extend_from_slice(part));
                bytes.freeze()
            }
        };
        Run { offset, bytes }
    };
    joined.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_leave_the_bytes_of_single_writes(writes in prop::collection::vec((0u64..200, 0usize..40, any::<u8>()), 0..40)) {
            let write = |(offset, length, byte): &(u64, usize, u8)| Run { offset: *offset, bytes: vec![*byte; *length].into() };
            let (mut plain, mut by_runs) = ([None; 256], [None; 256]);
            for one in writes.iter().map(write) {
                plain[one.offset as usize..one.end() as usize].fill(one.bytes.first().copied());
            }
            let all = runs(writes.iter().map(write));
            for run in &all {
                for (at, byte) in (run.offset as usize..).zip(&run.bytes) {
                    prop_assert!(by_runs[at].replace(*byte).is_none());
                }
            }
            prop_assert!(all.windows(2).all(|pair| pair[0].end() < pair[1].offset));
            prop_assert_eq!(plain, by_runs);
        }
    }
}
