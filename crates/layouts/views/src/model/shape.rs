//! The structure of variables.

use std::sync::Arc;

use super::Primitive;

/// A type, resolved.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A number or a text.
    Primitive(Primitive),
    /// Members, in order.
    Struct(Arc<[Member]>),
    /// Elements, by these lengths.
    Array(Arc<[Length]>, Arc<Shape>),
}

/// A member of a struct.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its type.
    pub shape: Shape,
    /// How many leaves it has.
    pub(crate) leaves: usize,
}

/// How long an array is in one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Always so long.
    Fixed(u64),
    /// As long as this variable of the dataset says.
    Variable(usize),
}

impl Shape {
    /// How many leaves it has: primitive members, however deep.
    pub fn leaves(&self) -> usize {
        match self {
            Shape::Primitive(_) => 1,
            Shape::Struct(members) => members.iter().fold(0, |sum, member| sum.saturating_add(member.leaves)),
            Shape::Array(_, element) => element.leaves(),
        }
    }

    /// Whether its size depends on a variable.
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
