//! Follows a reference to its part of the dataset.

use super::See;
use crate::language::ast::{At, Name, Step};
use crate::language::{Diagnostic, suggest};
use crate::model::{Affine, Shape};

/// A part of a variable of the dataset, with indices.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    pub shape: Shape,
    pub leaf: usize,
    pub index: Vec<Affine>,
    pub path: String,
}

impl See<'_, '_> {
    pub(super) fn follow(&mut self, mut cursor: Cursor, steps: &[Step]) -> Option<Cursor> {
        for step in steps {
            match step {
                Step::Field(name) => cursor = self.member(&cursor, name)?,
                Step::Index(At { what: indices, span }) => {
                    let Shape::Array(lengths, element) = cursor.shape.clone() else {
                        return self.error(Diagnostic::error(*span, format!("`{}` is no array", cursor.path)));
                    };
                    if lengths.len() != indices.len() {
                        let (has, given) = (lengths.len(), indices.len());
                        let error = format!(
                            "`{}` has {has} dimension{}, not {given}",
                            cursor.path,
                            if has == 1 { "" } else { "s" }
                        );
                        return self.error(Diagnostic::error(*span, error));
                    }
                    for index in indices {
                        let affine = self.affine(index, false)?;
                        cursor.index.push(affine);
                    }
                    cursor.shape = (*element).clone();
                    cursor.path.push_str("[]");
                }
            }
        }
        Some(cursor)
    }

    pub(super) fn member(&mut self, cursor: &Cursor, name: &Name) -> Option<Cursor> {
        let Shape::Struct(members) = &cursor.shape else {
            let error = Diagnostic::error(
                name.span,
                format!("`{}` is no struct, and has no field `{}`", cursor.path, name.text),
            );
            let array = matches!(cursor.shape, Shape::Array(..));
            return self.error(if array {
                error.help("write [] before the braces, or index it, to see its elements")
            } else {
                error
            });
        };
        let mut leaf = cursor.leaf;
        for member in members.iter() {
            if member.name == name.text {
                let path = format!("{}.{}", cursor.path, name.text);
                return Some(Cursor { shape: member.shape.clone(), leaf, index: cursor.index.clone(), path });
            }
            leaf += member.leaves;
        }
        let error = Diagnostic::error(name.span, format!("`{}` has no field `{}`", cursor.path, name.text));
        let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
        let help = suggest(&name.text, names.iter().copied());
        self.error(Diagnostic { help, ..error })
    }
}
