//! Descriptions of layouts for other formats: arrays of elements at offsets, with the lengths and types of NumPy and
//! HDF5.

use super::{Layout, Placed, Walk};
use crate::model::{Arrangement, Attribute, Dataset, Node, Primitive, View};

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
    /// The bytes of an element that was never written, if they are not zero.
    pub fill: Option<Vec<u8>>,
    /// The attributes of what it shows.
    pub attributes: Vec<Attribute>,
    /// The attributes of members, by their paths within the element.
    pub members: Vec<(String, Vec<Attribute>)>,
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
    pub fn describe(&self, view: &View, first: usize, dataset: &Dataset) -> Option<Vec<Described>> {
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
            let fill = self.fill_of_element(&own, dataset, offset, &element);
            let attributes = dataset.attributes_of(&variable.path).to_vec();
            let members = own.iter().filter_map(|placed| of_member(placed, dataset)).collect();
            Some(Described { name, offset, size, lengths, dimensions, element, fill, attributes, members })
        };
        variables.map(one).collect()
    }

    /// Returns the bytes of a variable's element that was never written, if they are not zero.
    fn fill_of_element(&self, own: &[&Placed], dataset: &Dataset, offset: u64, element: &Element) -> Option<Vec<u8>> {
        let is_filled = |placed: &&Placed| dataset.leaves.get(placed.leaf).is_some_and(|leaf| leaf.fill.is_some());
        if !own.iter().any(is_filled) {
            return None;
        }
        let leaves = own.iter().map(|placed| {
            // Of an array of no elements as well, the first one is described.
            let longer = |walk: &Walk| Walk { length: walk.length.max(1), ..walk.clone() };
            Placed { loops: placed.loops.iter().map(longer).collect(), ..(*placed).clone() }
        });
        let mut fill = vec![0; usize::try_from(element.size()).ok()?];
        Layout { leaves: leaves.collect(), ..Layout::default() }.fill(dataset, offset, &mut fill);
        Some(fill)
    }
}

/// Returns the path of a member within the elements of its variable, and its attributes, if it has any.
fn of_member(placed: &Placed, dataset: &Dataset) -> Option<(String, Vec<Attribute>)> {
    let (_, path) = placed.path.split_once('.')?;
    let attributes = dataset.attributes_of(&dataset.leaves.get(placed.leaf)?.path);
    (!attributes.is_empty()).then(|| (path.to_owned(), attributes.to_vec()))
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
