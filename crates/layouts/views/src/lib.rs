//! Datasets declared once and seen in many layouts: the language, the layouts, and the conversion between them.
//!
//! ```
//! use terrace_views::convert::{Plan, Stored, Window};
//! use terrace_views::layout::{of_replica, of_view};
//! use terrace_views::model::{Model, Sizes};
//! use terrace_views::{Diagnostics, language};
//!
//! let text = "dataset { var pairs [3]struct { a, b int8 } }
//!     view rows { var pairs = pairs }
//!     view columns { var a [] { a } = pairs; var b [] { b } = pairs }
//!     replica main { view rows }";
//! let mut diagnostics = Diagnostics::default();
//! let model = Model::of(&language::parse(text, 0, &mut diagnostics).file, &mut diagnostics);
//! assert!(!diagnostics.failed());
//!
//! let (dataset, sizes) = (&model.dataset, Sizes::new());
//! let stored = of_replica(&model.replicas[0], &model.views, dataset, &sizes)?;
//! let columns = of_view(model.view("columns").expect("it is declared"), dataset, &sizes)?;
//! let plan = Plan::reading(&columns, &[Stored { layout: &stored, first_file: 0, rate: 1.0 }]);
//! let mut seen = [0; 6];
//! plan.read(0, &mut seen, &[Window { start: 0, bytes: &[1, 11, 2, 12, 3, 13] }])?;
//! assert_eq!(seen, [1, 2, 3, 11, 12, 13]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod convert;
pub mod explain;
pub mod import;
pub mod language;
pub mod layout;
pub mod model;

pub use language::{Diagnostic, Diagnostics, Severity, Source, Sources, Span};
