//! The offset of each element of a view or a replica in its file.

mod arrange;
mod describe;
mod fill;
mod fit;
pub mod hdf5;
mod place;
mod regular;

pub use arrange::Digit;
pub use describe::{Described, Element};
pub use place::{of_replica, of_view};
pub(crate) use regular::{Part, is_regular, nests};

use crate::model::{Affine, Misfit, Primitive, ViewVariable};

/// The offsets of all elements.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The length of each file. A view has one file; a replica has more if the size of a variable varies.
    pub files: Vec<u64>,
    /// The variables in order.
    pub variables: Vec<Extent>,
    /// The primitive parts of the variables, in the order of the files.
    pub leaves: Vec<Placed>,
    /// The head of its only file if the format has one; otherwise empty.
    pub head: Vec<u8>,
}

/// The position of a variable.
#[derive(Clone, Debug)]
pub struct Extent {
    /// The name. If there are several views, it begins with the name of the view.
    pub name: String,
    /// The index of the file.
    pub file: usize,
    /// The first byte.
    pub offset: u64,
    /// The size in bytes, including padding within the variable.
    pub size: u64,
}

/// An array of primitives with its position.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The index of the variable in the layout.
    pub variable: usize,
    /// The index of the leaf of the dataset.
    pub leaf: usize,
    /// The path within the layout, as in `data.a`.
    pub path: String,
    /// Its type.
    pub primitive: Primitive,
    /// Whether it is big-endian.
    pub big: bool,
    /// The index of the file.
    pub file: usize,
    /// The offset of the first element.
    pub offset: u64,
    /// The index of the element in the leaf, in terms of the loops.
    pub index: Vec<Affine>,
    /// The loops around it, outermost first.
    pub loops: Vec<Walk>,
}

/// The movement of a loop through a file.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The index of the loop in its variable.
    pub number: usize,
    /// The number of iterations.
    pub length: u64,
    /// The digits, largest weight first. The loop's value is the sum of digit times weight, the offset is the sum of
    /// digit times stride.
    pub digits: Vec<Digit>,
}

impl Placed {
    /// Returns the names of the indices of its view's variable, outermost first; empty for those without.
    pub fn index_names<'a>(&'a self, variable: &'a ViewVariable) -> impl Iterator<Item = String> + 'a {
        let name = |walk: &Walk| variable.loops.get(walk.number).map_or_else(String::new, |index| index.name.clone());
        self.loops.iter().map(name)
    }

    /// Returns the number of elements.
    pub fn count(&self) -> u64 {
        self.loops.iter().fold(1, |product, walk| product.saturating_mul(walk.length))
    }
}

impl Layout {
    /// Returns whether the offsets of each element can be computed: no index moves along two dimensions at once, and
    /// indices that share a dimension are like the digits of a number.
    pub fn is_regular(&self) -> bool {
        self.leaves.iter().all(is_regular)
    }

    /// Returns one file as if it were a view.
    pub fn of_file(&self, file: usize) -> Layout {
        let own = |placed: &&Placed| placed.file == file;
        Layout {
            files: self.files.get(file).copied().into_iter().collect(),
            variables: self.variables.iter().filter(|extent| extent.file == file).cloned().collect(),
            leaves: self.leaves.iter().filter(own).map(|placed| Placed { file: 0, ..placed.clone() }).collect(),
            head: self.head.clone(),
        }
    }

    /// Returns the layout of a single leaf in contiguous order of its loops.
    pub fn of_leaf(&self, number: usize) -> Layout {
        let Some(placed) = self.leaves.get(number) else { return Layout::default() };
        let mut stride = placed.primitive.size();
        let mut loops = placed.loops.clone();
        for walk in loops.iter_mut().rev() {
            walk.digits = vec![Digit { weight: 1, count: walk.length, stride }];
            stride = stride.saturating_mul(walk.length);
        }
        let variables = vec![Extent { name: placed.path.clone(), file: 0, offset: 0, size: stride }];
        let leaf = Placed { variable: 0, big: false, file: 0, offset: 0, loops, ..placed.clone() };
        Layout { files: vec![stride], variables, leaves: vec![leaf], head: Vec::new() }
    }

    /// Returns whether all elements that both layouts contain have the same offsets.
    pub fn lies_as(&self, other: &Layout) -> bool {
        let digits = |walk: &Walk| walk.digits.iter().map(|digit| (digit.weight, digit.stride)).collect::<Vec<_>>();
        let walks = |placed: &Placed| placed.loops.iter().map(|w| (w.number, digits(w))).collect::<Vec<_>>();
        let alike = |(a, b): (&Placed, &Placed)| {
            (a.leaf, a.file, a.offset, a.big) == (b.leaf, b.file, b.offset, b.big)
                && a.index == b.index
                && walks(a) == walks(b)
        };
        self.leaves.len() == other.leaves.len() && self.leaves.iter().zip(&other.leaves).all(alike)
    }

    /// Returns whether both are equal, for arrays of equal lengths.
    pub fn is_same(&self, other: &Layout) -> bool {
        let lengths = |layout: &Layout| -> Vec<u64> {
            layout.leaves.iter().flat_map(|placed| &placed.loops).map(|walk| walk.length).collect()
        };
        self.files == other.files && self.head == other.head && self.lies_as(other) && lengths(self) == lengths(other)
    }

    /// Moves the layout behind a head.
    fn behind(mut self, head: Vec<u8>) -> Result<Layout, Misfit> {
        let length = head.len() as u64;
        for file in &mut self.files {
            *file = file.checked_add(length).filter(|end| *end <= i64::MAX as u64).ok_or(Misfit::TooLarge)?;
        }
        self.variables.iter_mut().for_each(|extent| extent.offset += length);
        self.leaves.iter_mut().for_each(|placed| placed.offset += length);
        Ok(Layout { head, ..self })
    }

    /// Returns the number of bytes without padding.
    pub fn payload(&self) -> u64 {
        self.leaves
            .iter()
            .map(|placed| placed.count().saturating_mul(placed.primitive.size()))
            .fold(0, u64::saturating_add)
    }
}
