//! Views, resolved.

use super::affine::Affine;
use super::{Dataset, Length, Packing, Style};
use crate::language::Span;

/// How somebody sees the dataset.
#[derive(Clone, Debug)]
pub struct View {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub span: Span,
    /// Its flags.
    pub style: Style,
    /// Its variables, in the order of the file.
    pub variables: Vec<ViewVariable>,
}

/// A variable of a view.
#[derive(Clone, Debug)]
pub struct ViewVariable {
    /// Its name.
    pub name: String,
    /// Where it is declared.
    pub span: Span,
    /// Its structure.
    pub node: Node,
    /// The indices that run over its arrays.
    pub loops: Vec<Loop>,
}

/// An index of a view's array.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Its name; that of an array without named indices is empty.
    pub name: String,
    /// It stays below this, where that is said.
    pub bound: Option<u64>,
}

/// The structure of a view's variable.
#[derive(Clone, Debug)]
pub enum Node {
    /// Elements of a leaf of the dataset.
    Leaf(Seen),
    /// Members, in order, with their names.
    Struct(Vec<(String, Node)>),
    /// An array over these loops.
    Array(Vec<usize>, Box<Node>),
}

/// Which element of a leaf is seen, by the loops around.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The leaf's number in the dataset.
    pub leaf: usize,
    /// The index in each of its dimensions.
    pub index: Vec<Affine>,
}

/// How long the arrays of variable size are: by the number of the variable that says so.
pub type Sizes = std::collections::BTreeMap<usize, u64>;

/// A view does not fit the dataset.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Misfit {
    /// An index leaves its array.
    #[error("`{leaf}` is {length} long where an index reaches from {least} to {most}")]
    OutOfBounds {
        /// The leaf's path.
        leaf: String,
        /// The least index.
        least: i128,
        /// The greatest.
        most: i128,
        /// The array's length.
        length: u64,
    },
    /// An index without a bound, which nothing else bounds.
    #[error("nothing says where the index `{index}` ends; write [{index} < 10]")]
    Unbounded {
        /// The index.
        index: String,
    },
    /// More bytes than a file can have.
    #[error("it is larger than 2^63 bytes; make an array shorter")]
    TooLarge,
    /// The construct that an HDF5 file cannot hold.
    #[error("it is to be an HDF5 file, but {0}")]
    NoHdf5(String),
    /// More parts than can be handled.
    #[error("it falls into too many pieces; use a simpler arrangement or slice")]
    TooComplex,
}

impl Node {
    /// Calls `each` with every leaf that is seen.
    pub fn visit<'a>(&'a self, each: &mut dyn FnMut(&'a Seen)) {
        match self {
            Node::Leaf(seen) => each(seen),
            Node::Struct(members) => members.iter().for_each(|(_, node)| node.visit(each)),
            Node::Array(_, element) => element.visit(each),
        }
    }

    /// All leaves that are seen.
    pub fn leaves(&self) -> Vec<&Seen> {
        let mut all = Vec::new();
        self.visit(&mut |seen| all.push(seen));
        all
    }
}

impl Length {
    /// The length where variable ones are these; one that is not known is 0.
    pub fn at(self, sizes: &Sizes) -> u64 {
        match self {
            Length::Fixed(length) => length,
            Length::Variable(variable) => sizes.get(&variable).copied().unwrap_or(0),
        }
    }
}

impl ViewVariable {
    /// How often each of its loops runs: as long as all its indices stay in bounds.
    ///
    /// # Errors
    /// Where an index leaves its array whatever the loop's length is, or nothing bounds a loop.
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

/// For how many values from 0 on `constant + coefficient * value` is below the length; none if not even for 0.
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
    /// The same elements, one after the other without padding, the last index fastest.
    pub fn plain(&self) -> View {
        let style = Style { big: self.style.big, packing: Packing::Packed, align: 1, ..Style::default() };
        View { style, ..self.clone() }
    }

    /// A view that holds whole leaves, one array after the other.
    pub(crate) fn of_leaves(dataset: &Dataset, leaves: &[usize]) -> View {
        let variable = |&leaf: &usize| {
            let declared = dataset.leaves.get(leaf)?;
            let count = declared.lengths.len();
            let index = (0..count).map(Affine::index).collect();
            let inner = Node::Leaf(Seen { leaf, index });
            let node = if count == 0 { inner } else { Node::Array((0..count).collect(), Box::new(inner)) };
            let loops = (0..count).map(|_| Loop { name: String::new(), bound: None }).collect();
            Some(ViewVariable { name: declared.path.clone(), span: Span::default(), node, loops })
        };
        let variables = leaves.iter().filter_map(variable).collect();
        let style = Style { align: 1, ..Style::default() };
        View { name: String::new(), span: Span::default(), style, variables }
    }
}
