//! The native half of the Python package `terrace`: arguments in, engine calls, errors out. The interpreter's lock is
//! released around everything that the engine does.

mod beside;
mod bytes;
mod failure;
mod files;
mod key;
mod object;
mod options;
mod pipe;
mod receipt;
mod room;
mod store;
mod waiting;

use pyo3::prelude::*;

/// The Python module; `_terrace.pyi` has the types.
#[pymodule]
fn _terrace(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::Store>()?;
    module.add_class::<receipt::Receipt>()?;
    module.add_class::<object::Object>()?;
    module.add_class::<files::Files>()?;
    module.add_class::<files::File>()?;
    module.add_class::<files::Stat>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
