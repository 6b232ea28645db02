//! The errors of this crate.

use terrace_views::Diagnostics;
use terrace_views::convert::Missing;
use terrace_views::model::Misfit;

/// The errors of this crate.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No dataset has this name.
    #[error("there is no dataset {0:?}; `terrace dataset ls` lists those that there are")]
    NotFound(String),
    /// The name is not valid for a dataset or a replica.
    #[error("{name:?} cannot be a name: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// Why the name is invalid.
        reason: &'static str,
    },
    /// A dataset of this name exists already.
    #[error("there is a dataset {0:?} already; `terrace dataset edit` changes its views and replicas")]
    Exists(String),
    /// The declaration has errors.
    #[error("the declaration has errors: {}", first(.0))]
    Declaration(Diagnostics),
    /// The store cannot hold the dataset, or the request is not possible for it.
    #[error("{0}")]
    Refused(String),
    /// The dataset has no view of this name.
    #[error("the dataset {dataset:?} has no view {view:?}; it has {known}")]
    NoView {
        /// The dataset.
        dataset: String,
        /// The requested view.
        view: String,
        /// The names of the dataset's views.
        known: String,
    },
    /// The view is read-only.
    #[error("nothing can be written through the view {0:?}, which is read-only; write through another")]
    ReadOnly(String),
    /// The request ends beyond the end of the view, which has a fixed length.
    #[error("byte {end} is beyond the end of the view {view:?}, which is {length} bytes long")]
    Beyond {
        /// The view.
        view: String,
        /// Where the request ends.
        end: u64,
        /// The view's length.
        length: u64,
    },
    /// No readable replica has the requested bytes.
    #[error("{what} of the dataset {dataset:?} cannot be had from the replicas that are left: {why}")]
    Lost {
        /// The dataset.
        dataset: String,
        /// The bytes that were requested.
        what: String,
        /// Why each replica cannot provide them.
        why: String,
    },
    /// Concurrent changes made every attempt fail.
    #[error("others keep changing the dataset {0:?}; try again")]
    Busy(String),
    /// A size variable holds a length that the layouts cannot represent.
    #[error("with the lengths that the dataset {dataset:?} is given: {misfit}")]
    Size {
        /// The dataset.
        dataset: String,
        /// The reason.
        misfit: Misfit,
    },
    /// A conversion lacked input bytes.
    #[error("converting: {0}")]
    Conversion(#[from] Missing),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] terrace::Error),
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

fn first(diagnostics: &Diagnostics) -> String {
    let failed = diagnostics.clone().sorted().into_iter().find(|one| one.severity == terrace_views::Severity::Error);
    failed.map_or_else(String::new, |one| one.message)
}
