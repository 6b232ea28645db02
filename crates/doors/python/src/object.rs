//! Converts objects' attributes and reports to Python dictionaries and lists.

use std::collections::BTreeMap;
use std::ffi::OsString;

use engine::Kind;
use pyo3::prelude::*;
use pyo3::types::PyType;
use serde::Serialize;

use crate::key::shown;

/// An object of a store.
#[pyclass(frozen, get_all, module = "terrace")]
pub struct Object {
    key: OsString,
    length: u64,
    kind: &'static str,
    id: u64,
    generation: u64,
    replicas: u8,
    mode: u32,
    mtime: i64,
    attributes: BTreeMap<String, String>,
}

/// The pickled state.
type State = (OsString, u64, String, u64, u64, u8, u32, i64, BTreeMap<String, String>);

#[pymethods]
impl Object {
    #[new]
    fn restored(state: State) -> Object {
        let (key, length, kind, id, generation, replicas, mode, mtime, attributes) = state;
        Object { key, length, kind: known(&kind), id, generation, replicas, mode, mtime, attributes }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (State,)) {
        let Object { length, id, generation, replicas, mode, mtime, .. } = *self;
        let (key, attributes) = (self.key.clone(), self.attributes.clone());
        let state = (key, length, self.kind.to_owned(), id, generation, replicas, mode, mtime, attributes);
        (py.get_type::<Object>(), (state,))
    }

    fn __repr__(&self) -> String {
        format!("Object(key={:?}, length={}, replicas={})", self.key, self.length, self.replicas)
    }
}

impl Object {
    /// Makes it of the engine's object.
    pub fn of(key: &[u8], object: &engine::Object) -> Object {
        let attributes = &object.attributes;
        Object {
            key: shown(key.to_vec()),
            length: object.length,
            kind: kind(attributes.kind),
            id: object.id,
            generation: object.generation,
            replicas: object.want,
            mode: attributes.mode,
            mtime: attributes.mtime,
            attributes: attributes.user.clone(),
        }
    }
}

/// Returns the name of a kind in fsspec.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
    }
}

/// Returns the kind with this name.
pub fn known(name: &str) -> &'static str {
    [Kind::Directory, Kind::Symlink].map(kind).into_iter().find(|&known| known == name).unwrap_or(kind(Kind::File))
}

/// Converts a report to dictionaries and lists, in the form that the command line prints with `--json`.
pub fn python<'py>(py: Python<'py>, report: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(report).map_err(|e| pyo3::exceptions::PyValueError::new_err(e.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}
