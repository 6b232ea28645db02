//! What can go wrong with a dataset.

use terrace_views::Diagnostics;
use terrace_views::convert::Missing;
use terrace_views::model::Misfit;

/// What can go wrong with a dataset.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store has no such dataset.
    #[error("there is no dataset {0:?}; `terrace dataset ls` lists those that there are")]
    NotFound(String),
    /// A name that no dataset, or no replica, can have.
    #[error("{name:?} cannot be a name: {reason}")]
    BadName {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// There is such a dataset already.
    #[error("there is a dataset {0:?} already; `terrace dataset edit` changes its views and replicas")]
    Exists(String),
    /// The declaration has errors.
    #[error("the declaration has errors: {}", first(.0))]
    Declaration(Diagnostics),
    /// A declaration cannot be that of this dataset in this store.
    #[error("{0}")]
    Refused(String),
    /// The dataset has no such view.
    #[error("the dataset {dataset:?} has no view {view:?}; it has {known}")]
    NoView {
        /// The dataset.
        dataset: String,
        /// The view that was asked for.
        view: String,
        /// The views that it has.
        known: String,
    },
    /// Nothing can be written through the view.
    #[error("nothing can be written through the view {0:?}, which is read-only; write through another")]
    ReadOnly(String),
    /// A view is as long as what it shows.
    #[error("byte {end} is beyond the end of the view {view:?}, which is {length} bytes long")]
    Beyond {
        /// The view.
        view: String,
        /// Where the request ends.
        end: u64,
        /// The view's length.
        length: u64,
    },
    /// What is asked for is in no replica that can be read.
    #[error("{what} of the dataset {dataset:?} cannot be had from the replicas that are left: {why}")]
    Lost {
        /// The dataset.
        dataset: String,
        /// What was to be read.
        what: String,
        /// What became of the replicas.
        why: String,
    },
    /// Others changed the dataset again and again meanwhile.
    #[error("others keep changing the dataset {0:?}; try again")]
    Busy(String),
    /// The length of an array that varies makes no sense.
    #[error("with the lengths that the dataset {dataset:?} is given: {misfit}")]
    Size {
        /// The dataset.
        dataset: String,
        /// What does not fit.
        misfit: Misfit,
    },
    /// A conversion was given too little.
    #[error("converting: {0}")]
    Conversion(#[from] Missing),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] terrace::Error),
}

/// What can go wrong with a dataset, or a result.
pub type Result<T> = std::result::Result<T, Error>;

fn first(diagnostics: &Diagnostics) -> String {
    let failed = diagnostics.clone().sorted().into_iter().find(|one| one.severity == terrace_views::Severity::Error);
    failed.map_or_else(String::new, |one| one.message)
}
