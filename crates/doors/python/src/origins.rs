//! Origins of a store: files that lie elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::failure::raised;
use crate::key::Key;
use crate::object::python;
use crate::options::seconds;
use crate::store::{Store, check_has_objects};
use crate::waiting::waited;

/// The origins of a store.
#[pyclass(frozen, module = "terrace._terrace")]
pub struct Origins(Py<Store>);

#[pymethods]
impl Origins {
    #[new]
    fn new(store: Py<Store>) -> Origins {
        Origins(store)
    }

    fn add(
        &self,
        py: Python<'_>,
        prefix: String,
        place: PathBuf,
        options: BTreeMap<String, String>,
        max_age: Option<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let max_age = max_age.map(|given| seconds(&given)).transpose()?.map(Duration::try_from_secs_f64);
        let max_age = max_age.transpose().map_err(|error| PyValueError::new_err(format!("max_age: {error}")))?;
        let place =
            place.into_os_string().into_string().map_err(|_| PyValueError::new_err("the place is not UTF-8"))?;
        let store = self.0.get().engine(py)?;
        waited(py, move || store.add_origin(&prefix, &place, options, max_age))?.map_err(raised)
    }

    fn list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.0.get().engine(py)?;
        python(py, &py.detach(|| store.origins()).map_err(raised)?)
    }

    fn remove<'py>(&self, py: Python<'py>, prefix: String) -> PyResult<Bound<'py, PyAny>> {
        let store = self.0.get().engine(py)?;
        python(py, &waited(py, move || store.remove_origin(&prefix))?.map_err(raised)?)
    }

    /// Fetches up to `limit` bytes of files at or below a prefix. `progress` is called in another thread with the bytes
    /// fetched so far; its first exception is raised at the end.
    #[pyo3(signature = (prefix, limit=None, progress=None))]
    fn fetch<'py>(
        &self,
        py: Python<'py>,
        prefix: Key,
        limit: Option<u64>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let store = self.0.get().engine(py)?;
        let fetched = waited(py, move || {
            check_has_objects(&store, &prefix.0).map_err(raised)?;
            let mut told = Ok(());
            let fetched = store.fetch_origins(&prefix.0, limit.unwrap_or(u64::MAX), &mut |done| {
                if let (Some(tell), Ok(())) = (&progress, &told) {
                    told = Python::attach(|py| tell.call1(py, (done.fetched,)).map(drop));
                }
            });
            fetched.map_err(raised).and_then(|fetched| told.map(|()| fetched))
        })?;
        python(py, &fetched?)
    }
}
