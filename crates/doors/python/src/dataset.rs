//! Datasets: bytes that are stored in several layouts, and read and written in any of them.

use std::path::PathBuf;

use datasets::{Datasets, Declared};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use serde_json::json;
use terrace_views::import::{self, Format};

use crate::attribute;
use crate::failure::{raised_by_dataset, raised_by_import};
use crate::forked::OfStore;
use crate::object::python;
use crate::store::Store;
use crate::waiting::waited;

/// A file's format, a declaration with a replica, the variables with their paths in the file, and what is left out.
type Described = (&'static str, String, Vec<(String, String)>, Vec<String>);

/// An open dataset.
#[pyclass(frozen, subclass, module = "terrace")]
pub struct Dataset {
    name: String,
    open: OfStore<datasets::Dataset>,
}

impl Dataset {
    fn engine(&self, py: Python<'_>) -> PyResult<datasets::Dataset> {
        self.open.get(py, |store| opened(py, store, &self.name))
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl Send + FnOnce(&datasets::Dataset) -> datasets::Result<T>,
    ) -> PyResult<T> {
        let dataset = self.engine(py)?;
        py.detach(|| call(&dataset)).map_err(raised_by_dataset)
    }
}

fn opened(py: Python<'_>, store: &Store, name: &str) -> PyResult<datasets::Dataset> {
    of_all(py, store, |datasets| datasets.open(name))
}

fn of_all<T: Send>(
    py: Python<'_>,
    store: &Store,
    call: impl Send + FnOnce(&Datasets) -> datasets::Result<T>,
) -> PyResult<T> {
    let datasets = store.datasets(py)?;
    py.detach(|| call(&datasets)).map_err(raised_by_dataset)
}

#[pymethods]
impl Dataset {
    #[new]
    fn new(py: Python<'_>, store: Bound<'_, Store>, name: String) -> PyResult<Dataset> {
        let open = OfStore::new(store, |store| opened(py, store, &name))?;
        Ok(Dataset { name, open })
    }

    /// Adds a dataset, filled with its fill values.
    #[staticmethod]
    fn add(py: Python<'_>, store: &Store, name: &str, declaration: &str) -> PyResult<()> {
        of_all(py, store, |datasets| datasets.add(name, declaration).map(drop))
    }

    /// Describes a file in another format, for `import_dataset` in Python.
    #[staticmethod]
    fn describe_file(py: Python<'_>, path: PathBuf) -> PyResult<Described> {
        let described = || {
            let imported = import::import(&path, None, 1)?;
            let format = match imported.format {
                Format::Numpy => "numpy",
                Format::Zarr => "zarr",
                Format::C => "c",
                Format::Netcdf => "netcdf",
                Format::Hdf5 => "hdf5",
            };
            Ok((format, imported.stored()?, imported.sources, imported.left_out))
        };
        py.detach(described).map_err(|error| raised_by_import(&path, error))
    }

    /// Returns the names of all datasets.
    #[staticmethod]
    fn list(py: Python<'_>, store: &Store) -> PyResult<Vec<String>> {
        of_all(py, store, Datasets::list)
    }

    /// Removes a dataset with all its replicas.
    #[staticmethod]
    fn remove(py: Python<'_>, store: &Store, name: &str) -> PyResult<()> {
        of_all(py, store, |datasets| datasets.remove(name))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn declaration(&self, py: Python<'_>) -> PyResult<String> {
        self.call(py, datasets::Dataset::declaration)
    }

    /// Returns the names of the views.
    #[getter]
    fn views(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.call(py, datasets::Dataset::views)
    }

    /// Returns, for each replica, its name, the keys of its files, and whether it lacks bytes.
    #[getter]
    fn replicas(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<String>, bool)>> {
        self.call(py, datasets::Dataset::replicas)
    }

    /// Returns when a replica last changed, in nanoseconds since 1970.
    #[getter]
    fn modified(&self, py: Python<'_>) -> PyResult<i64> {
        self.call(py, datasets::Dataset::modified)
    }

    /// Returns the attributes of the dataset.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyTuple>)>> {
        attribute::described(py, &self.call(py, datasets::Dataset::attributes)?)
    }

    fn explain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python(py, &self.call(py, datasets::Dataset::explain)?)
    }

    /// Replaces the attributes, views and replicas.
    fn edit(&self, py: Python<'_>, declaration: &str) -> PyResult<()> {
        let declared = Declared::parse(declaration).map_err(raised_by_dataset)?;
        let dataset = self.engine(py)?;
        waited(py, move || dataset.change(&declared))?.map_err(raised_by_dataset)
    }

    /// Brings all replicas up to date.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let dataset = self.engine(py)?;
        waited(py, move || dataset.settle())?.map_err(raised_by_dataset)
    }

    /// Rebuilds damaged and missing bytes of replicas from other replicas.
    #[pyo3(signature = (accept_loss=false))]
    fn repair<'py>(&self, py: Python<'py>, accept_loss: bool) -> PyResult<Bound<'py, PyAny>> {
        let dataset = self.engine(py)?;
        let found = waited(py, move || dataset.repair(accept_loss))?.map_err(raised_by_dataset)?;
        python(py, &json!({"files": found.files, "gone": found.gone, "bad": found.bad, "lost": found.lost}))
    }
}
