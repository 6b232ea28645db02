//! Requirements of a store or a call, as keywords with the names of the command line's flags.

use std::time::Duration;

use engine::{Ack, Asked, Element, PutOptions};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

/// Converts keywords to requirements.
pub fn options(keywords: Option<&Bound<'_, PyDict>>) -> PyResult<PutOptions> {
    let mut options = PutOptions::default();
    for (name, value) in keywords.into_iter().flatten() {
        if value.is_none() {
            continue;
        }
        let name: String = name.extract()?;
        let text = || value.str()?.extract::<String>();
        let wrong = |error: &dyn std::fmt::Display| PyValueError::new_err(format!("{name}: {error}"));
        match name.as_str() {
            "require" => {
                let names: Vec<String> = match value.extract::<String>() {
                    Ok(all) => all.split(',').map(str::to_owned).collect(),
                    Err(_) => value.extract()?,
                };
                for name in names.iter().filter(|name| !name.trim().is_empty()) {
                    options.requirements.push(name.trim().parse().map_err(|e| wrong(&e))?);
                }
            }
            "replicas" => options.replicas = Some(value.extract()?),
            "ack" => options.ack = Some(ack(&text()?)?),
            "weights" => {
                let text = match value.extract::<(f64, f64, f64)>() {
                    Ok((compress, decompress, ratio)) => format!("{compress},{decompress},{ratio}"),
                    Err(_) => text()?,
                };
                options.weights = Some(text.parse().map_err(|e| wrong(&e))?);
            }
            "budget" => options.budget = Some(text()?.parse().map_err(|e| wrong(&e))?),
            "max_latency" => options.max_latency = Some(seconds(&value)?),
            "tiers" => {
                options.tiers = Some(match value.extract::<String>() {
                    Ok(one) => vec![one],
                    Err(_) => value.extract()?,
                });
            }
            "element" => options.element = Some(element(&text()?)?),
            "create_new" => options.create_new = value.extract()?,
            _ => options.requirements.push(requirement(&name, &value)?),
        }
    }
    options.check().map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(options)
}

/// Returns a time in seconds that is given as a number, or as a `datetime.timedelta`.
pub fn seconds(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    value.extract::<f64>().or_else(|_| value.extract::<Duration>().map(|time| time.as_secs_f64()))
}

fn requirement(name: &str, value: &Bound<'_, PyAny>) -> PyResult<Asked> {
    let value = match value.cast::<PyBool>() {
        Ok(on) => on.is_true().to_string(),
        Err(_) => value.extract::<u8>()?.to_string(),
    };
    let known = engine::Requirement::ALL.iter().any(|known| known.to_string() == name);
    let asked = format!("{name}={value}").parse();
    match known {
        true => asked.map_err(|e| PyValueError::new_err(format!("{e}"))),
        false => {
            let usual = "replicas, ack, weights, budget, max_latency, tiers, element, create_new, require";
            let names = engine::Requirement::ALL.map(|known| known.to_string()).join(", ");
            Err(PyTypeError::new_err(format!("{name:?} is no keyword; there are {usual}, {names}")))
        }
    }
}

/// Returns the acknowledgement with this name.
pub fn ack(name: &str) -> PyResult<Ack> {
    name.parse().map_err(|error| PyValueError::new_err(format!("ack: {error}")))
}

/// Returns the element type with this name in encodings.
fn element(name: &str) -> PyResult<Element> {
    name.parse().map_err(|error| PyValueError::new_err(format!("element: {error}")))
}
