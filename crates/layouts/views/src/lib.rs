//! Datasets declared once and seen in many layouts: the language, the layouts, and the conversion between them.

pub mod convert;
pub mod explain;
pub mod import;
pub mod language;
pub mod layout;
pub mod model;

pub use language::{Diagnostic, Diagnostics, Severity, Source, Sources, Span};
