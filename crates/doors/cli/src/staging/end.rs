//! Copies what a job made to where it stays.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::Result;
use terrace::files::Special;
use terrace::{Object, Store};

use super::at_once::map_at_once;
use super::batch::{BatchLengths, save_batch};
use super::clock::{Clock, DeadlinePassed};
use super::last_look::look_again;
use super::list::{AwaitedList, await_list};
use super::record::{InputRecord, MadeBy};
use super::report::{EndReport, SavedAs};
use super::report_file::ReportFile;
use super::results::{Wanted, file_of, open_results};
use super::twins::find_twins;
use super::unfinished::{UNFINISHED_NAME, is_unfinished};
use crate::errors::describe;
use crate::inspect::each;
use crate::job_arguments::JobEnd;
use crate::output::{Show, complain, count, name, path_name};

const MAX_SHOWN_OBJECTS: usize = 20;
/// The part of the time before the deadline in which the destination is looked at before the first copy. A bucket answers some hundred times
/// in a second, and a job may have many objects.
const LOOKS_PART: u32 = 4;
const NOT_CERTAIN: &str = "it may be an input, since `terrace job start` was ended while it was staged, or a result; run that \
                           command again, or name the results by --save";

/// The objects to copy, the most wanted first.
#[derive(Default)]
struct WantedResults {
    objects: Vec<Wanted>,
    /// The names of objects that are not copied, with the reasons.
    not_copied: Vec<(Vec<u8>, &'static str)>,
    /// The number of unchanged inputs that were left out.
    inputs: u64,
}

impl WantedResults {
    fn add(&mut self, key: &[u8], object: &Object) {
        if is_unfinished(key) {
            return self.not_copied.push((key.to_vec(), UNFINISHED_NAME));
        }
        match Special::of(&object.attributes) {
            None => self.objects.push((key.to_vec(), object.clone())),
            Some(_) => self.not_copied.push((key.to_vec(), "it is a pipe, a socket or a device; remove it")),
        }
    }
}

/// Copies the objects that are wanted, until `stops` is set. Returns false if one is not at the destination.
pub fn end(store: &Store, asked: &JobEnd, stops: &AtomicBool, show: Show) -> Result<bool> {
    let file = asked.report.as_deref().map(|path| ReportFile::at(store, path)).transpose()?;
    if let (Some(file), Some(list)) = (&file, &asked.save) {
        file.check_apart(list, "which names the objects")?;
    }
    let clock = Clock { until: asked.deadline.map(|time| Instant::now() + time.0), stops };
    let mut wanted = match &asked.save {
        Some(list) => match await_list(list, &clock)? {
            AwaitedList::Names(names) => find_listed(store, &names)?,
            AwaitedList::Late(reason) => {
                let reason = format!("{} was not read to its end: {reason}", path_name(list));
                complain(&reason);
                let report = EndReport::of_unknown(Path::new(&asked.to), reason);
                show.result(&report, &report.describe())?;
                file.map_or(Ok(()), |file| file.write(&report))?;
                return Ok(false);
            }
        },
        None => find_made(store)?,
    };
    if let Some(file) = &file {
        let places = wanted.objects.iter().filter_map(|(key, _)| file_of(&asked.to, key));
        for path in places.filter(|path| file.has_name_of(path)) {
            file.check_apart(&path, "the place of an object")?;
        }
    }
    // The report of an earlier command would be taken for this one's if the destination cannot be opened.
    let replaced = file.as_ref().filter(|file| file.is_there());
    replaced.map_or(Ok(()), |file| file.write(&begin_report(asked, &wanted)))?;
    let place = open_results(store, &asked.to, &asked.options).inspect_err(|error| {
        let mut report = begin_report(asked, &wanted);
        report.note_gone(&describe(error));
        // The error of the destination, in which the report may be, is the one to tell.
        let _ = file.as_ref().map(|file| file.write(&report));
    })?;
    // Its folder may be the destination.
    let new = file.as_ref().filter(|_| replaced.is_none());
    new.map_or(Ok(()), |file| file.write(&begin_report(asked, &wanted)))?;
    let twins = find_twins(wanted.objects.iter().map(|(key, _)| key.as_slice()));
    wanted.objects = put_missing_first(
        wanted.objects,
        &clock,
        |(key, _)| twins.contains(key),
        |(key, object)| place.look(key, object).is_there(),
    );
    let mut report = begin_report(asked, &wanted);
    let bar = show.bar(wanted.objects.iter().map(|(_, object)| object.length).sum());
    let (mut left, mut number, mut lengths) = (wanted.objects.as_slice(), 0, BatchLengths::begin());
    let mut gone = None;
    while !left.is_empty() {
        if let Some(reason) = clock.why_over() {
            for number in number..wanted.objects.len() {
                report.note(number, SavedAs::Left, Some(reason.to_owned()));
            }
            break;
        }
        let (batch, rest) = left.split_at(lengths.next(left.iter().map(|(_, object)| object.length)));
        bar.set_message(batch.first().map(|(key, _)| name(key)).unwrap_or_default());
        let outcomes = save_batch(store, &*place, batch, &clock);
        gone = place.check().err();
        if gone.is_some() {
            break;
        }
        for ((_, object), outcome) in batch.iter().zip(outcomes) {
            match outcome {
                Ok(outcome) => report.note(number, outcome, None),
                Err(error) if DeadlinePassed::is_in(&error) => {
                    report.note(number, SavedAs::Left, Some(describe(&error)));
                }
                Err(error) => report.note(number, SavedAs::Failed, Some(describe(&error))),
            }
            bar.inc(object.length);
            number += 1;
        }
        left = rest;
    }
    bar.finish_and_clear();
    // Not where the exit code is 1 anyway: the next command compares everything. Not for a destination that is gone, with all that was there.
    if place.looks_fast() && report.is_tried() && gone.is_none() && place.check().is_ok() {
        let before = report.clone();
        look_again(&*place, &wanted.objects, &clock, &mut report);
        // It went away while it was looked at.
        if place.check().is_err() {
            report = before;
        }
    }
    // Also if no object was left to copy: exit code 0 says that all are there.
    if let Some(error) = gone.or_else(|| place.check().err()) {
        report.note_gone(&describe(&error));
        // Otherwise the objects say so.
        if wanted.objects.is_empty() {
            complain(&describe(&error));
        }
    }
    for (key, reason) in report.lacking().take(MAX_SHOWN_OBJECTS) {
        complain(&format!("{}: {reason}", name(key.as_bytes())));
    }
    let others = report.lacking().skip(MAX_SHOWN_OBJECTS).count() as u64;
    if others > 0 {
        complain(&format!("{} more, which `--report FILE` names", count(others, "object")));
    }
    // Before the file, for which there may be no room.
    show.result(&report, &report.describe())?;
    if let Some(file) = &file {
        file.write(&report)?;
    }
    Ok(report.is_safe())
}

/// Returns the report of a command that has copied nothing.
fn begin_report(asked: &JobEnd, wanted: &WantedResults) -> EndReport {
    let lengths = wanted.objects.iter().map(|(key, object)| (key.as_slice(), object.length));
    let mut report = EndReport::begin(Path::new(&asked.to), wanted.inputs, lengths);
    wanted.not_copied.iter().for_each(|(name, reason)| report.note_not_copied(name, reason));
    report
}

/// Puts what seems to be at the destination behind what is missing there, for which the time is: it was copied before, and is only read again.
/// Objects that are not looked at in a part of the time count as missing. Twins come behind those whose place they may not take.
fn put_missing_first<T: Sync>(
    objects: Vec<T>,
    clock: &Clock<'_>,
    is_twin: impl Fn(&T) -> bool + Sync,
    seems_there: impl Fn(&T) -> bool + Sync,
) -> Vec<T> {
    let clock = clock.part(LOOKS_PART);
    let comes_late = |object: &T| is_twin(object) || clock.why_over().is_none() && seems_there(object);
    let come_late = map_at_once(&objects, comes_late);
    let mut objects: Vec<(bool, T)> = come_late.into_iter().zip(objects).collect();
    objects.sort_by_key(|(comes_late, _)| *comes_late);
    objects.into_iter().map(|(_, object)| object).collect()
}

/// Finds the objects of a list, in its order. Those at and below a prefix are in the order of their keys.
fn find_listed(store: &Store, names: &[Vec<u8>]) -> Result<WantedResults> {
    let (mut wanted, mut known) = (WantedResults::default(), BTreeSet::new());
    for name in names {
        let mut is_there = false;
        each(store, name, |key, object| {
            is_there = true;
            if known.insert(key.to_vec()) {
                wanted.add(key, object);
            }
            Ok(())
        })?;
        if !is_there {
            wanted.not_copied.push((name.clone(), "nothing is stored at or below this key"));
        }
    }
    Ok(wanted)
}

/// Finds all objects but unchanged inputs. Those that changed last come first.
fn find_made(store: &Store) -> Result<WantedResults> {
    let (mut wanted, record) = (WantedResults::default(), InputRecord::read(store)?);
    each(store, b"", |key, object| {
        match record.made_by(key, object.generation) {
            MadeBy::Staging => wanted.inputs += 1,
            MadeBy::Job => wanted.add(key, object),
            MadeBy::Unknown => wanted.not_copied.push((key.to_vec(), NOT_CERTAIN)),
        }
        Ok(())
    })?;
    wanted.objects.sort_by_key(|(_, object)| Reverse(object.generation));
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All objects were looked at first, however long a bucket took for that: nothing was copied before the deadline.
    #[test]
    fn what_is_missing_comes_first_as_far_as_there_is_time_to_look() {
        let stops = AtomicBool::new(false);
        let order = |until, stops: &AtomicBool| {
            let is_twin = |number: &i32| *number == 3;
            put_missing_first(vec![1, 2, 3, 4, 5, 6], &Clock { until, stops }, is_twin, |number| number % 2 == 0)
        };
        assert_eq!(order(None, &stops), [1, 5, 2, 3, 4, 6]);
        assert_eq!(order(Some(Instant::now()), &stops), [1, 2, 4, 5, 6, 3]);
        assert_eq!(order(None, &AtomicBool::new(true)), [1, 2, 4, 5, 6, 3]);
    }
}
