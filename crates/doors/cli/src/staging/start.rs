//! Copies what a job reads into the store.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use terrace::{PutOptions, Store, key};

use super::inputs::{Input, open_inputs};
use super::list::read_list;
use super::record::InputRecord;
use crate::copy::same_bytes;
use crate::errors::describe;
use crate::job_arguments::JobStart;
use crate::output::{Show, complain, count, name, size};

/// The record of inputs is written at the end, and each time that it is this old.
const RECORD_INTERVAL: Duration = Duration::from_secs(1);

/// Stages the inputs that are named. Returns false if one is not in the store.
pub fn start(store: &Store, asked: &JobStart, show: Show) -> Result<bool> {
    let place = open_inputs(store, &asked.origin, &asked.options)?;
    let names = match &asked.stage {
        Some(list) => read_list(list)?.into_iter().map(Some).collect(),
        None => vec![None],
    };
    let (mut inputs, mut failed) = (Vec::new(), 0);
    for name in &names {
        match place.find(store, name.as_deref()) {
            Ok(found) => inputs.extend(found),
            Err(error) => {
                failed += 1;
                complain(&describe(&error));
            }
        }
    }
    let bar = show.bar(inputs.iter().map(|input| input.length).sum());
    let (mut staged, mut unchanged, mut bytes, mut recorded) = (0, 0, 0, Instant::now());
    let mut record = InputRecord::read(store)?;
    for (number, input) in inputs.iter().enumerate() {
        bar.set_message(name(&input.key));
        match stage(store, input).with_context(|| format!("staging {}", name(&input.key))) {
            Ok(is_new) => {
                record.add(store, &input.key)?;
                staged += u64::from(is_new);
                unchanged += u64::from(!is_new);
                bytes += if is_new { input.length } else { 0 };
            }
            Err(error) => {
                failed += 1;
                bar.suspend(|| complain(&describe(&error)));
                // After waiting for space in vain, do not wait again for each of the other inputs.
                if matches!(error.downcast_ref(), Some(terrace::Error::NoSpace { .. })) {
                    let left = inputs.len() - number - 1;
                    bar.suspend(|| complain(&format!("the rest, {}, is not tried", count(left as u64, "input"))));
                    break;
                }
            }
        }
        bar.inc(input.length);
        // After a kill, few inputs pass for results.
        if recorded.elapsed() > RECORD_INTERVAL {
            record.write(store)?;
            recorded = Instant::now();
        }
    }
    bar.finish_and_clear();
    record.write(store)?;
    let value = json!({"staged": staged, "unchanged": unchanged, "failed": failed, "bytes": bytes});
    let staged = count(staged, "input");
    show.result(&value, &format!("{staged} staged ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
    Ok(failed == 0)
}

/// Puts an input into the store, unless it is there, and compares it. Returns whether it was put.
fn stage(store: &Store, input: &Input<'_>) -> Result<bool> {
    key::check(&input.key)?;
    if is_same(store, input)? {
        return Ok(false);
    }
    let (element, attributes) = (terrace::element_of(&input.key), Some(input.attributes.clone()));
    store.put_sparse(&input.key, (input.open)()?, &PutOptions { element, attributes, ..PutOptions::default() })?;
    let same = is_same(store, input)?;
    ensure!(same, "the object differs from the input, which somebody has changed meanwhile; run it again");
    Ok(true)
}

/// Returns whether the store has an input with its bytes.
fn is_same(store: &Store, input: &Input<'_>) -> Result<bool> {
    let object = match store.stat(&input.key) {
        Err(terrace::Error::NotFound { .. }) => return Ok(false),
        found => found?,
    };
    if object.attributes.kind != input.attributes.kind || object.length != input.length {
        return Ok(false);
    }
    match same_bytes(store, &input.key, (input.open)()?) {
        // Lost bytes are put again.
        Err(error) if matches!(error.downcast_ref(), Some(terrace::Error::Unreadable { .. })) => Ok(false),
        same => same,
    }
}
