//! Converts the engine's errors to Python exceptions; `_errors.py` has their classes.

use engine::Error;
use engine::files::FileError;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::object::python;

/// Returns the exception for an error of the engine.
pub fn raised(error: Error) -> PyErr {
    let (class, facts) = match &error {
        Error::NotFound { key } => ("NotFoundError", json!({"key": key, "errno": 2})),
        Error::BadKey { key, .. } | Error::KeyTooLong { key, .. } | Error::Reserved { key } => {
            ("BadKeyError", json!({"key": key}))
        }
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
        Error::Io { cause, .. } => ("FailedError", json!({"errno": cause.raw_os_error()})),
        Error::Catalog(_) | Error::Damaged { .. } | Error::LogDamaged(_) => ("CatalogError", json!({})),
        // The engine may add errors later.
        _ => ("FailedError", json!({})),
    };
    Python::attach(|py| made(py, class, &error.to_string(), &facts).unwrap_or_else(|failed| failed))
}

fn made(py: Python<'_>, class: &str, words: &str, facts: &Value) -> PyResult<PyErr> {
    let exception = py.import("terrace._errors")?.getattr(class)?.call1((words,))?;
    for (name, value) in facts.as_object().into_iter().flatten() {
        exception.setattr(name.as_str(), python(py, value)?)?;
    }
    Ok(PyErr::from_value(exception))
}

/// Returns the exception for an error of files: an `OSError` of the class for its error number.
pub fn refused(error: FileError) -> PyErr {
    match error {
        FileError::Engine(error) => raised(error),
        other => PyOSError::new_err((other.errno(), other.to_string())),
    }
}
