//! The layout flags of a view.

use std::collections::HashMap;

use super::affine::{Affine, Names};
use crate::language::ast::{At, Expression, Flag};
use crate::language::{Diagnostic, Diagnostics, Span};

/// A view's flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The view is read-only.
    pub read_only: bool,
    /// The first index is the fastest instead of the last.
    pub row_minor: bool,
    /// The arrangement of the elements of arrays.
    pub arrangement: Arrangement,
    /// Numbers are big-endian.
    pub big: bool,
    /// The alignment of fields and variables.
    pub packing: Packing,
    /// Each variable begins at a multiple of this number of bytes; 1 means the alignment of its type.
    pub align: u64,
}

/// The arrangement of the elements of arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Arrangement {
    /// One after the other.
    #[default]
    Plain,
    /// In tiles of this shape; a single number applies to all dimensions.
    Tiled(Vec<u64>),
    /// Structs in blocks of this many, each block stored field by field.
    Blocked(u64),
    /// Along the Z-order curve.
    ZOrder,
}

/// The alignment of fields and variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Variables aligned by their first field, structs without padding (III-B of the paper).
    #[default]
    Paper,
    /// No padding.
    Packed,
    /// The alignment of C.
    Aligned,
}

const MAX_ALIGNMENT_BYTES: i64 = 1 << 20;

/// Combines flags.
pub(crate) fn style(flags: &[At<Flag>], constants: &HashMap<String, i64>, diagnostics: &mut Diagnostics) -> Style {
    let mut style = Style { align: 1, ..Style::default() };
    let mut said: Vec<(u8, Span)> = Vec::new();
    for At { what, span } in flags {
        let question = match what {
            Flag::ReadOnly => 0,
            Flag::Default | Flag::RowMajor | Flag::RowMinor => 1,
            Flag::Tiled(_) | Flag::Blocked(_) | Flag::ZOrder => 2,
            Flag::Little | Flag::Big => 3,
            Flag::Packed | Flag::Aligned => 4,
            Flag::Align(_) => 5,
        };
        if let Some((_, first)) = said.iter().find(|(asked, _)| *asked == question) {
            let error = Diagnostic::error(*span, "a flag before says something about the same");
            diagnostics.push(error.label(*first, "this one").help("keep one of the two"));
            continue;
        }
        said.push((question, *span));
        let mut number = |expression: &Expression, most: i64| -> Option<u64> {
            let names = Names { constants, indices: &[], variables: &|_| false };
            let value = Affine::of(expression, &names).map_err(|error| diagnostics.push(error)).ok()?.constant;
            if !(1..=most).contains(&value) {
                diagnostics.push(Diagnostic::error(expression.span, format!("{value} is not between 1 and {most}")));
                return None;
            }
            Some(value as u64)
        };
        match what {
            Flag::ReadOnly => style.read_only = true,
            Flag::RowMinor => style.row_minor = true,
            Flag::Big => style.big = true,
            Flag::ZOrder => style.arrangement = Arrangement::ZOrder,
            Flag::Packed => style.packing = Packing::Packed,
            Flag::Aligned => style.packing = Packing::Aligned,
            Flag::Default | Flag::RowMajor | Flag::Little => {}
            Flag::Tiled(shape) => {
                let shape: Option<Vec<u64>> = shape.iter().map(|n| number(n, i64::from(i32::MAX))).collect();
                style.arrangement = shape.map_or(Arrangement::Plain, Arrangement::Tiled);
            }
            Flag::Blocked(length) => {
                let length = number(length, i64::from(i32::MAX));
                style.arrangement = length.map_or(Arrangement::Plain, Arrangement::Blocked);
            }
            Flag::Align(bytes) => {
                style.align = number(bytes, MAX_ALIGNMENT_BYTES).unwrap_or(1);
                if !style.align.is_power_of_two() {
                    diagnostics.push(Diagnostic::error(bytes.span, "an alignment is a power of two"));
                }
            }
        }
    }
    style
}
