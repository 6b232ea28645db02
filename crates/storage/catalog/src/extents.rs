//! An object's interval map of extents. They never overlap: a newer extent trims the older ones that it covers.

use std::ops::{Bound, Range};

use heed::{RoTxn, RwTxn};
use smallvec::SmallVec;
use terrace_format::frame::MAX_EXTENT_BYTES;
use terrace_format::{Extent, Object};

use super::{Records, decode, encode, keys};
use crate::Result;

/// The most bytes of a record of packed extents: less than half an LMDB page, so that no record needs overflow pages.
const MAX_PACKED_BYTES: usize = 1900;
/// Extents kept in the object's own record.
const INLINE_RECORDS: usize = 2;
/// The most bytes that a source adds to an extent in a record.
const MAX_SOURCE_BYTES: usize = 25;
/// Two new extents with at most this many bytes between them are in one group: the map between them is read and written, too.
const MAX_GAP_BYTES: u64 = 64 << 10;

/// A group of new extents that are near each other.
pub struct Near<'a> {
    /// The range from the first to the last.
    pub range: Range<u64>,
    /// Each extent with its index among all new extents, in the order of these.
    pub extents: Vec<(usize, &'a Extent)>,
}

/// Groups new extents that are near each other. Extents that are far apart, such as those of one write to several arrays in one
/// object, need not touch the map between them.
pub fn near<'a>(new: impl Iterator<Item = &'a Extent>) -> Vec<Near<'a>> {
    let mut sorted: Vec<(usize, &Extent)> = new.enumerate().collect();
    sorted.sort_by_key(|(_, extent)| extent.offset);
    let mut groups: Vec<Near<'a>> = Vec::new();
    for (place, extent) in sorted {
        match groups.last_mut().filter(|group| extent.offset <= group.range.end.saturating_add(MAX_GAP_BYTES)) {
            Some(group) => {
                group.range.end = group.range.end.max(extent.end());
                group.extents.push((place, extent));
            }
            None => groups.push(Near { range: extent.offset..extent.end(), extents: vec![(place, extent)] }),
        }
    }
    groups.iter_mut().for_each(|group| group.extents.sort_unstable_by_key(|(place, _)| *place));
    groups
}

/// Puts `new` into a sorted map, and trims the extents that it covers.
pub fn lay(all: &mut Vec<Extent>, new: Extent) {
    clear(all, new.offset, new.end());
    let at = all.partition_point(|e| e.offset < new.offset);
    all.insert(at, new);
}

/// Removes `start..end` from a sorted map. The parts of extents outside of this range stay.
pub fn clear(all: &mut Vec<Extent>, start: u64, end: u64) {
    let first = all.partition_point(|e| e.end() <= start);
    let last = all.partition_point(|e| e.offset < end);
    if first >= last {
        return;
    }
    let mut left: SmallVec<[Extent; 2]> = SmallVec::new();
    for extent in &all[first..last] {
        if extent.offset < start {
            left.push(Extent { length: (start - extent.offset) as u32, ..extent.clone() });
        }
        if extent.end() > end {
            let cut = (end - extent.offset) as u32;
            left.push(Extent { offset: end, skip: extent.skip + cut, length: extent.length - cut, ..extent.clone() });
        }
    }
    all.splice(first..last, left);
}

/// Loads the extents of `object` in `start..end` and some around them, with all parts of the frames that they belong to.
pub fn load(records: Records, txn: &RoTxn<'_>, object: &Object, start: u64, end: u64) -> Result<Vec<Extent>> {
    if let Some(extents) = &object.extents_in_record {
        return Ok(extents.to_vec());
    }
    let (all, loaded) = load_records(records, txn, object.id, start, end)?;
    let within = all.iter().filter(|extent| extent.end() > start && extent.offset < end);
    let (mut first, mut last) = (start, end);
    for extent in within {
        first = first.min(extent.frame_offset());
        last = last.max(extent.frame_offset() + u64::from(extent.raw_len));
    }
    if loaded.start <= first && last <= loaded.end {
        return Ok(all);
    }
    Ok(load_records(records, txn, object.id, first, last)?.0)
}

/// Like [`load`], for all parts of the frame of `write` that begins at `start`. Newer extents may cover any part of it.
pub fn load_frame(records: Records, txn: &RoTxn<'_>, object: &Object, start: u64, write: u64) -> Result<Vec<Extent>> {
    let all = load(records, txn, object, start, start + 1)?;
    if all.iter().any(|extent| extent.frame() == (write, start)) {
        return Ok(all);
    }
    load(records, txn, object, start, start.saturating_add(u64::from(MAX_EXTENT_BYTES)))
}

/// Loads the records that may have an extent in `start..end`. Returns their extents, and the range in which there are no others.
fn load_records(
    records: Records,
    txn: &RoTxn<'_>,
    object: u64,
    start: u64,
    end: u64,
) -> Result<(Vec<Extent>, Range<u64>)> {
    let from = first_record(records, txn, object, start)?;
    let mut all: Vec<Extent> = Vec::new();
    let mut until = u64::MAX;
    let bounds = (Bound::Included(from.as_slice()), Bound::Unbounded);
    for entry in records.range(txn, &bounds)? {
        let (key, value) = entry?;
        if !key.starts_with(&keys::extents(object, 0)[..9]) {
            break;
        }
        if let Some(at) = keys::number(key, 9).filter(|at| *at >= end) {
            until = at;
            break;
        }
        all.extend(decode::<Vec<Extent>>(value, "a record of extents")?);
    }
    // If no record begins at or before `start`, there is nothing before it.
    let first = all.first().map_or(0, |extent| if extent.offset <= start { extent.offset } else { 0 });
    Ok((all, first..until))
}

