//! Copies what a job reads into the store.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use terrace::catalog::Expect;
use terrace::{Object, PutOptions, Store};

use super::inputs::{Input, open_inputs};
use super::list::read_list;
use super::record::{BegunInput, InputRecord, MadeBy};
use crate::at_once::{STAGING_THREADS, map_at_once};
use crate::copy::same_bytes;
use crate::errors::describe;
use crate::job_arguments::JobStart;
use crate::output::{Show, complain, count, name, note, size};

/// Stages the inputs that are named. Returns false if one is not in the store.
pub fn start(store: &Store, asked: &JobStart, show: Show) -> Result<bool> {
    let place = open_inputs(store, &asked.origin, &asked.options)?;
    let names = match &asked.stage {
        Some(list) => read_list(list)?.into_iter().map(|line| line.name.map(Some)).collect(),
        None => vec![Ok(None)],
    };
    let (mut inputs, mut known, mut failed) = (Vec::new(), BTreeSet::new(), 0);
    for name in names {
        let found = name.map_or_else(|error| vec![Err(error)], |name| place.find(store, name.as_deref()));
        for found in found {
            match found {
                // A list may name a folder and what is in it. Two threads that stage one input would record a generation that its object has no more.
                Ok(input) if !known.insert(input.key.clone()) => {}
                Ok(input) => inputs.push(input),
                Err(error) => {
                    failed += 1;
                    complain(&describe(&error));
                }
            }
        }
    }
    let mut record = InputRecord::read(store)?;
    let begun = inputs
        .iter()
        .map(|input| Ok(BegunInput { key: &input.key, time: input.attributes.mtime, there: stat(store, &input.key)? }));
    record.begin(store, begun.collect::<Result<_>>()?)?;
    let bar = show.bar(inputs.iter().map(|input| input.length).sum());
    let staging = Staging {
        store,
        ends: AtomicBool::new(false),
        progress: Mutex::new(Progress { record, staged: 0, unchanged: 0, bytes: 0 }),
    };
    let outcomes = map_at_once(STAGING_THREADS, &inputs, |input| {
        bar.set_message(name(&input.key));
        let outcome = staging.stage(input);
        match &outcome {
            Outcome::Failed(error) => bar.suspend(|| complain(&describe(error))),
            Outcome::Replaced => bar.suspend(|| {
                note(&format!("{}: replaced, though the job had changed it", name(&input.key)));
            }),
            Outcome::Done | Outcome::Left => {}
        }
        bar.inc(input.length);
        outcome
    });
    bar.finish_and_clear();
    let count_of = |is_one: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| is_one(outcome)).count() as u64;
    let left = count_of(|outcome| matches!(outcome, Outcome::Left));
    if left > 0 {
        complain(&format!(
            "the store is full, and the rest, {}, is not tried; free some space, and run it again",
            count(left, "input")
        ));
    }
    failed += count_of(|outcome| matches!(outcome, Outcome::Failed(_)));
    // Only a panic of a thread that held it, which was passed on, poisons it.
    let Progress { record, staged, unchanged, bytes, .. } =
        staging.progress.into_inner().unwrap_or_else(PoisonError::into_inner);
    let recorded = record.write(store);
    let value = json!({"staged": staged, "unchanged": unchanged, "failed": failed, "bytes": bytes});
    let staged = count(staged, "input");
    show.result(&value, &format!("{staged} staged ({}), {unchanged} unchanged, {failed} failed", size(bytes)))?;
    recorded.map(|()| failed == 0)
}

/// The outcome of an input.
enum Outcome {
    Done,
    /// An object that the job had made of an input is lost.
    Replaced,
    Failed(anyhow::Error),
    /// It was not tried.
    Left,
}

/// The work on all inputs, which threads share.
struct Staging<'a> {
    store: &'a Store,
    /// Whether no further input begins.
    ends: AtomicBool,
    /// Held while an input is counted.
    progress: Mutex<Progress>,
}

