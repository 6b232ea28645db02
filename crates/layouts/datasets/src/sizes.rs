//! Variables that hold the lengths of arrays.

use std::collections::BTreeSet;
use std::ops::Range;

use terrace_views::layout::Layout;
use terrace_views::model::{Length, Model, Primitive};

use crate::stored::StoredFile;

/// A variable that holds an array length, and its places in replicas. Its places do not depend on the lengths of
/// arrays.
#[derive(Clone, Debug)]
pub struct SizeVariable {
    /// The variable's number in the dataset.
    pub variable: usize,
    leaf: usize,
    pub places: Vec<SizePlace>,
}

/// The place of a variable in a file.
#[derive(Clone, Debug)]
pub struct SizePlace {
    pub file: usize,
    pub offset: u64,
    primitive: Primitive,
    big: bool,
}

impl SizeVariable {
    /// Returns all size variables of a dataset.
    pub fn of(model: &Model, files: &[StoredFile]) -> Vec<SizeVariable> {
        let used = |length: &Length| if let Length::Variable(variable) = length { Some(*variable) } else { None };
        let lengths = model.dataset.leaves.iter().flat_map(|leaf| &leaf.lengths);
        let variables: BTreeSet<usize> = lengths.filter_map(used).collect();
        let one = |variable: usize| {
            let leaf = model.dataset.variables.get(variable)?.leaf;
            let places = files.iter().enumerate().flat_map(|(file, stored)| {
                let own = stored.layout.leaves.iter().filter(move |placed| placed.leaf == leaf);
                own.map(move |placed| SizePlace {
                    file,
                    offset: placed.offset,
                    primitive: placed.primitive,
                    big: placed.big,
                })
            });
            Some(SizeVariable { variable, leaf, places: places.collect() })
        };
        variables.into_iter().filter_map(one).collect()
    }

    /// Returns the byte ranges of a view that show the variable.
    pub fn within(&self, view: &Layout) -> Vec<Range<u64>> {
        let own = view.leaves.iter().filter(|placed| placed.leaf == self.leaf && placed.loops.is_empty());
        own.map(|placed| placed.offset..placed.offset + placed.primitive.size()).collect()
    }
}

impl SizePlace {
    /// Returns the length of the variable in bytes.
    pub fn size(&self) -> usize {
        self.primitive.size() as usize
    }

    /// Decodes the variable's value. A negative value counts as 0.
    pub fn value(&self, bytes: &[u8]) -> u64 {
        let value = self.primitive.integer(bytes, self.big).unwrap_or(0);
        u64::try_from(value.max(0)).unwrap_or(u64::MAX)
    }
}
