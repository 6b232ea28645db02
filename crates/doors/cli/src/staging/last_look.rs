//! The last look at the destination: a result that was saved may have been removed while the others were copied.

use anyhow::Result;

use super::at_once::map_at_once;
use super::clock::Clock;
use super::report::{EndReport, SavedAs};
use super::results::{Look, ResultPlace, Wanted};
use crate::copy::{SAME_NAME, find_alike, find_shared};
use crate::errors::describe;
use crate::output::name;

const GONE_WORDS: &str =
    "it was there, and somebody has removed or changed it while the command ran; run the command again";

/// Looks whether all saved objects are still there, each under a name of its own. Those that are not become failed. After the deadline, those that
/// were not looked at become left.
pub fn look_again(place: &dyn ResultPlace, wanted: &[Wanted], clock: &Clock<'_>, report: &mut EndReport) {
    let saved = report.saved();
    let looks = map_at_once(&saved, |number| -> Result<Look> {
        clock.check()?;
        Ok(wanted.get(*number).map_or(Look::Nothing, |(key, object)| place.look(key, object)))
    });
    let mut numbers = Vec::new();
    for (number, look) in saved.iter().zip(looks) {
        numbers.push(match look {
            Ok(Look::There(found)) => found,
            Ok(Look::Nothing) => {
                report.note_lost(*number, SavedAs::Failed, GONE_WORDS.to_owned());
                None
            }
            Err(error) => {
                report.note_lost(*number, SavedAs::Left, describe(&error));
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
