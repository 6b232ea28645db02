//! Receipts of writes.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use engine::OwedTo;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::key::shown;

/// The state that a write has reached; `Store.wait` updates it.
#[pyclass(frozen, module = "terrace")]
pub struct Receipt(Mutex<engine::Receipt>);

impl Receipt {
    /// Wraps the engine's receipt.
    pub fn new(receipt: engine::Receipt) -> Receipt {
        Receipt(Mutex::new(receipt))
    }

    /// Returns the engine's receipt in its present state.
    pub fn now(&self) -> engine::Receipt {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the engine's receipt.
    pub fn set(&self, receipt: engine::Receipt) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = receipt;
    }
}

/// The pickled state: the write, and the state that it has reached.
type State = ((Vec<u8>, u64, u64, u8, u8, u8, (u64, u64)), (u8, bool, u64, Vec<(String, String, u64)>, u64, u64, bool));

#[pymethods]
impl Receipt {
    #[new]
    fn restored(state: State) -> Receipt {
        let (key, object, generation, want, asked, possible, (start, end)) = state.0;
        let (have, durable, owed, owed_to, bytes, stored, is_slow) = state.1;
        let owed_to = owed_to.into_iter().map(|(tier, target, replicas)| OwedTo { tier, target, replicas }).collect();
        Receipt::new(engine::Receipt {
            key,
            object,
            generation,
            want,
            asked,
            possible,
            memory_left_out: false,
            range: start..end,
            have,
            durable,
            owed,
            owed_to,
            bytes,
            stored,
            is_slow,
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (State,)) {
        let now = self.now();
        let owed_to = now.owed_to.into_iter().map(|to| (to.tier, to.target, to.replicas)).collect();
        let written =
            (now.key, now.object, now.generation, now.want, now.asked, now.possible, (now.range.start, now.range.end));
        let reached = (now.have, now.durable, now.owed, owed_to, now.bytes, now.stored, now.is_slow);
        (py.get_type::<Receipt>(), ((written, reached),))
    }

    #[getter]
    fn key(&self) -> OsString {
        shown(self.now().key)
    }

    #[getter]
    fn object(&self) -> u64 {
        self.now().object
    }

    #[getter]
    fn generation(&self) -> u64 {
        self.now().generation
    }

    #[getter]
    fn want(&self) -> u8 {
        self.now().want
    }

    #[getter]
    fn asked(&self) -> u8 {
        self.now().asked
    }

    #[getter]
    fn have(&self) -> u8 {
        self.now().have
    }

    #[getter]
    fn durable(&self) -> bool {
        self.now().durable
    }

    #[getter]
    fn owed(&self) -> u64 {
        self.now().owed
    }

    /// For each target with pending replicas: its tier, its path, and their number.
    #[getter]
    fn owed_to(&self) -> Vec<(String, String, u64)> {
        self.now().owed_to.into_iter().map(|to| (to.tier, to.target, to.replicas)).collect()
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.now().bytes
    }

    #[getter]
    fn stored(&self) -> u64 {
        self.now().stored
    }

    fn __repr__(&self) -> String {
        let of = self.now();
        let durable = if of.durable { ", durable" } else { "" };
        let key = shown(of.key);
        format!(
            "<Receipt {key:?}: {} bytes, {} of {} replicas, {} pending{durable}>",
            of.bytes, of.have, of.want, of.owed
        )
    }
}
