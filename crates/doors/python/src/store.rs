//! Stores and their objects.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use datasets::Datasets;
use engine::sparse::{Dense, SparseReader};
use engine::{Ack, Attributes, Config, Error, PutOptions, Question, element_of};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rustix_futex_sync::RwLock;
use serde_json::json;

use crate::beside::get_file;
use crate::bytes::{Source, Target};
use crate::failure::{of_path, raised};
use crate::key::Key;
use crate::object::{Object, python};
use crate::options::{ack, options};
use crate::pipe::{self, MIN_PIPED_BYTES, Progress};
use crate::receipt::Receipt;
use crate::room;
use crate::waiting::waited;

/// Checks that an object is at or below a prefix, so that a mistyped one is reported.
pub fn check_has_objects(store: &engine::Store, prefix: &[u8]) -> engine::Result<()> {
    match prefix.is_empty() || !store.list(prefix, None, 1)?.is_empty() {
        true => Ok(()),
        false => Err(Error::NotFound { key: String::from_utf8_lossy(prefix).into_owned() }),
    }
}

/// Waits until a write has reached `ack`, in a thread of its own where that may take long.
fn wait_interruptibly(
    py: Python<'_>,
    store: engine::Store,
    mut receipt: engine::Receipt,
    ack: Ack,
) -> PyResult<engine::Receipt> {
    match ack {
        Ack::Placed => Ok(receipt),
        // All replicas are there; only the log's copies are not.
        Ack::Replicated if receipt.owed == 0 => {
            py.detach(|| store.wait(&mut receipt, ack)).map_err(raised)?;
            Ok(receipt)
        }
        _ => waited(py, move || store.wait(&mut receipt, ack).map(|()| receipt))?.map_err(raised),
    }
}

/// An open store. The requirements of opening apply to every call.
#[pyclass(frozen, subclass, module = "terrace")]
pub struct Store {
    dir: PathBuf,
    /// The store as its datasets have it, whose users share what is open.
    open: RwLock<Option<Datasets>>,
    application: PutOptions,
    keywords: Py<PyDict>,
}

/// A moment in the history of a store. While it is the present one, no object changes.
#[pyclass(frozen, eq, module = "terrace._terrace")]
#[derive(PartialEq)]
pub struct Moment(engine::catalog::Moment);

impl Store {
    /// Returns the engine's store; opens it again in a forked process.
    pub fn engine(&self, py: Python<'_>) -> PyResult<engine::Store> {
        self.datasets(py).map(|datasets| datasets.store().clone())
    }

    /// Returns the store's datasets; opens the store again in a forked process.
    pub fn datasets(&self, py: Python<'_>) -> PyResult<Datasets> {
        let known = self.open.read().clone();
        match known {
            None => Err(PyValueError::new_err("the store is closed; open it again")),
            Some(known) if known.store().catalog().inherited() => {
                let opened = Datasets::new(&py.detach(|| engine::Store::open(&self.dir)).map_err(raised)?);
                *self.open.write() = Some(opened.clone());
                Ok(opened)
            }
            Some(known) => Ok(known),
        }
    }

    /// Returns the application's requirements.
    pub fn required(&self) -> PutOptions {
        self.application.clone()
    }

    fn asked(&self, key: &Key, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<PutOptions> {
        let asked = options(keywords)?.over(&self.application);
        Ok(PutOptions { element: asked.element.or_else(|| element_of(&key.0)), ..asked })
    }
}

#[pymethods]
impl Store {
    #[new]
    #[pyo3(signature = (directory, **application))]
    fn new(py: Python<'_>, directory: PathBuf, application: Option<&Bound<'_, PyDict>>) -> PyResult<Store> {
        let keywords = application.map_or_else(|| Ok(PyDict::new(py)), |given| given.copy())?.unbind();
        let application = options(application)?;
        let store = py.detach(|| engine::Store::open(&directory)).map_err(raised)?;
        Ok(Store { dir: store.dir().to_owned(), open: RwLock::new(Some(Datasets::new(&store))), application, keywords })
    }

