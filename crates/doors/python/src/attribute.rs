//! Attributes of datasets and of their variables.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use terrace_views::layout::Described;
use terrace_views::model::{Attribute, Items, Value};

/// The name, and the value: its type in NumPy's terms, or none for texts; its lengths; and its bytes or texts.
type Named<'py> = (String, Bound<'py, PyTuple>);

/// Describes attributes, for `attributes_of` in Python.
pub fn described<'py>(py: Python<'py>, attributes: &[Attribute]) -> PyResult<Vec<Named<'py>>> {
    attributes.iter().map(|one| Ok((one.name.clone(), value(py, &one.value)?))).collect()
}

/// Describes the attributes of a variable. Those of members are named MEMBER.NAME, as in HDF5.
pub fn of_variable<'py>(py: Python<'py>, variable: &Described) -> PyResult<Vec<Named<'py>>> {
    let mut all = described(py, &variable.attributes)?;
    for (path, attributes) in &variable.members {
        let named = |(name, value): Named<'py>| (format!("{path}.{name}"), value);
        all.extend(described(py, attributes)?.into_iter().map(named));
    }
    Ok(all)
}

fn value<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyTuple>> {
    let lengths = &value.lengths;
    match &value.items {
        Items::Text(texts) | Items::Char(texts) => (None::<String>, lengths, texts).into_pyobject(py),
        Items::Numbers(primitive, bytes) => {
            (primitive.numpy_name(false), lengths, PyBytes::new(py, bytes)).into_pyobject(py)
        }
    }
}
