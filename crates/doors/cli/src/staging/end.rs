//! Copies what a job made to where it stays.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::{Context, Error, Result};
use terrace::files::Special;
use terrace::{Object, Store};

use super::batch::{BatchLengths, save_batch};
use super::clock::{Clock, DeadlinePassed};
use super::ending::Ending;
use super::last_look::look_again;
use super::list::{AwaitedList, Line, await_list};
use super::record::{InputRecord, MadeBy};
use super::report::{EndReport, SavedAs};
use super::report_file::ReportFile;
use super::results::{ResultPlace, Wanted, file_of, open_results};
use super::supervisor::run_supervised;
use super::twins::find_twins;
use super::unfinished::{UNFINISHED_NAME, is_unfinished};
use crate::FOUND_BAD;
use crate::at_once::{STAGING_THREADS, map_at_once};
use crate::errors::describe;
use crate::inspect::each;
use crate::interrupt::listen_for_end;
use crate::job_arguments::JobEnd;
use crate::output::{Show, complain, name, path_name};

/// The part of the time before the deadline in which the destination is looked at before the first copy. A bucket answers some hundred times
/// in a second, and a job may have many objects.
const LOOKS_PART: u32 = 4;
const NOT_CERTAIN: &str = "it may be an input that `terrace job start` has not staged to its end, or a result; if it no longer \
                           runs, run that command again, or name the results by --save";

/// The objects to copy, the most wanted first.
#[derive(Default)]
struct WantedResults {
    objects: Vec<Wanted>,
    /// The names of objects that are not copied, with the reasons.
    not_copied: Vec<(Vec<u8>, String)>,
    /// The number of unchanged inputs that were left out.
    inputs: u64,
}

impl WantedResults {
    fn add(&mut self, key: &[u8], object: &Object) {
        if is_unfinished(key) {
            return self.leave_out(key, UNFINISHED_NAME);
        }
        match Special::of(&object.attributes) {
            None => self.objects.push((key.to_vec(), object.clone())),
            Some(_) => self.leave_out(key, "it is a pipe, a socket or a device; remove it"),
        }
    }

    fn leave_out(&mut self, name: &[u8], reason: &str) {
        self.not_copied.push((name.to_vec(), reason.to_owned()));
    }
}

/// Copies the objects that are wanted. Returns false if one is not at the destination. Ends the process if a file system does not answer in time.
pub fn end(open: impl Fn() -> Result<Store>, asked: &JobEnd, show: Show) -> Result<u8> {
    run_supervised(|| {
        let stops = listen_for_end().context("listening for signals")?;
        let ending = Ending::begin(Path::new(&asked.to), asked.deadline.map(|time| time.0), stops, show)?;
        let opening = ending.steps.begin("opening the store".into());
        let store = open()?;
        drop(opening);
        let is_safe = copy_out(&store, asked, &ending, show)?;
        let _step = ending.steps.begin("closing the store".into());
        drop(store);
        Ok(if is_safe { 0 } else { FOUND_BAD })
    })
}

