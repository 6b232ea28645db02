//! The head of an HDF5 file with contiguous datasets after it (HDF5 File Format Specification 3.0: superblock 2, object
//! headers 2, contiguous layout).

use std::collections::HashSet;

use super::super::{Described, Element};
use super::attribute::{self, ATTRIBUTE_MESSAGE, Message, scales_of_dimensions};
use super::datatype::datatype;
use super::heap::Heap;
use super::lookup3::lookup3;
use super::scales::{self, SCALE_ATTRIBUTES, Scale};
use crate::model::{Attribute, Misfit, Primitive};

const SUPERBLOCK_BYTES: usize = 48;
const UNDEFINED_ADDRESS: u64 = u64::MAX;
/// Data begins at a multiple of this, so that it can be memory-mapped.
const DATA_ALIGNMENT_BYTES: usize = 4096;

/// The content of a file.
pub struct Content {
    /// The attributes of the root.
    pub attributes: Vec<Attribute>,
    /// The groups. The root contains the variables of the one without a name.
    pub groups: Vec<Group>,
    /// Whether the dimensions of the root's variables have names, by dimension scales.
    pub has_scales: bool,
}

/// The arrays of one group of a file.
pub struct Group {
    /// The name; empty for the root.
    pub name: String,
    /// The arrays.
    pub variables: Vec<Described>,
}

/// Returns the bytes before the data: the superblock, the groups, a header for each variable and each dimension without one, and the
/// texts of attributes.
pub fn head(content: &Content, length: u64) -> Result<Vec<u8>, Misfit> {
    // The positions of headers depend on their lengths, not on the addresses in them.
    let mut at = SUPERBLOCK_BYTES;
    let mut places = Places::default();
    let mut heap = Heap::default();
    for object in objects(content, &places, &mut heap)? {
        places.objects.push(at as u64);
        at += object.len();
    }
    let heap_at = at.next_multiple_of(8);
    let heap = heap.finish();
    let data = if heap.is_empty() { at } else { heap_at + heap.len() }.next_multiple_of(DATA_ALIGNMENT_BYTES);
    places.data = data as u64;
    let mut out = superblock(data as u64 + length);
    let mut heap = Heap::at(heap_at as u64);
    out.extend(objects(content, &places, &mut heap)?.concat());
    out.resize(heap_at, 0);
    out.extend(heap.finish());
    out.resize(data, 0);
    Ok(out)
}

/// The addresses in a file; 0 while they are not known.
#[derive(Default)]
struct Places {
    /// Those of headers, in the order of the file.
    objects: Vec<u64>,
    data: u64,
}

impl Places {
    fn of(&self, number: usize) -> u64 {
        self.objects.get(number).copied().unwrap_or(0)
    }
}

