//! The dataset language: parsing and formatting. `docs/dataset-language.md` is its reference.

pub mod ast;
mod diagnostic;
mod files;
mod parser;
mod print;
mod span;
mod token;

pub(crate) use diagnostic::suggest;
pub use diagnostic::{Diagnostic, Diagnostics, Severity, nearest};
pub use files::{Source, Sources, read};
pub use parser::parse;
pub use print::{attribute_name, literal, print};
pub use span::Span;
pub use token::Trivia;

/// A parsed file with its comments.
#[derive(Clone, Debug, Default)]
pub struct Parsed {
    /// The syntax tree.
    pub file: ast::File,
    /// The comments and blank lines, in order.
    pub trivia: Vec<Trivia>,
}