/// Copies the objects that are wanted, until the deadline or SIGTERM. Returns false if one is not at the destination.
fn copy_out(store: &Store, asked: &JobEnd, ending: &Ending, show: Show) -> Result<bool> {
    let clock = ending.clock();
    let file = find_report_file(store, asked, ending)?;
    let mut wanted = match find_wanted(store, asked, &clock)? {
        Found::Objects(wanted) => wanted,
        Found::Late(reason) => {
            complain(&reason);
            return ending.tell_outcome(&EndReport::of_unknown(Path::new(&asked.to), reason));
        }
    };
    ending.set_report(begin_report(asked, &wanted));
    let place = open_destination(store, asked, &wanted, file.as_ref(), &clock)?;
    let twins = find_twins(wanted.objects.iter().map(|(key, _)| key.as_slice()));
    let looking = clock.step(format!("looking at what is in {}", path_name(Path::new(&asked.to))));
    wanted.objects = put_missing_first(
        wanted.objects,
        &clock,
        |(key, _)| twins.contains(key),
        |(key, object)| place.look(key, object).is_there(),
    );
    drop(looking);
    ending.set_report(begin_report(asked, &wanted));
    let mut gone = save_all(store, &*place, &wanted.objects, ending, show);
    let mut report = ending.report();
    let is_there = || {
        let _step = clock.step(format!("looking at {}", path_name(Path::new(&asked.to))));
        place.check()
    };
    // Not where the exit code is 1 anyway: the next command compares everything. Not for a destination that is gone, with all that was there.
    if place.looks_fast() && report.is_tried() && gone.is_none() && is_there().is_ok() {
        let before = report.clone();
        // Release: a thread that sees it sees the report that was set before.
        ending.looks_again.store(true, Ordering::Release);
        let _step = clock.step(format!("looking once more at what is in {}", path_name(Path::new(&asked.to))));
        look_again(store, &*place, &wanted.objects, &clock, &mut report);
        // It went away while it was looked at.
        if place.check().is_err() {
            report = before;
        }
    }
    // Also if no object was left to copy: exit code 0 says that all are there.
    gone = gone.or_else(|| is_there().err());
    if let Some(error) = gone {
        report.note_gone(&describe(&error));
        // Otherwise the objects say so.
        if wanted.objects.is_empty() {
            complain(&describe(&error));
        }
    }
    ending.tell_outcome(&report)
}

/// Finds the file of the report, if one is wanted, and checks its place. The results matter more than the report: they are copied although its place
/// does not answer.
fn find_report_file(store: &Store, asked: &JobEnd, ending: &Ending) -> Result<Option<ReportFile>> {
    let Some(path) = &asked.report else { return Ok(None) };
    let _step = ending.steps.begin(format!("looking at the place of the report, {}", path_name(path)));
    if let Err(error) = ReportFile::check_answers(path) {
        let _ = ending.no_report.set(describe(&error));
        return Ok(None);
    }
    let file = ReportFile::at(store, path)?;
    if let Some(list) = &asked.save {
        file.check_apart(list, "which names the objects")?;
    }
    // The thread that watches writes it, too.
    let _ = ending.file.set(file.clone());
    Ok(Some(file))
}

/// The search for the objects.
enum Found {
    Objects(WantedResults),
    /// The time was over before they were known, for this reason.
    Late(String),
}

fn find_wanted(store: &Store, asked: &JobEnd, clock: &Clock<'_>) -> Result<Found> {
    let _step = clock.step("finding the objects to copy".into());
    let Some(list) = &asked.save else { return find_made(store).map(Found::Objects) };
    match await_list(list, clock)? {
        AwaitedList::Names(lines) => find_listed(store, lines).map(Found::Objects),
        AwaitedList::Late(reason) => Ok(Found::Late(format!("{} was not read to its end: {reason}", path_name(list)))),
    }
}

/// Opens the destination, and lets the report begin: before it, so that an earlier report does not pass for this one's if it cannot be opened, but
/// after it if the report is new, since its folder may be the destination.
fn open_destination(
    store: &Store,
    asked: &JobEnd,
    wanted: &WantedResults,
    file: Option<&ReportFile>,
    clock: &Clock<'_>,
) -> Result<Box<dyn ResultPlace>> {
    let opens = || clock.step(format!("opening {}", path_name(Path::new(&asked.to))));
    let looking = opens();
    if let Some(file) = file {
        let places = wanted.objects.iter().filter_map(|(key, _)| file_of(&asked.to, key));
        for path in places.filter(|path| file.has_name_of(path)) {
            file.check_apart(&path, "the place of an object")?;
        }
    }
    drop(looking);
    let begin = |file: &ReportFile| {
        if let Err(error) = file.begin(&begin_report(asked, wanted)) {
            complain(&format!("{}; the objects are copied all the same", describe(&error)));
        }
    };
    let writing = clock.step("beginning the report".into());
    let replaced = file.filter(|file| file.is_there());
    replaced.into_iter().for_each(begin);
    drop(writing);
    let opening = opens();
    let place = open_results(store, &asked.to, &asked.options).inspect_err(|error| {
        let mut report = begin_report(asked, wanted);
        report.note_gone(&describe(error));
        // The error of the destination, in which the report may be, is the one to tell.
        let _ = file.map(|file| file.begin(&report));
    })?;
    drop(opening);
    let _step = clock.step("beginning the report".into());
    let new = file.filter(|_| replaced.is_none());
    new.into_iter().for_each(begin);
    Ok(place)
}

