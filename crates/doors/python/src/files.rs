//! Objects as files, for the fsspec file system.

use std::ffi::OsString;

use engine::files::{FileError, FileResult, Owner, Stat as Known};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use rustix_futex_sync::RwLock;

use crate::bytes::{Source, Target};
use crate::failure::refused;
use crate::forked::OfStore;
use crate::key::{Key, shown};
use crate::object::{kind, known};
use crate::store::Store;
use crate::waiting::waited;

/// The number of names per request.
const NAMES_PER_PAGE: usize = 1000;

/// The files of a store.
#[pyclass(frozen, module = "terrace")]
pub struct Files(OfStore<engine::Files>);

/// An open file.
#[pyclass(frozen, module = "terrace")]
pub struct File(RwLock<Option<engine::files::File>>);

/// The attributes of a file. Times are nanoseconds since 1970.
#[pyclass(frozen, get_all, module = "terrace._terrace")]
pub struct Stat {
    id: Option<u64>,
    kind: &'static str,
    length: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    modified: i64,
    changed: i64,
}

/// The pickled state.
type State = (Option<u64>, String, u64, u32, u32, u32, i64, i64);

#[pymethods]
impl Stat {
    #[new]
    fn restored(state: State) -> Stat {
        let (id, kind, length, mode, uid, gid, modified, changed) = state;
        Stat { id, kind: known(&kind), length, mode, uid, gid, modified, changed }
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (State,)) {
        let Stat { id, kind, length, mode, uid, gid, modified, changed } = *self;
        (py.get_type::<Stat>(), ((id, kind.to_owned(), length, mode, uid, gid, modified, changed),))
    }
}

impl From<Known> for Stat {
    fn from(known: Known) -> Stat {
        let Known { id, length, mode, modified, changed, .. } = known;
        let Owner { uid, gid } = known.owner;
        Stat { id, kind: kind(known.kind), length, mode, uid, gid, modified, changed }
    }
}

impl Files {
    fn engine(&self, py: Python<'_>) -> PyResult<engine::Files> {
        self.0.get(py, |store| opened(py, store))
    }

    fn call<T: Send>(&self, py: Python<'_>, call: impl Send + FnOnce(&engine::Files) -> FileResult<T>) -> PyResult<T> {
        let files = self.engine(py)?;
        py.detach(|| call(&files)).map_err(refused)
    }
}

fn opened(py: Python<'_>, store: &Store) -> PyResult<engine::Files> {
    let (engine, application) = (store.engine(py)?, store.required());
    py.detach(|| engine::Files::with(&engine, application)).map_err(refused)
}

fn owner(files: &engine::Files) -> FileResult<Owner> {
    Ok(files.stat(b"")?.owner)
}

#[pymethods]
impl Files {
    #[new]
    fn new(py: Python<'_>, store: Bound<'_, Store>) -> PyResult<Files> {
        OfStore::new(store, |store| opened(py, store)).map(Files)
    }

    fn stat(&self, py: Python<'_>, path: Key) -> PyResult<Stat> {
        self.call(py, |files| files.stat(&path.0)).map(Stat::from)
    }

    /// Lists the names in a directory with their attributes.
    fn list(&self, py: Python<'_>, path: Key) -> PyResult<Vec<(OsString, Stat)>> {
        let found = self.call(py, |files| {
            let (mut from, mut found) = (Some(Vec::new()), Vec::new());
            while let Some(position) = from {
                let (entries, next) = files.list(&path.0, &position, NAMES_PER_PAGE)?;
                for entry in entries {
                    let below = if path.0.is_empty() { Vec::new() } else { [&path.0[..], b"/"].concat() };
                    match files.stat(&[below, entry.name.clone()].concat()) {
                        // Another process has removed it.
                        Err(FileError::NotFound(_)) => {}
                        stat => found.push((entry.name, stat?)),
                    }
                }
                from = next;
            }
            Ok(found)
        });
        Ok(found?.into_iter().map(|(name, stat)| (shown(name), stat.into())).collect())
    }

