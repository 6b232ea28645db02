//! Resolved views.

use super::affine::Affine;
use super::{Dataset, Length, Packing, Style};
use crate::language::Span;

/// A view of the dataset.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name.
    pub name: String,
    /// The position of the declaration.
    pub span: Span,
    /// Its flags.
    pub style: Style,
    /// The variables in the order of the text.
    pub variables: Vec<ViewVariable>,
}

/// A variable of a view.
#[derive(Clone, Debug)]
pub struct ViewVariable {
    /// Its name.
    pub name: String,
    /// The position of the declaration.
    pub span: Span,
    /// The path of the variable of the dataset, or of its member, that it shows.
    pub path: String,
    /// Its structure.
    pub node: Node,
    /// The indices of its arrays.
    pub loops: Vec<Loop>,
}

/// An index of a view's array.
#[derive(Clone, Debug)]
pub struct Loop {
    /// The name; empty for an array without named indices.
    pub name: String,
    /// The declared bound, if there is one.
    pub bound: Option<u64>,
}

/// The structure of a view's variable.
#[derive(Clone, Debug)]
pub enum Node {
    /// Elements of a leaf of the dataset.
    Leaf(Seen),
    /// Members, in order, with their names.
    Struct(Vec<(String, Node)>),
    /// An array with these loops.
    Array(Vec<usize>, Box<Node>),
}

/// The element of a leaf that is shown, in terms of the loops around.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The index of the leaf in the dataset.
    pub leaf: usize,
    /// The index in each of its dimensions.
    pub index: Vec<Affine>,
}

/// The lengths of arrays of variable size, by the index of the variable that determines them.
pub type Sizes = std::collections::BTreeMap<usize, u64>;

/// Why a view does not fit the dataset.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Misfit {
    /// An index leaves its array.
    #[error("`{leaf}` is {length} long where an index reaches from {least} to {most}")]
    OutOfBounds {
        /// The leaf's path.
        leaf: String,
        /// The smallest index.
        least: i128,
        /// The largest index.
        most: i128,
        /// The length of the array.
        length: u64,
    },
    /// An index that nothing bounds.
    #[error("nothing says where the index `{index}` ends; write [{index} < 10]")]
    Unbounded {
        /// The name of the index.
        index: String,
    },
    /// The size exceeds the maximum size of a file.
    #[error("it is larger than 2^63 bytes; make an array shorter")]
    TooLarge,
    /// The construct that an HDF5 file cannot hold.
    #[error("it is to be an HDF5 file, but {0}")]
    NoHdf5(String),
    /// There are too many parts.
    #[error("it falls into too many pieces; use a simpler arrangement or slice")]
    TooComplex,
}

impl Node {
    /// Calls `each` with every leaf that is shown.
    pub fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Seen)) {
        match self {
            Node::Leaf(seen) => each(seen),
            Node::Struct(members) => members.iter().for_each(|(_, node)| node.visit(each)),
            Node::Array(_, element) => element.visit(each),
        }
    }

    /// Returns all leaves that are shown.
    pub fn leaves(&self) -> Vec<&Seen> {
        let mut all = Vec::new();
        self.visit(&mut |seen| all.push(seen));
        all
    }
}

impl Length {
    /// Returns the length for these sizes; an unknown variable length counts as 0.
    pub fn at(self, sizes: &Sizes) -> u64 {
        match self {
            Length::Fixed(length) => length,
            Length::Variable(variable) => sizes.get(&variable).copied().unwrap_or(0),
        }
    }
}