    #[staticmethod]
    #[pyo3(signature = (directory, config=None))]
    fn init(py: Python<'_>, directory: PathBuf, config: Option<PathBuf>) -> PyResult<()> {
        py.detach(|| {
            engine::Store::check_place(&directory).map_err(raised)?;
            let config = match config {
                Some(file) => {
                    Config::parse(&fs::read_to_string(&file).map_err(of_path(&file))?, &file.display().to_string())
                }
                None => Ok(Config::discover(&directory).map_err(of_path(&directory))?.0),
            };
            let store = config.and_then(|config| engine::Store::init(&directory, &config));
            store.and_then(engine::Store::close).map_err(raised)
        })
    }

    /// Returns the number of bytes that are planned at a time.
    #[getter]
    fn block(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.engine(py)?.config().store.block.0)
    }

    #[getter]
    fn directory(&self) -> &Path {
        &self.dir
    }

    /// Returns the keywords of opening.
    #[getter]
    fn application<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.keywords.bind(py).copy()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let open = self.open.write().take();
        open.map_or(Ok(()), |datasets| waited(py, move || datasets.store().clone().close())?.map_err(raised))
    }

    #[pyo3(signature = (key, data, *, attributes=None, progress=None, **keywords))]
    fn put(
        &self,
        py: Python<'_>,
        key: Key,
        data: Source,
        attributes: Option<BTreeMap<String, String>>,
        progress: Option<Py<PyAny>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Receipt> {
        let (store, mut options) = (self.engine(py)?, self.asked(&key, keywords)?);
        options.attributes = attributes.map(|user| Attributes { user, ..Attributes::now() });
        let length = data.slice().len() as u64;
        if length < MIN_PIPED_BYTES && progress.is_none() {
            let put = py.detach(|| store.put_bytes_at_once(&key.0, data.slice(), &options));
            let (receipt, ack) = put.map_err(raised)?;
            return wait_interruptibly(py, store, receipt, ack).map(Receipt::new);
        }
        let progress = Progress::new(progress.map(|tell| tell.into_bound(py)), length);
        pipe::put(py, &store, &key.0, Dense(data.slice()), progress, &options).map(Receipt::new)
    }

    #[pyo3(signature = (path, key, *, progress=None, **keywords))]
    fn put_file(
        &self,
        py: Python<'_>,
        path: PathBuf,
        key: Key,
        progress: Option<Py<PyAny>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Receipt> {
        let (store, mut options) = (self.engine(py)?, self.asked(&key, keywords)?);
        let file = File::open(&path).map_err(of_path(&path))?;
        let metadata = file.metadata().map_err(of_path(&path))?;
        if metadata.is_dir() {
            // Fails with the right error.
            (&file).read(&mut [0]).map_err(of_path(&path))?;
        }
        options.attributes = Some(Attributes::of(&metadata));
        let progress = Progress::new(progress.map(|tell| tell.into_bound(py)), metadata.len());
        // Some system files report a length of 0 although they are not empty.
        let end = if metadata.len() == 0 { u64::MAX } else { metadata.len() };
        match metadata.is_file() {
            true => pipe::put(py, &store, &key.0, SparseReader::new(file, end), progress, &options),
            false => pipe::put(py, &store, &key.0, Dense(file), progress, &options),
        }
        .map(Receipt::new)
    }

    #[pyo3(signature = (key, path, *, progress=None))]
    fn get_file(&self, py: Python<'_>, key: Key, path: PathBuf, progress: Option<Py<PyAny>>) -> PyResult<u64> {
        get_file(py, &self.engine(py)?, &key.0, &path, progress.map(|tell| tell.into_bound(py)))
    }

    #[pyo3(signature = (key, offset, data, **keywords))]
    fn write_at(
        &self,
        py: Python<'_>,
        key: Key,
        offset: u64,
        data: Source,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Receipt> {
        let (store, options) = (self.engine(py)?, self.asked(&key, keywords)?);
        let written = py.detach(|| store.write_at(&key.0, offset, data.slice(), &options));
        written.map(Receipt::new).map_err(raised)
    }

    #[pyo3(signature = (key, data, **keywords))]
    fn append(
        &self,
        py: Python<'_>,
        key: Key,
        data: Source,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<(u64, Receipt)> {
        let (store, options) = (self.engine(py)?, self.asked(&key, keywords)?);
        let appended = py.detach(|| store.append(&key.0, data.slice(), &options)).map_err(raised)?;
        Ok((appended.offset, Receipt::new(appended.receipt)))
    }

    fn set_length(&self, py: Python<'_>, key: Key, length: u64) -> PyResult<()> {
        let store = self.engine(py)?;
        py.detach(|| store.set_length(&key.0, length)).map_err(raised)
    }

    #[pyo3(signature = (key, start=0, end=None))]
    fn read<'py>(&self, py: Python<'py>, key: Key, start: u64, end: Option<u64>) -> PyResult<Bound<'py, PyBytes>> {
        room::bytes(py, &self.engine(py)?, &key.0, start, end)
    }

    fn get<'py>(&self, py: Python<'py>, key: Key) -> PyResult<Bound<'py, PyBytes>> {
        room::bytes(py, &self.engine(py)?, &key.0, 0, None)
    }

    #[pyo3(signature = (key, out, offset=0))]
    fn read_into(&self, py: Python<'_>, key: Key, mut out: Target, offset: u64) -> PyResult<usize> {
        room::fill(py, &self.engine(py)?, &key.0, offset, out.as_mut())
    }

    #[pyo3(signature = (keys, whole, offset, length))]
    fn read_joined<'py>(
        &self,
        py: Python<'py>,
        keys: Vec<Key>,
        whole: u64,
        offset: u64,
        length: usize,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        room::read_joined(py, &self.engine(py)?, &keys, whole, offset, length)
    }

    fn get_made<'py>(&self, py: Python<'py>, key: Key, make: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        room::get_made(py, &self.engine(py)?, &key.0, make)
    }

    fn stat(&self, py: Python<'_>, key: Key) -> PyResult<Object> {
        let store = self.engine(py)?;
        let object = py.detach(|| store.stat(&key.0)).map_err(raised)?;
        Ok(Object::of(&key.0, &object))
    }

    /// Returns an object's attributes; `None` if no object has the key.
    fn find(&self, py: Python<'_>, key: Key) -> PyResult<Option<Object>> {
        let store = self.engine(py)?;
        match py.detach(|| store.stat(&key.0)) {
            Err(Error::NotFound { .. }) => Ok(None),
            found => Ok(Some(Object::of(&key.0, &found.map_err(raised)?))),
        }
    }

    /// Returns the present moment; `None` where several nodes share the store, whose changes arrive here later.
    fn moment(&self, py: Python<'_>) -> PyResult<Option<Moment>> {
        let store = self.engine(py)?;
        if store.is_shared() {
            return Ok(None);
        }
        Ok(Some(Moment(store.catalog().moment().map_err(Error::from).map_err(raised)?)))
    }

    /// Returns up to `limit` objects at or below `prefix`, after the key `after`.
    fn page(&self, py: Python<'_>, prefix: Key, after: Option<Key>, limit: usize) -> PyResult<Vec<Object>> {
        let store = self.engine(py)?;
        let found = py.detach(|| store.list(&prefix.0, after.as_ref().map(|key| key.0.as_slice()), limit));
        Ok(found.map_err(raised)?.iter().map(|(key, object)| Object::of(key, object)).collect())
    }

    fn set_attributes(&self, py: Python<'_>, key: Key, attributes: BTreeMap<String, String>) -> PyResult<()> {
        let store = self.engine(py)?;
        py.detach(|| {
            let known = store.stat(&key.0)?.attributes;
            store.set_attributes(&key.0, Attributes { user: attributes, ..known })
        })
        .map_err(raised)
    }

    fn delete(&self, py: Python<'_>, key: Key) -> PyResult<()> {
        let store = self.engine(py)?;
        py.detach(|| store.remove(&key.0)).map_err(raised)
    }

    fn rename(&self, py: Python<'_>, key: Key, to: Key) -> PyResult<()> {
        let store = self.engine(py)?;
        py.detach(|| store.rename(&key.0, &to.0)).map_err(raised)
    }

    fn copy(&self, py: Python<'_>, key: Key, to: Key) -> PyResult<()> {
        let store = self.engine(py)?;
        py.detach(|| store.copy(&key.0, &to.0)).map_err(raised)
    }

    fn wait(&self, py: Python<'_>, receipt: &Receipt, level: &str) -> PyResult<()> {
        let known = wait_interruptibly(py, self.engine(py)?, receipt.now(), ack(level)?)?;
        receipt.set(known);
        Ok(())
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let store = self.engine(py)?;
        waited(py, move || store.sync())?.map_err(raised)
    }

    /// Fetches up to `limit` bytes of what origins have at or below a prefix, and copies all of it to a tier.
    #[pyo3(signature = (prefix, tier, limit=None))]
    fn stage<'py>(
        &self,
        py: Python<'py>,
        prefix: Key,
        tier: String,
        limit: Option<u64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let store = self.engine(py)?;
        let moved = waited(py, move || {
            check_has_objects(&store, &prefix.0)?;
            store.fetch_origins(&prefix.0, limit.unwrap_or(u64::MAX), &mut |_| ())?;
            store.stage(&prefix.0, &tier)
        })?;
        python(py, &moved.map_err(raised)?)
    }

    fn evict<'py>(&self, py: Python<'py>, prefix: Key, tier: String) -> PyResult<Bound<'py, PyAny>> {
        let store = self.engine(py)?;
        python(
            py,
            &waited(py, move || check_has_objects(&store, &prefix.0).and_then(|()| store.evict(&prefix.0, &tier)))?
                .map_err(raised)?,
        )
    }

    fn locate<'py>(&self, py: Python<'py>, key: Key) -> PyResult<Bound<'py, PyAny>> {
        let store = self.engine(py)?;
        python(py, &py.detach(|| store.locate(&key.0)).map_err(raised)?)
    }

    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let store = self.engine(py)?;
        python(py, &py.detach(|| store.status()).map_err(raised)?)
    }

    /// Returns how safe the data is, datasets included.
    fn health<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let datasets = self.datasets(py)?;
        let health = py.detach(|| {
            let mut health = datasets.store().health()?;
            health.add(datasets.findings());
            Ok::<_, engine::Error>(health)
        });
        python(py, &health.map_err(raised)?)
    }

    /// Explains how the store would place a block of bytes under a key: as a dictionary and as text.
    #[pyo3(signature = (key, data, what_if=Vec::new(), **keywords))]
    fn plan<'py>(
        &self,
        py: Python<'py>,
        key: Key,
        data: Source,
        what_if: Vec<String>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<(Bound<'py, PyAny>, String)> {
        let (store, options) = (self.engine(py)?, self.asked(&key, keywords)?);
        let supposed = what_if.iter().map(|text| text.parse()).collect::<Result<Vec<_>, String>>();
        let what_if = &supposed.map_err(PyValueError::new_err)?;
        let question = Question { key: &key.0, block: data.slice(), options: &options, what_if };
        let explained = py.detach(|| store.explain(&question)).map_err(raised)?;
        let of = &explained.explanation;
        let verdicts = of.replicas.iter().map(|replica| {
            replica.weighed.iter().map(|weighed| (weighed.encoding.to_string(), weighed.verdict.to_string())).collect()
        });
        let verdicts: Vec<Vec<(String, String)>> = verdicts.collect();
        Ok((python(py, &json!({"of": explained, "verdicts": verdicts}))?, of.to_string()))
    }
}
