//! Copies what a job reads into the store.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use terrace::{PutOptions, Store, key};

use super::at_once::map_at_once;
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
    let staging = Staging {
        store,
        ends: AtomicBool::new(false),
        progress: Mutex::new(Progress {
            record: InputRecord::read(store)?,
            recorded: Instant::now(),
            staged: 0,
            unchanged: 0,
            bytes: 0,
        }),
    };
    let outcomes = map_at_once(&inputs, |input| {
        bar.set_message(name(&input.key));
        let outcome = staging.stage(input);
        if let Outcome::Failed(error) = &outcome {
            bar.suspend(|| complain(&describe(error)));
        }
        bar.inc(input.length);
        outcome
    });
    bar.finish_and_clear();
    let count_of = |is_one: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is_one(outcome)).count() as u64;
    let left = count_of(|outcome| matches!(outcome, Outcome::Left));
    if left > 0 {
        complain(&format!("the rest, {}, is not tried", count(left, "input")));
    }
    failed += count_of(|outcome| matches!(outcome, Outcome::Failed(_)));
    // Only a panic of a thread that held it, which was passed on, poisons it.
    let Progress { record, staged, unchanged, bytes, .. } =
        staging.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    record.write(store)?;
    let value = json!({"staged": staged, "unchanged": unchanged, "failed": failed, "bytes": bytes});
    let staged = count(staged, "input");
    show.result(&value, &format!("{staged} staged ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
    Ok(failed == 0)
}

/// The outcome of an input.
enum Outcome {
    Done,
    Failed(anyhow::Error),
    /// It was not tried.
    Left,
}

/// The work on all inputs, which threads share.
struct Staging<'a> {
    store: &'a Store,
    /// Whether no further input begins.
    ends: AtomicBool,
    /// Held while an input is counted, and while the record is written.
    progress: Mutex<Progress>,
}

struct Progress {
    record: InputRecord,
    /// When the record was written.
    recorded: Instant,
    staged: u64,
    unchanged: u64,
    bytes: u64,
}

impl Staging<'_> {
    fn stage(&self, input: &Input<'_>) -> Outcome {
        // Relaxed: an input too many does no harm.
        if self.ends.load(Ordering::Relaxed) {
            return Outcome::Left;
        }
        let stage = || {
            let is_new = put(self.store, input)?;
            self.note(input, is_new, self.store.stat(&input.key)?.generation)
        };
        match stage().with_context(|| format!("staging {}", name(&input.key))) {
            Ok(()) => Outcome::Done,
            Err(error) => {
                // After waiting for space in vain, do not wait again for each of the other inputs.
                if matches!(error.downcast_ref(), Some(terrace::Error::NoSpace { .. })) {
                    self.ends.store(true, Ordering::Relaxed);
                }
                Outcome::Failed(error)
            }
        }
    }

    /// Counts an input, and writes the record if it is old: after a kill, few inputs pass for results.
    fn note(&self, input: &Input<'_>, is_new: bool, generation: u64) -> Result<()> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.record.add(&input.key, generation);
        progress.staged += u64::from(is_new);
        progress.unchanged += u64::from(!is_new);
        progress.bytes += if is_new { input.length } else { 0 };
        if progress.recorded.elapsed() > RECORD_INTERVAL {
            progress.record.write(self.store)?;
            progress.recorded = Instant::now();
        }
        Ok(())
    }
}

/// Puts an input into the store, unless it is there, and compares it. Returns whether it was put.
fn put(store: &Store, input: &Input<'_>) -> Result<bool> {
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