impl ViewVariable {
    /// Returns the number of iterations of each loop: the largest number for which all indices stay in bounds.
    ///
    /// # Errors
    /// [`Misfit`] if an index leaves its array for every length of the loop, or if nothing bounds a loop.
    pub fn lengths(&self, dataset: &Dataset, sizes: &Sizes) -> Result<Vec<u64>, Misfit> {
        let mut lengths: Vec<Option<u64>> = self.loops.iter().map(|l| l.bound).collect();
        let leaves = self.node.leaves();
        for seen in &leaves {
            for (affine, length) in self.dimensions(seen, dataset) {
                let [(index, coefficient)] = affine.terms[..] else { continue };
                if self.loops.get(index).is_some_and(|l| l.bound.is_some()) {
                    continue;
                }
                let runs = runs(affine.constant, coefficient, length.at(sizes));
                let fixed = matches!(length, Length::Fixed(_));
                let Some(runs) = runs.or((!fixed).then_some(0)) else {
                    let at = i128::from(affine.constant);
                    return Err(out(dataset, seen, at, at, length.at(sizes)));
                };
                if let Some(known) = lengths.get_mut(index) {
                    *known = Some(known.map_or(runs, |known| known.min(runs)));
                }
            }
        }
        let unbounded = |number: usize| Misfit::Unbounded {
            index: self.loops.get(number).map(|l| l.name.clone()).unwrap_or_default(),
        };
        let lengths: Result<Vec<u64>, Misfit> =
            lengths.iter().enumerate().map(|(i, l)| l.ok_or_else(|| unbounded(i))).collect();
        let lengths = lengths?;
        for seen in &leaves {
            for (affine, length) in self.dimensions(seen, dataset) {
                if affine.terms.iter().any(|(index, _)| lengths.get(*index) == Some(&0)) {
                    continue;
                }
                if let Some((index, _)) = affine
                    .terms
                    .iter()
                    .find(|(i, _)| affine.terms.len() > 1 && self.loops.get(*i).is_none_or(|l| l.bound.is_none()))
                {
                    return Err(unbounded(*index));
                }
                let (least, most) = affine.range(&lengths).ok_or(Misfit::TooLarge)?;
                let length = length.at(sizes);
                if least < 0 || most >= i128::from(length) {
                    return Err(out(dataset, seen, least, most, length));
                }
            }
        }
        Ok(lengths)
    }

    fn dimensions<'a>(&self, seen: &'a Seen, dataset: &'a Dataset) -> impl Iterator<Item = (&'a Affine, Length)> {
        let lengths = dataset.leaves.get(seen.leaf).map_or(&[][..], |leaf| &leaf.lengths);
        seen.index.iter().zip(lengths.iter().copied())
    }
}

/// Returns for how many values from 0 on `constant + coefficient * value` is below the length; `None` if not even for
/// 0.
fn runs(constant: i64, coefficient: i64, length: u64) -> Option<u64> {
    let start = u64::try_from(constant).ok().filter(|start| *start < length)?;
    let step = coefficient.unsigned_abs();
    let room = if coefficient > 0 { length - 1 - start } else { start };
    Some(room / step.max(1) + 1)
}

fn out(dataset: &Dataset, seen: &Seen, least: i128, most: i128, length: u64) -> Misfit {
    let leaf = dataset.leaves.get(seen.leaf).map(|leaf| leaf.path.clone()).unwrap_or_default();
    Misfit::OutOfBounds { leaf, least, most, length }
}

impl View {
    /// Returns a view of the same elements in contiguous row-major order without padding.
    pub fn plain(&self) -> View {
        let style = Style { big: self.style.big, packing: Packing::Packed, align: 1, ..Style::default() };
        View { style, ..self.clone() }
    }

    /// Returns a view that holds whole leaves, one array after another.
    pub(crate) fn of_leaves(dataset: &Dataset, leaves: &[usize]) -> View {
        let variable = |&leaf: &usize| {
            let declared = dataset.leaves.get(leaf)?;
            let count = declared.lengths.len();
            let index = (0..count).map(Affine::index).collect();
            let inner = Node::Leaf(Seen { leaf, index });
            let node = if count == 0 { inner } else { Node::Array((0..count).collect(), Box::new(inner)) };
            let loops = (0..count).map(|_| Loop { name: String::new(), bound: None }).collect();
            let (name, path, span) = (declared.path.clone(), declared.path.clone(), Span::default());
            Some(ViewVariable { name, span, path, node, loops })
        };
        let variables = leaves.iter().filter_map(variable).collect();
        let style = Style { align: 1, ..Style::default() };
        View { name: String::new(), span: Span::default(), style, variables }
    }
}