/// The key of the record in which the extent at `offset` is, if there is one.
pub fn first_record(records: Records, txn: &RoTxn<'_>, object: u64, offset: u64) -> Result<keys::Key> {
    let key = keys::extents(object, offset);
    let before = records.get_lower_than_or_equal_to(txn, &key)?;
    Ok(match before {
        Some((found, _)) if found.starts_with(&key[..9]) => found.into(),
        _ => key,
    })
}

/// Replaces the extents `before`, as [`load`] returned them, by `after`.
pub fn store(
    records: Records,
    txn: &mut RwTxn<'_>,
    object: &mut Object,
    before: &[Extent],
    after: &[Extent],
) -> Result<()> {
    if let Some(extents) = &mut object.extents_in_record {
        if after.len() <= INLINE_RECORDS {
            *extents = after.iter().cloned().collect();
            return Ok(());
        }
        object.extents_in_record = None;
    }
    // Records that do not change are not written again.
    let mut old: Vec<u64> = Vec::new();
    if let (Some(first), Some(last)) = (before.first(), before.last()) {
        let (from, to) = (keys::extents(object.id, first.offset), keys::extents(object.id, last.offset));
        let bounds = (Bound::Included(from.as_slice()), Bound::Included(to.as_slice()));
        for entry in records.range(txn, &bounds)? {
            old.extend(keys::number(entry?.0, 9));
        }
    }
    let total: usize = after.iter().map(packed_len).sum();
    // A map that grows at its end is packed into full records. Otherwise all records get the same size, which leaves room in
    // each for later extents.
    let share = if before.last() == after.last() {
        total.div_ceil(total.div_ceil(MAX_PACKED_BYTES).max(1))
    } else {
        MAX_PACKED_BYTES
    };
    let mut new: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut rest = after;
    while let Some(first) = rest.first() {
        let (mut bytes, mut count) = (4, 0);
        for length in rest.iter().map(packed_len) {
            if count > 0 && (bytes + length > MAX_PACKED_BYTES || bytes >= share) {
                break;
            }
            bytes += length;
            count += 1;
        }
        let (head, tail) = rest.split_at(count);
        new.push((first.offset, encode(&head)?));
        rest = tail;
    }
    for offset in old {
        if !new.iter().any(|(kept, _)| *kept == offset) {
            records.delete(txn, &keys::extents(object.id, offset))?;
        }
    }
    for (offset, value) in &new {
        let key = keys::extents(object.id, *offset);
        if records.get(txn, &key)? != Some(value.as_slice()) {
            records.put(txn, &key, value)?;
        }
    }
    Ok(())
}

/// An upper estimate of an extent's bytes in a record.
fn packed_len(extent: &Extent) -> usize {
    let source = if extent.source.is_some() { MAX_SOURCE_BYTES } else { 0 };
    30 + source + extent.replicas.len() * 30
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_of_near_extents_hold_each_once(places in prop::collection::vec((0u64..20, 0u64..100, 1u32..60), 0..40)) {
            let extent = |(write, (far, offset, length)): (usize, &(u64, u64, u32))| Extent {
                offset: far * MAX_GAP_BYTES + offset,
                length: *length,
                skip: 0,
                raw_len: *length,
                write: write as u64,
                replicas: SmallVec::new(),
                source: None,
            };
            let all: Vec<Extent> = places.iter().enumerate().map(extent).collect();
            let groups = near(all.iter());
            let mut seen: Vec<u64> =
                groups.iter().flat_map(|group| group.extents.iter().map(|(_, one)| one.write)).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..all.len() as u64).collect::<Vec<_>>());
            prop_assert!(groups.windows(2).all(|pair| pair[0].range.end + MAX_GAP_BYTES < pair[1].range.start));
            for Near { range, extents } in &groups {
                prop_assert!(extents.windows(2).all(|pair| pair[0].1.write < pair[1].1.write));
                prop_assert!(extents.iter().all(|(_, one)| range.start <= one.offset && one.end() <= range.end));
            }
        }

        /// Against the slow oracle: one write id per byte.
        #[test]
        fn the_newest_write_owns_each_byte(writes in prop::collection::vec((0u64..200, 1u32..60, any::<bool>()), 1..40)) {
            let mut map = Vec::new();
            let mut bytes = vec![None; 300];
            for (write, (offset, length, cut)) in writes.into_iter().enumerate() {
                let end = offset + u64::from(length);
                let owner = if cut {
                    clear(&mut map, offset, end);
                    None
                } else {
                    let (replicas, raw_len, write) = (SmallVec::new(), length, write as u64);
                    lay(&mut map, Extent { offset, length, skip: 0, raw_len, write, replicas, source: None });
                    Some((write, offset))
                };
                bytes[offset as usize..end as usize].fill(owner);
            }
            let mut seen = vec![None; 300];
            let mut last = 0;
            for extent in &map {
                prop_assert!(extent.offset >= last && extent.length > 0);
                last = extent.end();
                prop_assert!(extent.skip + extent.length <= extent.raw_len);
                seen[extent.offset as usize..last as usize].fill(Some((extent.write, extent.frame_offset())));
            }
            prop_assert_eq!(seen, bytes);
        }
    }
}
