//! What a write has reached.

use std::ffi::OsString;
use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::key::shown;

/// What a write has reached; `Store.wait` brings it up to date.
#[pyclass(frozen, module = "terrace")]
pub struct Receipt(Mutex<engine::Receipt>);

impl Receipt {
    /// Of the engine's.
    pub fn new(receipt: engine::Receipt) -> Receipt {
        Receipt(Mutex::new(receipt))
    }

    /// The engine's, as it is now.
    pub fn now(&self) -> engine::Receipt {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it.
    pub fn set(&self, receipt: engine::Receipt) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = receipt;
    }
}

#[pymethods]
impl Receipt {
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

    /// Tier, target and number of replicas.
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
        format!("<Receipt {key:?}: {} bytes, {} of {} replicas, {} owed{durable}>", of.bytes, of.have, of.want, of.owed)
    }
}