struct Progress {
    record: InputRecord,
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
        let stage = || -> Result<Outcome> {
            let before = stat(self.store, &input.key)?.map_or(0, |object| object.generation);
            let there = find(self.store, input)?;
            if matches!(there, There::Same) {
                self.note_unchanged(input, before);
                return Ok(Outcome::Done);
            }
            self.check_free(input, &there, before)?;
            self.put(input, before)
        };
        match stage().with_context(|| format!("staging {}", name(&input.key))) {
            Ok(outcome) => outcome,
            Err(error) => {
                // After waiting for space in vain, do not wait again for each of the other inputs.
                if matches!(error.downcast_ref(), Some(terrace::Error::NoSpace { .. })) {
                    self.ends.store(true, Ordering::Relaxed);
                }
                Outcome::Failed(error)
            }
        }
    }

    /// Puts an input into the store, and compares it. What is there has this generation.
    fn put(&self, input: &Input<'_>, before: u64) -> Result<Outcome> {
        // A result that comes meanwhile stays, too.
        let expect = vec![match before {
            0 => Expect::Absent(input.key.clone()),
            generation => Expect::Generation(input.key.clone(), generation),
        }];
        let (element, attributes) = (terrace::element_of(&input.key), Some(input.attributes.clone()));
        let options = PutOptions { element, attributes, expect, ..PutOptions::default() };
        let put = self.store.put_sparse(&input.key, (input.open)()?, &options)?;
        // Before the comparison: one that differs is an input all the same, and the next command may replace it.
        let is_lost = self.note_put(input, before, put.generation);
        let is_same = matches!(find(self.store, input)?, There::Same);
        ensure!(is_same, "the object differs from the input, which somebody has changed meanwhile; run it again");
        self.note_staged(input);
        Ok(if is_lost { Outcome::Replaced } else { Outcome::Done })
    }

    /// Fails if the object with an input's name may be a result. It stays.
    fn check_free(&self, input: &Input<'_>, there: &There, generation: u64) -> Result<()> {
        let mut progress = self.progress();
        let record = &mut progress.record;
        let may_replace = match there {
            There::Nothing | There::Same => true,
            There::Other => record.was_staged(&input.key),
            // Of a command that was ended, whose inputs are lost: all of them would have to be removed.
            There::Lost => record.was_staged(&input.key) || record.made_by(&input.key, generation) == MadeBy::Unknown,
        };
        if may_replace {
            return Ok(());
        }
        record.give_up(&input.key, generation);
        bail!(
            "the store has another object of this name, which no `terrace job start` has staged, and which stays; if it is a result, \
             save it by `terrace job end`; then remove it by `terrace rm`, and run it again"
        )
    }

    /// Notes an input that was put in place of an object of one generation, and has another one now. Returns whether the job had changed it.
    fn note_put(&self, input: &Input<'_>, before: u64, now: u64) -> bool {
        let mut progress = self.progress();
        let is_lost = progress.record.is_changed(&input.key, before);
        progress.record.add(&input.key, now);
        is_lost
    }

    /// Notes an input that was there before, with this generation.
    fn note_unchanged(&self, input: &Input<'_>, generation: u64) {
        let mut progress = self.progress();
        progress.record.add(&input.key, generation);
        progress.unchanged += 1;
    }

    /// Counts an input that was put, and compared.
    fn note_staged(&self, input: &Input<'_>) {
        let mut progress = self.progress();
        progress.staged += 1;
        progress.bytes += input.length;
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Only a panic of a thread that held it, which was passed on, poisons it.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the object at a key, if there is one.
fn stat(store: &Store, key: &[u8]) -> Result<Option<Object>> {
    match store.stat(key) {
        Err(terrace::Error::NotFound { .. }) => Ok(None),
        found => Ok(Some(found?)),
    }
}

/// The object that the store has at the key of an input.
enum There {
    Nothing,
    /// An object with its bytes.
    Same,
    Other,
    /// An object of its length whose bytes are lost.
    Lost,
}

/// Looks for an input in the store, and compares it.
fn find(store: &Store, input: &Input<'_>) -> Result<There> {
    let Some(object) = stat(store, &input.key)? else { return Ok(There::Nothing) };
    if object.attributes.kind != input.attributes.kind || object.length != input.length {
        return Ok(There::Other);
    }
    match same_bytes(store, &input.key, (input.open)()?) {
        Ok(true) => Ok(There::Same),
        Ok(false) => Ok(There::Other),
        Err(error) if matches!(error.downcast_ref(), Some(terrace::Error::Unreadable { .. })) => Ok(There::Lost),
        Err(error) => Err(error),
    }
}
