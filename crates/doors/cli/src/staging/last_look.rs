//! The last look at the destination: a result that was saved may have been removed or changed while the others were copied.

use anyhow::Result;
use terrace::Store;

use super::clock::{Clock, DeadlinePassed};
use super::report::{EndReport, SavedAs};
use super::results::{Look, ResultPlace, Wanted};
use crate::at_once::{STAGING_THREADS, map_at_once};
use crate::copy::{SAME_NAME, find_alike, find_shared};
use crate::errors::describe;
use crate::output::name;

const GONE_WORDS: &str =
    "it was there, and somebody has removed or changed it while the command ran; run the command again";

/// Looks whether all saved objects are still there, each under a name of its own. One whose file is another one now is compared
/// again. Those that are not become failed. After the deadline, those that were not looked at become left.
pub fn look_again(
    store: &Store,
    place: &dyn ResultPlace,
    wanted: &[Wanted],
    clock: &Clock<'_>,
    report: &mut EndReport,
) {
    let saved = report.saved();
    let looks = map_at_once(STAGING_THREADS, &saved, |number| -> Result<Look> {
        clock.check()?;
        let Some(wanted) = wanted.get(*number) else { return Ok(Look::Nothing) };
        match place.look(&wanted.0, &wanted.1) {
            Look::Changed(found) if is_same_again(store, place, wanted, clock)? => Ok(Look::There(found)),
            look => Ok(look),
        }
    });
    let mut numbers = Vec::new();
    for (number, look) in saved.iter().zip(looks) {
        numbers.push(match look {
            Ok(Look::There(found)) => found,
            Ok(Look::Nothing | Look::Changed(_)) => {
                report.note_lost(*number, SavedAs::Failed, GONE_WORDS.to_owned());
                None
            }
            Err(error) => {
                let outcome = if DeadlinePassed::is_in(&error) { SavedAs::Left } else { SavedAs::Failed };
                report.note_lost(*number, outcome, describe(&error));
                None
            }
        });
    }
    for places in find_shared(numbers.into_iter()) {
        let keys = |place: &usize| saved.get(*place).and_then(|number| Some((*number, &wanted.get(*number)?.0)));
        let mut sharing = places.iter().filter_map(keys);
        let Some((_, first)) = sharing.next() else { continue };
        for (number, _) in sharing {
            report.note_lost(number, SavedAs::Failed, format!("{} is there, {SAME_NAME}", name(first)));
        }
    }
    for number in find_alike(wanted.iter().map(|(key, _)| key.as_slice())) {
        if let Some((key, _)) = wanted.get(number).filter(|(key, _)| !place.lists(key)) {
            report.note_lost(number, SavedAs::Failed, format!("{} is not there, {SAME_NAME}", name(key)));
        }
    }
}

/// Compares an object again whose file is another one now, or was changed: not every file system keeps the numbers of its files.
fn is_same_again(store: &Store, place: &dyn ResultPlace, wanted: &Wanted, clock: &Clock<'_>) -> Result<bool> {
    let (key, object) = wanted;
    let _step = clock.step(format!("reading {}", place.name_of(key)));
    // Before the comparison, so that it reads what a power cut leaves.
    place.sync(&[wanted]).into_iter().collect::<Result<()>>()?;
    place.is_there(store, key, object, clock)
}
