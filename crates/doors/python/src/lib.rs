//! The native half of the Python package `terrace`: converts arguments and errors, and calls the engine. The GIL is
//! released during the engine's work.

mod attribute;
mod beside;
mod bytes;
mod dataset;
mod dump;
mod failure;
mod files;
mod forked;
mod key;
mod object;
mod options;
mod origins;
mod pipe;
mod receipt;
mod room;
mod store;
mod stream;
mod view;
mod waiting;

use pyo3::prelude::*;

/// The Python module; `_terrace.pyi` has the types.
#[pymodule]
fn _terrace(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<store::Store>()?;
    module.add_class::<store::Moment>()?;
    module.add_class::<receipt::Receipt>()?;
    module.add_class::<object::Object>()?;
    module.add_class::<files::Files>()?;
    module.add_class::<files::File>()?;
    module.add_class::<files::Stat>()?;
    module.add_class::<dataset::Dataset>()?;
    module.add_class::<view::View>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<dump::Dumps>()?;
    module.add_class::<origins::Origins>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
