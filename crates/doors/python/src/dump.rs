//! Dumps of one process, which is the only rank.

use std::collections::BTreeMap;

use dump::transport::World;
use dump::transport::threads::{ThreadWorld, Threads};
use dump::{Options, Wanted, gc};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Source;
use crate::failure::raised_by_dump;
use crate::store::Store;

/// The dumps in a store.
#[pyclass(frozen, subclass, module = "terrace")]
pub struct Dumps(Py<Store>);

/// The restored buffers of each rank.
type Restored<'py> = BTreeMap<u32, Vec<Bound<'py, PyBytes>>>;

/// Runs a collective call as the only rank.
fn alone<T: Send>(work: impl Fn(&dyn World) -> dump::Result<T> + Sync) -> Option<dump::Result<T>> {
    Threads::on(&[0]).run(|world: &ThreadWorld| work(world)).pop()
}

impl Dumps {
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl Send + FnOnce(&engine::Store) -> Option<dump::Result<T>>,
    ) -> PyResult<T> {
        let store = self.0.get().engine(py)?;
        let done = py.detach(|| call(&store));
        done.ok_or_else(|| PyRuntimeError::new_err("the rank has ended before its time"))?.map_err(raised_by_dump)
    }
}

#[pymethods]
impl Dumps {
    #[new]
    fn new(store: Py<Store>) -> Dumps {
        Dumps(store)
    }

    /// Returns the complete versions of each dump, oldest first.
    fn list(&self, py: Python<'_>) -> PyResult<BTreeMap<String, Vec<u32>>> {
        self.call(py, |store| {
            let versions = |name: String| gc::versions(store, &name).map(|versions| (name, versions));
            Some(gc::dumps(store).and_then(|names| names.into_iter().map(versions).collect()))
        })
    }

    /// Dumps buffers. Returns the version.
    fn make(&self, py: Python<'_>, name: &str, buffers: Vec<Source>) -> PyResult<u32> {
        let slices: Vec<&[u8]> = buffers.iter().map(Source::slice).collect();
        let options = Options { replicas: 1, ..Options::default() };
        self.call(py, |store| alone(|world| dump::dump(world, store, name, &slices, &options)))
            .map(|dumped| dumped.version)
    }

    /// Restores the buffers of each rank. Returns the version with them.
    #[pyo3(signature = (name, version=None))]
    fn restore<'py>(&self, py: Python<'py>, name: &str, version: Option<u32>) -> PyResult<(u32, Restored<'py>)> {
        let window = Options::default().window;
        let restored = self.call(py, |store| {
            alone(|world| {
                let restored = dump::restore_whole(world, store, name, version, Wanted::Dealt, window, None)?;
                Ok((restored.version, restored.whole()?))
            })
        })?;
        let bytes = |buffers: Vec<Vec<u8>>| buffers.iter().map(|buffer| PyBytes::new(py, buffer)).collect();
        Ok((restored.0, restored.1.into_iter().map(|(rank, buffers)| (rank, bytes(buffers))).collect()))
    }

    /// Drops all but the newest versions of a dump. Returns those dropped.
    fn keep(&self, py: Python<'_>, name: &str, newest: usize) -> PyResult<Vec<u32>> {
        self.call(py, |store| Some(gc::collect(store, name, newest))).map(|dropped| dropped.versions)
    }
}
