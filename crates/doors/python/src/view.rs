//! Views of datasets.

use std::path::PathBuf;
use std::sync::Arc;

use datasets::Format;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};
use terrace_views::layout::{Described, Element};
use terrace_views::model::Primitive;

use crate::attribute;
use crate::bytes::{Source, Target};
use crate::failure::raised_by_dataset;
use crate::forked::OfStore;
use crate::object::python;
use crate::store::Store;
use crate::waiting::waited;

/// An open view.
#[pyclass(frozen, subclass, module = "terrace")]
pub struct View {
    dataset: String,
    name: String,
    open: OfStore<Arc<datasets::View>>,
}

impl View {
    fn engine(&self, py: Python<'_>) -> PyResult<Arc<datasets::View>> {
        self.open.get(py, |store| opened(py, store, &self.dataset, &self.name))
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl Send + FnOnce(&datasets::View) -> datasets::Result<T>,
    ) -> PyResult<T> {
        let view = self.engine(py)?;
        py.detach(|| call(&view)).map_err(raised_by_dataset)
    }
}

fn opened(py: Python<'_>, store: &Store, dataset: &str, view: &str) -> PyResult<Arc<datasets::View>> {
    let datasets = store.datasets(py)?;
    py.detach(|| datasets.open(dataset)?.view(view).map(Arc::new)).map_err(raised_by_dataset)
}

#[pymethods]
impl View {
    #[new]
    fn new(py: Python<'_>, store: Bound<'_, Store>, dataset: String, name: String) -> PyResult<View> {
        let open = OfStore::new(store, |store| opened(py, store, &dataset, &name))?;
        Ok(View { dataset, name, open })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Returns the length in bytes.
    #[getter]
    fn length(&self, py: Python<'_>) -> PyResult<u64> {
        self.call(py, datasets::View::length)
    }

    #[getter]
    fn read_only(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, datasets::View::is_read_only)
    }

    /// Returns the variables as arrays: name, offset, lengths, the names of the dimensions, the type of the elements in NumPy's terms,
    /// the bytes of an element that was never written, and the attributes.
    fn describe<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let described = self.call(py, datasets::View::describe)?;
        let variable = |of: &Described| {
            let dtype = dtype(&of.element);
            json!({"name": of.name, "offset": of.offset, "shape": of.lengths, "dims": of.dimensions, "dtype": dtype})
        };
        let Some(described) = described else { return Ok(py.None().into_bound(py)) };
        let all = python(py, &described.iter().map(variable).collect::<Vec<_>>())?;
        for (made, of) in all.try_iter()?.zip(&described) {
            let made = made?;
            made.set_item("fill", of.fill.as_ref().map(|fill| PyBytes::new(py, fill)))?;
            made.set_item("attributes", attribute::of_variable(py, of)?)?;
        }
        Ok(all)
    }

    /// Fills a buffer from byte `offset` on. Returns the number of bytes read.
    fn read_into(&self, py: Python<'_>, offset: u64, mut out: Target) -> PyResult<usize> {
        self.call(py, |view| view.read_at(offset, out.as_mut()))
    }

    fn write_at(&self, py: Python<'_>, offset: u64, data: Source) -> PyResult<()> {
        self.call(py, |view| view.write_at(offset, data.slice()))
    }

    /// Exports the view to a new file or folder.
    fn export(&self, py: Python<'_>, format: &str, path: PathBuf) -> PyResult<()> {
        let format = match format {
            "hdf5" => Format::Hdf5,
            "zarr" => Format::Zarr,
            "references" => Format::References,
            _ => return Err(PyValueError::new_err(format!("{format:?} is none of hdf5, zarr, references"))),
        };
        let view = self.engine(py)?;
        waited(py, move || view.export(format, &path))?.map_err(raised_by_dataset)
    }

    /// Updates the replicas that wait for a view to be closed.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, datasets::View::close)
    }
}

/// Describes the type of an element in NumPy's terms: a name, a base type with a shape, or fields.
fn dtype(element: &Element) -> Value {
    match element {
        Element::Primitive(Primitive::String(most), big) => {
            let formats = [Primitive::Int16.numpy_name(*big), format!("|S{most}")];
            let size = Primitive::String(*most).size();
            json!({"names": ["length", "text"], "formats": formats, "offsets": [0, 2], "itemsize": size})
        }
        Element::Primitive(primitive, big) => json!(primitive.numpy_name(*big)),
        Element::Array(lengths, element) => json!([dtype(element), lengths]),
        Element::Struct(members, size) => {
            let names: Vec<_> = members.iter().map(|(name, ..)| name).collect();
            let offsets: Vec<_> = members.iter().map(|(_, offset, _)| offset).collect();
            let formats: Vec<_> = members.iter().map(|(.., element)| dtype(element)).collect();
            json!({"names": names, "formats": formats, "offsets": offsets, "itemsize": size})
        }
    }
}