/// Copies the objects, batch by batch, while there is time. Returns the error of a destination that went away.
fn save_all(store: &Store, place: &dyn ResultPlace, wanted: &[Wanted], ending: &Ending, show: Show) -> Option<Error> {
    let clock = ending.clock();
    let bar = show.bar(wanted.iter().map(|(_, object)| object.length).sum());
    let (mut left, mut number, mut lengths) = (wanted, 0, BatchLengths::begin());
    let mut gone = None;
    while !left.is_empty() {
        if let Some(reason) = clock.why_over() {
            ending.change_report(|report| {
                (number..wanted.len()).for_each(|number| report.note(number, SavedAs::Left, Some(reason.to_owned())));
            });
            break;
        }
        let (batch, rest) = left.split_at(lengths.next(left.iter().map(|(_, object)| object.length)));
        bar.set_message(batch.first().map(|(key, _)| name(key)).unwrap_or_default());
        let outcomes = save_batch(store, place, batch, &clock);
        let looking = clock.step(format!("looking at {}", place.name_of(b"")));
        gone = place.check().err();
        drop(looking);
        if gone.is_some() {
            break;
        }
        for ((_, object), outcome) in batch.iter().zip(outcomes) {
            let (outcome, reason) = match outcome {
                Ok(outcome) => (outcome, None),
                Err(error) if DeadlinePassed::is_in(&error) => (SavedAs::Left, Some(describe(&error))),
                Err(error) => (SavedAs::Failed, Some(describe(&error))),
            };
            ending.change_report(|report| report.note(number, outcome, reason));
            bar.inc(object.length);
            number += 1;
        }
        left = rest;
    }
    bar.finish_and_clear();
    gone
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
    let come_late = map_at_once(STAGING_THREADS, &objects, comes_late);
    let mut objects: Vec<(bool, T)> = come_late.into_iter().zip(objects).collect();
    objects.sort_by_key(|(comes_late, _)| *comes_late);
    objects.into_iter().map(|(_, object)| object).collect()
}

/// Finds the objects of a list, in its order. Those at and below a prefix are in the order of their keys.
fn find_listed(store: &Store, lines: Vec<Line>) -> Result<WantedResults> {
    let (mut wanted, mut known) = (WantedResults::default(), BTreeSet::new());
    for Line { text, name } in lines {
        let name = match name {
            Ok(name) => name,
            Err(error) => {
                wanted.leave_out(&text, &describe(&error));
                continue;
            }
        };
        let mut is_there = false;
        each(store, &name, |key, object| {
            is_there = true;
            if known.insert(key.to_vec()) {
                wanted.add(key, object);
            }
            Ok(())
        })?;
        if !is_there {
            wanted.leave_out(&name, "nothing is stored at or below this key");
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
            MadeBy::Unknown => wanted.leave_out(key, NOT_CERTAIN),
        }
        Ok(())
    })?;
    wanted.objects.sort_by_key(|(_, object)| Reverse(object.generation));
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use super::*;
    use crate::staging::steps::Steps;

    /// All objects were looked at first, however long a bucket took for that: nothing was copied before the deadline.
    #[test]
    fn what_is_missing_comes_first_as_far_as_there_is_time_to_look() {
        let stops = AtomicBool::new(false);
        let order = |until, stops: &AtomicBool| {
            let is_twin = |number: &i32| *number == 3;
            let steps = Steps::new();
            let clock = Clock { until, stops, steps: &steps };
            put_missing_first(vec![1, 2, 3, 4, 5, 6], &clock, is_twin, |number| number % 2 == 0)
        };
        assert_eq!(order(None, &stops), [1, 5, 2, 3, 4, 6]);
        assert_eq!(order(Some(Instant::now()), &stops), [1, 2, 4, 5, 6, 3]);
        assert_eq!(order(None, &AtomicBool::new(true)), [1, 2, 4, 5, 6, 3]);
    }
}
