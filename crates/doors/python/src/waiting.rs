//! Long calls that the user may interrupt.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The interval of checks for an interrupt.
pub const INTERRUPT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a call in a thread of its own. If a signal handler raises an exception such as `KeyboardInterrupt`, it is
/// raised at once, and the call continues in the background.
pub fn waited<T: Send + 'static>(py: Python<'_>, call: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, mut receiver) = channel();
    let run = move || {
        // An interrupted caller no longer listens.
        let _ = sender.send(call());
    };
    thread::Builder::new().name("terrace-wait".into()).spawn(run)?;
    loop {
        let (back, got) = py.detach(move || {
            let got = receiver.recv_timeout(INTERRUPT_CHECK_INTERVAL);
            (receiver, got)
        });
        receiver = back;
        match got {
            Ok(value) => return Ok(value),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the thread that did this has ended before its time"));
            }
        }
    }
}
