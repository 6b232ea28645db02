//! Long calls, which the user may interrupt.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// So often it is looked whether the user interrupts.
pub const LOOK: Duration = Duration::from_millis(100);

/// Runs a call by a thread of its own. Where a signal raises an exception meanwhile, such as `KeyboardInterrupt`, that is raised at
/// once, and the call goes on in the background.
pub fn waited<T: Send + 'static>(py: Python<'_>, call: impl FnOnce() -> T + Send + 'static) -> PyResult<T> {
    let (sender, mut receiver) = channel();
    let run = move || {
        // An interrupted caller does not listen any more.
        let _ = sender.send(call());
    };
    thread::Builder::new().name("terrace-wait".into()).spawn(run)?;
    loop {
        let (back, got) = py.detach(move || {
            let got = receiver.recv_timeout(LOOK);
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