    fn make_directory(&self, py: Python<'_>, path: Key) -> PyResult<()> {
        self.call(py, |files| files.make_directory(&path.0, 0o755, owner(files)?))
    }

    fn remove(&self, py: Python<'_>, path: Key) -> PyResult<()> {
        self.call(py, |files| files.remove(&path.0))
    }

    fn remove_directory(&self, py: Python<'_>, path: Key) -> PyResult<()> {
        self.call(py, |files| files.remove_directory(&path.0))
    }

    /// Creates a file without a name. It is deleted when it is closed without one.
    fn create_unnamed(&self, py: Python<'_>) -> PyResult<File> {
        self.call(py, |files| files.create_unnamed(0o644, owner(files)?)).map(File::of)
    }

    /// Gives a name to an unnamed file.
    fn name(&self, py: Python<'_>, file: &File, path: Key, replace: bool) -> PyResult<()> {
        let files = self.engine(py)?;
        file.call(py, |file| files.name(file, &path.0, replace))
    }

    fn rename(&self, py: Python<'_>, path: Key, to: Key) -> PyResult<()> {
        self.call(py, |files| files.rename(&path.0, &to.0, true))
    }

    #[pyo3(signature = (path, writes=false))]
    fn open(&self, py: Python<'_>, path: Key, writes: bool) -> PyResult<File> {
        let open = |files: &engine::Files| {
            if writes {
                files.check_writable(&path.0)?;
            }
            files.open(&path.0)
        };
        self.call(py, open).map(File::of)
    }

    #[pyo3(signature = (path, exclusive=false))]
    fn create(&self, py: Python<'_>, path: Key, exclusive: bool) -> PyResult<File> {
        self.call(py, |files| files.create(&path.0, 0o644, owner(files)?, exclusive)).map(File::of)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        let files = self.engine(py)?;
        waited(py, move || files.sync())?.map_err(refused)
    }
}

impl File {
    fn of(file: engine::files::File) -> File {
        File(RwLock::new(Some(file)))
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl Send + FnOnce(&engine::files::File) -> FileResult<T>,
    ) -> PyResult<T> {
        py.detach(|| self.0.read().as_ref().map(call))
            .ok_or_else(|| PyValueError::new_err("the file is closed"))?
            .map_err(refused)
    }
}

#[pymethods]
impl File {
    fn stat(&self, py: Python<'_>) -> PyResult<Stat> {
        self.call(py, |file| file.stat()).map(Stat::from)
    }

    fn read_into(&self, py: Python<'_>, offset: u64, mut out: Target) -> PyResult<usize> {
        self.call(py, |file| file.read_at(offset, out.as_mut()))
    }

    /// Reads the bytes from `offset` to the end.
    fn read_rest<'py>(&self, py: Python<'py>, offset: u64) -> PyResult<Bound<'py, PyBytes>> {
        let length = self.call(py, |file| file.stat())?.length.saturating_sub(offset);
        let mut read = 0;
        let bytes = PyBytes::new_with(py, length as usize, |out| {
            read = self.call(py, |file| file.read_at(offset, out))?;
            Ok(())
        })?;
        // The file may have been truncated meanwhile.
        Ok(if read < length as usize { PyBytes::new(py, &bytes.as_bytes()[..read]) } else { bytes })
    }

    fn write_at(&self, py: Python<'_>, offset: u64, data: Source) -> PyResult<usize> {
        self.call(py, |file| file.write_at(offset, data.slice()).map(|()| data.slice().len()))
    }

    /// Appends bytes. Returns their position as far as it is known, because other writers may append before the bytes
    /// reach the store.
    fn append(&self, py: Python<'_>, data: Source) -> PyResult<u64> {
        self.call(py, |file| file.append(data.slice()))
    }

    fn set_length(&self, py: Python<'_>, length: u64) -> PyResult<()> {
        self.call(py, |file| file.set_len(length))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |file| file.flush())
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, |file| file.sync())
    }

    /// Writes buffered bytes, and closes the file in any case.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let file = self.0.write().take();
            file.map_or(Ok(()), |file| file.flush())
        })
        .map_err(refused)
    }
}
