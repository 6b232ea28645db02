//! Converts the engine's errors to Python exceptions; `_errors.py` has their classes.

use std::fmt::Display;
use std::io;
use std::path::Path;

use engine::Error;
use engine::files::FileError;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use serde_json::{Value, json};
use terrace_views::import;

use crate::object::python;

/// The name of an exception's class, and its attributes.
type Exception = (&'static str, Value);

/// Returns the exception for an error of the engine.
pub fn raised(error: Error) -> PyErr {
    made(of_engine(&error), &error)
}

/// Returns the exception for an error of a dataset.
pub fn raised_by_dataset(error: datasets::Error) -> PyErr {
    made(of_dataset(&error), &error)
}

/// Returns the exception for an error of importing a file.
pub fn raised_by_import(path: &Path, error: import::Error) -> PyErr {
    match error {
        import::Error::Io(cause) => of_path(path)(cause),
        other => made(("RefusedError", json!({})), &format!("importing {}: {other}", path.display())),
    }
}

/// Makes the exceptions for errors of a path of this machine, as Python's own calls do.
pub fn of_path(path: &Path) -> impl Fn(io::Error) -> PyErr + '_ {
    move |cause| {
        let number = cause.raw_os_error();
        let said = cause.to_string();
        let words = number.and_then(|number| said.strip_suffix(&format!(" (os error {number})"))).unwrap_or(&said);
        PyOSError::new_err((number, words.to_owned(), path.as_os_str().to_owned()))
    }
}

/// Returns the exception for an error of a stream.
pub fn raised_by_stream(error: stream::Error) -> PyErr {
    made(of_stream(&error), &error)
}

/// Returns the exception for an error of a dump.
pub fn raised_by_dump(error: dump::Error) -> PyErr {
    made(of_dump(&error), &error)
}

fn of_engine(error: &Error) -> Exception {
    match error {
        Error::NotFound { key } => ("NotFoundError", json!({"key": key, "errno": 2})),
        Error::BadKey { key, .. } | Error::KeyTooLong { key, .. } | Error::Reserved { key } => {
            ("BadKeyError", json!({"key": key}))
        }
        Error::ReadOnlyOrigin { key, .. } => ("ReadOnlyError", json!({"key": key, "errno": 30})),
        Error::ChangedAtOrigin { key, .. } => ("ReplacedError", json!({"key": key})),
        Error::Conflict { key, .. } => ("ConflictError", json!({"key": key})),
        Error::Replaced { key } => ("ReplacedError", json!({"key": key})),
        Error::Unreadable { key, start, length, tried, .. } => {
            ("UnreadableError", json!({"key": key, "start": start, "length": length, "tried": tried, "errno": 5}))
        }
        Error::TooLarge { key, .. } => ("TooLargeError", json!({"key": key, "errno": 27})),
        Error::NoSpace { tiers } => ("NoSpaceError", json!({"tiers": tiers, "errno": 28})),
        Error::Config(_) => ("ConfigError", json!({})),
        Error::Store { .. } => ("StoreError", json!({})),
        Error::StillOwed { owed, seconds, .. } => ("StillOwedError", json!({"owed": owed, "seconds": seconds})),
        Error::Io { cause, .. } | Error::Origin { cause, .. } => of_io(cause),
        Error::Catalog(_) | Error::Damaged { .. } | Error::LogDamaged(_) => ("CatalogError", json!({})),
        // The engine may add errors later.
        _ => ("FailedError", json!({})),
    }
}

/// A service has no number for what it does not permit.
fn of_io(cause: &io::Error) -> Exception {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => ("NotPermittedError", json!({"errno": cause.raw_os_error().unwrap_or(13)})),
        _ => ("FailedError", json!({"errno": cause.raw_os_error()})),
    }
}

fn of_dataset(error: &datasets::Error) -> Exception {
    use datasets::Error;
    match error {
        Error::Store(error) => of_engine(error),
        Error::NotFound(name) => ("NotFoundError", json!({"key": name, "errno": 2})),
        Error::NoView { dataset, .. } => ("NotFoundError", json!({"key": dataset, "errno": 2})),
        Error::BadName { name, .. } => ("BadKeyError", json!({"key": name})),
        Error::Exists(name) | Error::Busy(name) => ("ConflictError", json!({"key": name})),
        Error::Declaration(_) | Error::ReadOnly(_) | Error::Beyond { .. } => ("RefusedError", json!({})),
        _ => ("DatasetError", json!({})),
    }
}

fn of_stream(error: &stream::Error) -> Exception {
    use stream::Error;
    match error {
        Error::Engine(error) => of_engine(error),
        Error::Shared(error) => of_stream(error),
        Error::BadName(_) | Error::BadDestination { .. } | Error::TooLong { .. } => ("RefusedError", json!({})),
        Error::BadProducer(_) | Error::TooFar { .. } => ("RefusedError", json!({})),
        Error::Io { cause, .. } => of_io(cause),
        _ => ("StreamError", json!({})),
    }
}

fn of_dump(error: &dump::Error) -> Exception {
    use dump::Error;
    match error {
        Error::Store(error) => of_engine(error),
        Error::NotFound { name, .. } => ("NotFoundError", json!({"key": name, "errno": 2})),
        Error::Refused(_) => ("RefusedError", json!({})),
        _ => ("DumpError", json!({})),
    }
}

fn made((class, facts): Exception, error: &dyn Display) -> PyErr {
    let attempt = |py: Python<'_>| -> PyResult<PyErr> {
        let exception = py.import("terrace._errors")?.getattr(class)?.call1((error.to_string(),))?;
        for (name, value) in facts.as_object().into_iter().flatten() {
            exception.setattr(name.as_str(), python(py, value)?)?;
        }
        Ok(PyErr::from_value(exception))
    };
    Python::attach(|py| attempt(py).unwrap_or_else(|failed| failed))
}

/// Returns the exception for an error of files: an `OSError` of the class for its error number.
pub fn refused(error: FileError) -> PyErr {
    match error {
        FileError::Engine(error) => raised(error),
        other => PyOSError::new_err((other.errno(), other.to_string())),
    }
}
