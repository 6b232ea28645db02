//! Descriptions of layouts for other formats: arrays of elements at offsets, with the lengths and types of NumPy and
//! HDF5.

use super::{Layout, Placed};
use crate::model::{Arrangement, Node, Primitive, View};

/// A variable of a view as a contiguous array, with the last index fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// The offset in the view.
    pub offset: u64,
    /// The size in bytes.
    pub size: u64,
    /// The lengths; empty for a single element.
    pub lengths: Vec<u64>,
    /// The names of the dimensions, which are those of the indices; empty for those without.
    pub dimensions: Vec<String>,
    /// The type of the elements.
    pub element: Element,
}

/// The type of an element.
#[derive(Clone, Debug, PartialEq)]
pub enum Element {
    /// A primitive, and whether it is big-endian.
    Primitive(Primitive, bool),
    /// Members with their names and offsets, and the size of the struct.
    Struct(Vec<(String, u64, Element)>, u64),
    /// An array of elements with these lengths.
    Array(Vec<u64>, Box<Element>),
}

impl Element {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Element::Primitive(primitive, _) => primitive.size(),
            Element::Struct(_, size) => *size,
            Element::Array(lengths, element) => lengths.iter().product::<u64>().saturating_mul(element.size()),
        }
    }
}

impl Layout {
    /// Describes a view's variables, from this layout's variable `first` on. Returns `None` if other formats cannot
    /// express the layout: in tiles, in blocks, or along a curve.
    pub fn describe(&self, view: &View, first: usize) -> Option<Vec<Described>> {
        if view.style.arrangement != Arrangement::Plain {
            return None;
        }
        let variables = view.variables.iter().zip(self.variables.get(first..)?).enumerate();
        let one = |(number, (variable, extent)): (usize, (&crate::model::ViewVariable, &super::Extent))| {
            let own: Vec<&Placed> = self.leaves.iter().filter(|placed| placed.variable == first + number).collect();
            let (lengths, element) = match element(&variable.node, &mut &own[..], extent.offset, 0, Some(extent.size))?
            {
                Element::Array(lengths, element) => (lengths, *element),
                single => (Vec::new(), single),
            };
            let (name, offset, size) = (variable.name.clone(), extent.offset, extent.size);
            let dimensions = own.first()?.index_names(variable).take(lengths.len()).collect();
            Some(Described { name, offset, size, lengths, dimensions, element })
        };
        variables.map(one).collect()
    }
}

/// Describes a node as an element. `leaves` are the remaining leaves, `depth` is the number of loops around the node,
/// `size` is its size if the surrounding structure determines it.
fn element(node: &Node, leaves: &mut &[&Placed], base: u64, depth: usize, size: Option<u64>) -> Option<Element> {
    match node {
        Node::Leaf(_) => {
            let (first, rest) = leaves.split_first()?;
            *leaves = rest;
            Some(padded(first.primitive, first.big, size.unwrap_or(0)))
        }
        Node::Struct(members) => {
            let mut all = Vec::new();
            for (name, member) in members {
                let offset = leaves.first()?.offset - base;
                all.push((name.clone(), offset, element(member, leaves, base + offset, depth, None)?));
            }
            let end = all.iter().map(|(_, offset, member)| offset + member.size()).max().unwrap_or(0);
            Some(Element::Struct(all, size.unwrap_or(end).max(end)))
        }
        Node::Array(loops, inner) => {
            let walks = leaves.first()?.loops.get(depth..depth + loops.len())?;
            let lengths: Vec<u64> = walks.iter().map(|walk| walk.length).collect();
            let stride = walks.last()?.digits.last().map(|digit| digit.stride);
            let inner = element(inner, leaves, base, depth + loops.len(), stride)?;
            Some(Element::Array(lengths, Box::new(inner)))
        }
    }
}

/// Describes a primitive that takes `size` bytes. Texts of an aligned view may be padded, which a struct can express.
fn padded(primitive: Primitive, big: bool, size: u64) -> Element {
    match primitive {
        Primitive::String(most) if size > primitive.size() => {
            let text = Element::Array(vec![most.into()], Box::new(Element::Primitive(Primitive::Uint8, false)));
            let length = Element::Primitive(Primitive::Int16, big);
            Element::Struct(vec![("length".to_owned(), 0, length), ("text".to_owned(), 2, text)], size)
        }
        other => Element::Primitive(other, big),
    }
}
