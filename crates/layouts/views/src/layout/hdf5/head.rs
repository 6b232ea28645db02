//! The head of an HDF5 file with contiguous datasets after it (HDF5 File Format Specification 3.0: superblock 2, object
//! headers 2, contiguous layout).

use std::collections::HashSet;

use super::super::Described;
use super::datatype::datatype;
use super::lookup3::lookup3;
use crate::model::Misfit;

const SUPERBLOCK_BYTES: usize = 48;
const UNDEFINED_ADDRESS: u64 = u64::MAX;
/// Data begins at a multiple of this, so that it can be memory-mapped.
const DATA_ALIGNMENT_BYTES: usize = 4096;

/// The arrays of one group of a file.
pub struct Group {
    /// The name; empty for the root.
    pub name: String,
    /// The arrays.
    pub variables: Vec<Described>,
}

/// Returns the bytes before the data: the superblock, the groups, and a header for each variable. The root contains the
/// variables of the group without a name.
pub fn head(groups: &[Group], length: u64) -> Result<Vec<u8>, Misfit> {
    // The positions of headers depend on their lengths, not on the addresses in them.
    let mut at = SUPERBLOCK_BYTES;
    let mut addresses = Vec::new();
    for object in objects(groups, &[], 0)? {
        addresses.push(at as u64);
        at += object.len();
    }
    let data = at.next_multiple_of(DATA_ALIGNMENT_BYTES);
    let mut out = superblock(data as u64 + length);
    out.extend(objects(groups, &addresses, data as u64)?.concat());
    out.resize(data, 0);
    Ok(out)
}

/// Writes the headers of the root, the groups and the datasets. `addresses` has their positions in the same order.
fn objects(groups: &[Group], addresses: &[u64], data: u64) -> Result<Vec<Vec<u8>>, Misfit> {
    let address = |number: usize| addresses.get(number).copied().unwrap_or(0);
    let mut number = 1 + groups.iter().filter(|group| !group.name.is_empty()).count();
    let (mut root, mut own, mut datasets) = (Vec::new(), Vec::new(), Vec::new());
    for Group { name, variables } in groups {
        let mut links = Vec::new();
        for variable in variables {
            links.push((variable.name.as_str(), address(number)));
            datasets.push(dataset(variable, data)?);
            number += 1;
        }
        if name.is_empty() {
            root.extend(links);
        } else {
            root.push((name, address(1 + own.len())));
            own.push(group(&links)?);
        }
    }
    let mut all = vec![group(&root)?];
    all.extend(own);
    all.extend(datasets);
    Ok(all)
}

fn superblock(end: u64) -> Vec<u8> {
    let mut out = b"\x89HDF\r\n\x1a\n".to_vec();
    out.extend([2, 8, 8, 0]);
    for address in [0, UNDEFINED_ADDRESS, end, SUPERBLOCK_BYTES as u64] {
        out.extend(address.to_le_bytes());
    }
    out.extend(lookup3(&out).to_le_bytes());
    out
}

/// Returns an object header with messages, each a type and bytes.
fn header(messages: &[(u8, Vec<u8>)]) -> Result<Vec<u8>, Misfit> {
    let mut body = Vec::new();
    for (kind, bytes) in messages {
        let length = u16::try_from(bytes.len());
        let length = length.map_err(|_| Misfit::NoHdf5("a type or a name is too long for that".to_owned()))?;
        body.push(*kind);
        body.extend(length.to_le_bytes());
        body.push(0);
        body.extend(bytes);
    }
    let mut out = b"OHDR\x02\x02".to_vec();
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    out.extend(lookup3(&out).to_le_bytes());
    Ok(out)
}

/// Returns a group of objects, by their names and addresses.
fn group(links: &[(&str, u64)]) -> Result<Vec<u8>, Misfit> {
    let none = UNDEFINED_ADDRESS.to_le_bytes();
    let mut messages = vec![(0x02, [&[0, 0], &none[..], &none[..]].concat()), (0x0a, vec![0, 0])];
    let mut names = HashSet::new();
    for (name, address) in links {
        if !names.insert(*name) {
            return Err(Misfit::NoHdf5(format!("two of its parts have the name `{name}`")));
        }
        // A hard link with a two-byte length of the name.
        let mut link = vec![1, 1];
        link.extend((name.len() as u16).to_le_bytes());
        link.extend(name.as_bytes());
        link.extend(address.to_le_bytes());
        messages.push((0x06, link));
    }
    header(&messages)
}

fn dataset(variable: &Described, data: u64) -> Result<Vec<u8>, Misfit> {
    let mut space = vec![2, variable.lengths.len() as u8, 0, u8::from(!variable.lengths.is_empty())];
    variable.lengths.iter().for_each(|length| space.extend(length.to_le_bytes()));
    let mut kind = Vec::new();
    datatype(&variable.element, &mut kind)?;
    let address = if variable.size == 0 { UNDEFINED_ADDRESS } else { data + variable.offset };
    let mut layout = vec![3, 1];
    layout.extend(address.to_le_bytes());
    layout.extend(variable.size.to_le_bytes());
    // The fill value is zero.
    header(&[(0x01, space), (0x03, kind), (0x05, vec![3, 0x09]), (0x08, layout)])
}
