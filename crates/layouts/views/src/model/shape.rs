//! The structure of variables.

use std::sync::Arc;

use super::Primitive;

/// A resolved type.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A number or a text.
    Primitive(Primitive),
    /// Members, in order.
    Struct(Arc<[Member]>),
    /// Elements with these lengths.
    Array(Arc<[Length]>, Arc<Shape>),
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its type.
    pub shape: Shape,
    /// The number of its leaves.
    pub(crate) leaves: usize,
}

/// The length of an array in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A constant length.
    Fixed(u64),
    /// The value of this variable of the dataset.
    Variable(usize),
}

impl Shape {
    /// Returns the number of leaves: primitive members at any depth.
    pub fn leaves(&self) -> usize {
        match self {
            Shape::Primitive(_) => 1,
            Shape::Struct(members) => members.iter().fold(0, |sum, member| sum.saturating_add(member.leaves)),
            Shape::Array(_, element) => element.leaves(),
        }
    }

    /// Returns whether the size depends on a variable.
    pub fn varies(&self) -> bool {
        match self {
            Shape::Primitive(_) => false,
            Shape::Struct(members) => members.iter().any(|member| member.shape.varies()),
            Shape::Array(lengths, element) => {
                lengths.iter().any(|l| matches!(l, Length::Variable(_))) || element.varies()
            }
        }
    }

    /// Calls `each` with the path, type and lengths of each leaf, in order.
    pub(crate) fn visit(&self, path: &str, lengths: &[Length], each: &mut dyn FnMut(&str, Primitive, &[Length])) {
        match self {
            Shape::Primitive(primitive) => each(path, *primitive, lengths),
            Shape::Struct(members) => {
                for member in members.iter() {
                    member.shape.visit(&format!("{path}.{}", member.name), lengths, each);
                }
            }
            Shape::Array(own, element) => element.visit(path, &[lengths, own].concat(), each),
        }
    }
}