/// Writes the headers of the root, the groups, the datasets, and the dimensions that are none of these.
fn objects(content: &Content, places: &Places, heap: &mut Heap) -> Result<Vec<Vec<u8>>, Misfit> {
    let groups = &content.groups;
    let of_root = groups.iter().find(|group| group.name.is_empty()).map_or(&[][..], |group| &group.variables);
    let scales = if content.has_scales { scales::scales(of_root) } else { Vec::new() };
    let mut number = 1 + groups.iter().filter(|group| !group.name.is_empty()).count();
    let last = number + groups.iter().map(|group| group.variables.len()).sum::<usize>();
    let first_of_root = number
        + groups.iter().take_while(|group| !group.name.is_empty()).map(|group| group.variables.len()).sum::<usize>();
    let alone: Vec<usize> =
        (0..scales.len()).filter(|at| scales.get(*at).is_some_and(|scale| scale.variable.is_none())).collect();
    let address_of_scale = |at: usize| match scales.get(at).and_then(|scale| scale.variable) {
        Some(variable) => places.of(first_of_root + variable),
        None => places.of(last + alone.iter().position(|other| *other == at).unwrap_or(0)),
    };
    let (mut root, mut own, mut datasets) = (Vec::new(), Vec::new(), Vec::new());
    for Group { name, variables } in groups {
        let mut links = Vec::new();
        for variable in variables {
            links.push((variable.name.as_str(), places.of(number)));
            let scales = if name.is_empty() { &scales[..] } else { &[] };
            let scale = scales.iter().position(|scale| scale.name == variable.name);
            let mut messages = match scale.and_then(|at| Some((at, scales.get(at)?))) {
                Some((at, scale)) => scales::attributes(scale, at, heap)?,
                None => Vec::new(),
            };
            if let Some(of_dimensions) = scales::of_variable(scales, variable) {
                let addresses: Vec<u64> = of_dimensions.into_iter().map(address_of_scale).collect();
                messages.push(scales_of_dimensions(&addresses, heap)?);
            }
            let is_new = |one: &&Attribute| messages.is_empty() || !SCALE_ATTRIBUTES.contains(&one.name.as_str());
            let attributes: Vec<Attribute> = variable.attributes.iter().filter(is_new).cloned().collect();
            messages.extend(attribute::attributes(&attributes, &variable.members, heap)?);
            datasets.push(dataset(variable, places.data, messages)?);
            number += 1;
        }
        if name.is_empty() {
            root.extend(links);
        } else {
            root.push((name, places.of(1 + own.len())));
            own.push(group(&links, Vec::new())?);
        }
    }
    for at in &alone {
        let Some(scale) = scales.get(*at) else { continue };
        root.push((scale.name.as_str(), address_of_scale(*at)));
        datasets.push(dimension(scale, scales::attributes(scale, *at, heap)?)?);
    }
    let mut all = vec![group(&root, attribute::attributes(&content.attributes, &[], heap)?)?];
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
fn header(messages: &[Message]) -> Result<Vec<u8>, Misfit> {
    let mut body = Vec::new();
    // Libraries then list attributes in this order, else by name. Headers without attributes are as they were before.
    let has_order = messages.iter().any(|(kind, _)| *kind == ATTRIBUTE_MESSAGE);
    // The next number in that order. No attribute is elsewhere.
    let none = UNDEFINED_ADDRESS.to_le_bytes();
    let information = [&[0, 1], &(messages.len() as u16).to_le_bytes()[..], &none, &none].concat();
    let information = has_order.then_some((0x15, information));
    for (number, (kind, bytes)) in messages.iter().chain(&information).enumerate() {
        let length = u16::try_from(bytes.len());
        let length =
            length.map_err(|_| Misfit::NoHdf5("a type, a name or a fill value is too long for that".to_owned()))?;
        body.push(*kind);
        body.extend(length.to_le_bytes());
        body.push(0);
        if has_order {
            body.extend((number as u16).to_le_bytes());
        }
        body.extend(bytes);
    }
    let mut out = b"OHDR\x02".to_vec();
    out.push(if has_order { 0x06 } else { 0x02 });
    out.extend((body.len() as u32).to_le_bytes());
    out.extend(body);
    out.extend(lookup3(&out).to_le_bytes());
    Ok(out)
}

/// Returns a group of objects, by their names and addresses.
fn group(links: &[(&str, u64)], attributes: Vec<Message>) -> Result<Vec<u8>, Misfit> {
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
    messages.extend(attributes);
    header(&messages)
}

fn dataset(variable: &Described, data: u64, attributes: Vec<Message>) -> Result<Vec<u8>, Misfit> {
    let address = if variable.size == 0 { UNDEFINED_ADDRESS } else { data + variable.offset };
    // Without a value, the fill value is zero.
    let mut fill = vec![3, 0x09];
    if let Some(bytes) = &variable.fill {
        fill = vec![3, 0x29];
        fill.extend((bytes.len() as u32).to_le_bytes());
        fill.extend(bytes);
    }
    array(&variable.lengths, &variable.element, fill, (address, variable.size), attributes)
}

/// Returns a dimension without values, as NetCDF writes it. Nothing is stored for it.
fn dimension(scale: &Scale, attributes: Vec<Message>) -> Result<Vec<u8>, Misfit> {
    let element = Element::Primitive(Primitive::Float32, true);
    let place = (UNDEFINED_ADDRESS, scale.length.saturating_mul(element.size()));
    array(&[scale.length], &element, vec![3, 0x0a], place, attributes)
}

/// Returns the header of an array in one piece: its address and size.
fn array(
    lengths: &[u64],
    element: &Element,
    fill: Vec<u8>,
    (address, size): (u64, u64),
    attributes: Vec<Message>,
) -> Result<Vec<u8>, Misfit> {
    let mut space = vec![2, lengths.len() as u8, 0, u8::from(!lengths.is_empty())];
    lengths.iter().for_each(|length| space.extend(length.to_le_bytes()));
    let mut kind = Vec::new();
    datatype(element, &mut kind)?;
    let mut layout = vec![3, 1];
    layout.extend(address.to_le_bytes());
    layout.extend(size.to_le_bytes());
    let mut messages = vec![(0x01, space), (0x03, kind), (0x05, fill), (0x08, layout)];
    messages.extend(attributes);
    header(&messages)
}
