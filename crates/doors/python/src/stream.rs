//! Streams: requests that are delivered to files, exactly once.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use stream::destinations::Files;
use stream::{Accepted, Control, Framed, Origin, Request, Settings};

use crate::bytes::Source;
use crate::failure::raised_by_stream;
use crate::forked::OfStore;
use crate::key::Key;
use crate::object::python;
use crate::options::ack;
use crate::store::Store;
use crate::waiting::waited;

/// An open stream.
#[pyclass(frozen, subclass, module = "terrace")]
pub struct Stream {
    name: String,
    level: engine::Ack,
    open: OfStore<stream::Stream>,
}

impl Stream {
    fn engine(&self, py: Python<'_>) -> PyResult<stream::Stream> {
        self.open.get(py, |store| opened(py, store, &self.name, self.level))
    }

    fn call<T: Send>(
        &self,
        py: Python<'_>,
        call: impl Send + FnOnce(&stream::Stream) -> stream::Result<T>,
    ) -> PyResult<T> {
        let stream = self.engine(py)?;
        py.detach(|| call(&stream)).map_err(raised_by_stream)
    }
}

fn opened(py: Python<'_>, store: &Store, name: &str, level: engine::Ack) -> PyResult<stream::Stream> {
    let engine = store.engine(py)?;
    py.detach(|| stream::Stream::open(&engine, name, level)).map_err(raised_by_stream)
}

#[pymethods]
impl Stream {
    #[new]
    fn new(py: Python<'_>, store: Bound<'_, Store>, name: String, level: &str) -> PyResult<Stream> {
        let level = ack(level)?;
        let open = OfStore::new(store, |store| opened(py, store, &name, level))?;
        Ok(Stream { name, level, open })
    }

    /// Returns the names of all streams.
    #[staticmethod]
    fn list(py: Python<'_>, store: &Store) -> PyResult<Vec<String>> {
        let engine = store.engine(py)?;
        py.detach(|| stream::Stream::list(&engine)).map_err(raised_by_stream)
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Appends all or none of the requests: destination, offset (`None` appends), bytes. With a producer, they are its
    /// requests from number `sequence` on. Returns the number of those that are new.
    #[pyo3(signature = (requests, producer=None, sequence=1))]
    fn append(
        &self,
        py: Python<'_>,
        requests: Vec<(Key, Option<u64>, Source)>,
        producer: Option<Key>,
        sequence: u64,
    ) -> PyResult<usize> {
        let framed = (sequence..).zip(&requests).map(|(sequence, (destination, offset, bytes))| {
            let bytes = bytes.slice().to_vec();
            let request = match offset {
                Some(offset) => Request::at(&destination.0, *offset, bytes),
                None => Request::append(&destination.0, bytes),
            };
            let origin = producer.as_ref().map(|producer| Origin { producer: producer.0.as_slice().into(), sequence });
            Framed { request, origin }
        });
        let framed = framed.collect();
        let accepted = self.call(py, |stream| stream.append_framed(framed))?;
        Ok(accepted.iter().filter(|accepted| **accepted == Accepted::New).count())
    }

    /// Returns the number of the producer's next request.
    fn next_of(&self, py: Python<'_>, producer: Key) -> PyResult<u64> {
        self.call(py, |stream| stream.producer(&producer.0).map(|producer| producer.next()))
    }

    /// Returns the number of requests that are not delivered, of their bytes, and the age of the oldest in seconds.
    fn count_backlog(&self, py: Python<'_>) -> PyResult<(u64, u64, Option<f64>)> {
        let backlog = self.call(py, stream::Stream::backlog)?;
        Ok((backlog.requests, backlog.bytes, backlog.age.map(|age| age.as_secs_f64())))
    }

    /// Returns the deliveries of all runs.
    fn done<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        python(py, &self.call(py, stream::Stream::done)?)
    }

    #[getter]
    fn is_running(&self, py: Python<'_>) -> PyResult<bool> {
        self.call(py, stream::Stream::is_running)
    }

    /// Delivers the requests of the stream to files in a directory. Returns the number of those delivered.
    fn deliver(&self, py: Python<'_>, directory: PathBuf) -> PyResult<u64> {
        let (stream, control) = (self.engine(py)?, Arc::new(Control::default()));
        control.drain();
        let run = {
            let control = control.clone();
            move || -> stream::Result<u64> {
                let files = Arc::new(Files::new(&directory)?);
                stream.run(files, &control)?.with_log().go(&Settings::default())?;
                Ok(control.requests_done())
            }
        };
        let delivered = waited(py, run);
        if delivered.is_err() {
            // The caller is interrupted: the delivery ends after the writes in progress.
            control.stop();
        }
        delivered?.map_err(raised_by_stream)
    }
}
