//! Where each element of a view or a replica lies in its file.

mod arrange;
mod describe;
mod fit;
pub mod hdf5;
mod place;
mod regular;

pub use arrange::Digit;
pub use describe::{Described, Element};
pub use place::{of_replica, of_view};
pub(crate) use regular::{Part, is_regular, nests};

use crate::model::{Affine, Misfit, Primitive};

/// Where everything lies.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The length of each file. A view has one; a replica has more where the size of something varies.
    pub files: Vec<u64>,
    /// The variables, in order.
    pub variables: Vec<Extent>,
    /// Their primitive parts, in the order of the files.
    pub leaves: Vec<Placed>,
    /// The head of its one file, if its format has one; empty otherwise.
    pub head: Vec<u8>,
}

/// Where a variable lies.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Its name, with that of its view before it where there are several.
    pub name: String,
    /// Its file.
    pub file: usize,
    /// Its first byte.
    pub offset: u64,
    /// How many bytes it takes, padding within it included.
    pub size: u64,
}

/// An array of primitives, where it lies.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The variable's number in the layout.
    pub variable: usize,
    /// The leaf of the dataset.
    pub leaf: usize,
    /// Its path within the layout, as in `data.a`.
    pub path: String,
    /// Its type.
    pub primitive: Primitive,
    /// Whether the highest byte comes first.
    pub big: bool,
    /// Its file.
    pub file: usize,
    /// Where its first element lies.
    pub offset: u64,
    /// The element of the leaf, by the loops.
    pub index: Vec<Affine>,
    /// The loops around it, outermost first.
    pub loops: Vec<Walk>,
}

/// How a loop moves through a file.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The loop's number in its variable.
    pub number: usize,
    /// How often it runs.
    pub length: u64,
    /// Its value is the sum of digit times weight, the place the sum of digit times stride; the largest weight comes first.
    pub digits: Vec<Digit>,
}

impl Placed {
    /// How many elements it has.
    pub fn count(&self) -> u64 {
        self.loops.iter().fold(1, |product, walk| product.saturating_mul(walk.length))
    }
}

impl Layout {
    /// Whether each element of the dataset has places that can be computed: no index moves along two dimensions at once, and
    /// indices that share a dimension are like the digits of a number.
    pub fn is_regular(&self) -> bool {
        self.leaves.iter().all(is_regular)
    }

    /// One file of it by itself, as if it were a view.
    pub fn of_file(&self, file: usize) -> Layout {
        let own = |placed: &&Placed| placed.file == file;
        Layout {
            files: self.files.get(file).copied().into_iter().collect(),
            variables: self.variables.iter().filter(|extent| extent.file == file).cloned().collect(),
            leaves: self.leaves.iter().filter(own).map(|placed| Placed { file: 0, ..placed.clone() }).collect(),
            head: self.head.clone(),
        }
    }

    /// A leaf by itself, in one piece, as the loops around it run.
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

    /// Whether both have each element that both have at the same place.
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

    /// Whether both are the same, of arrays equally long.
    pub fn is_same(&self, other: &Layout) -> bool {
        let lengths = |layout: &Layout| -> Vec<u64> {
            layout.leaves.iter().flat_map(|placed| &placed.loops).map(|walk| walk.length).collect()
        };
        self.files == other.files && self.head == other.head && self.lies_as(other) && lengths(self) == lengths(other)
    }

    /// The same behind a head.
    fn behind(mut self, head: Vec<u8>) -> Result<Layout, Misfit> {
        let length = head.len() as u64;
        for file in &mut self.files {
            *file = file.checked_add(length).filter(|end| *end <= i64::MAX as u64).ok_or(Misfit::TooLarge)?;
        }
        self.variables.iter_mut().for_each(|extent| extent.offset += length);
        self.leaves.iter_mut().for_each(|placed| placed.offset += length);
        Ok(Layout { head, ..self })
    }

    /// The bytes of elements; the rest is padding.
    pub fn payload(&self) -> u64 {
        self.leaves
            .iter()
            .map(|placed| placed.count().saturating_mul(placed.primitive.size()))
            .fold(0, u64::saturating_add)
    }
}
