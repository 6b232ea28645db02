//! Copies a batch of objects to where they stay. What takes long for a small object, the syncs, is done once for all of them.

use anyhow::{Result, anyhow};
use terrace::Store;

use super::clock::Clock;
use super::report::SavedAs;
use super::results::{Draft, ResultPlace, Wanted};
use crate::at_once::{STAGING_THREADS, map_at_once};

/// The largest number of objects of a batch. Each is an open file until it has its name.
const MAX_BATCH_OBJECTS: usize = 128;
/// The largest number of bytes of a batch of several objects. After SIGTERM, the batch in progress is finished.
const MAX_BATCH_BYTES: u64 = 64 << 20;

/// The lengths of the batches. The first object is a batch by itself, and the next batches become longer: the most wanted objects wait for
/// few others.
pub struct BatchLengths {
    next: usize,
}

impl BatchLengths {
    pub fn begin() -> BatchLengths {
        BatchLengths { next: 1 }
    }

    /// Returns the number of objects of the next batch, of all that are left; 0 if there are none.
    pub fn next(&mut self, mut left: impl ExactSizeIterator<Item = u64>) -> usize {
        let (all, mut bytes) = (left.len(), 0_u64);
        let mut fits = |length: u64| {
            bytes = bytes.saturating_add(length);
            bytes <= MAX_BATCH_BYTES
        };
        let fitting = left.by_ref().take(self.next).take_while(|length| fits(*length)).count();
        self.next = MAX_BATCH_OBJECTS.min(self.next * 2);
        fitting.max(1).min(all)
    }
}

/// Copies the objects of a batch unless they are there, and compares them.
pub fn save_batch(store: &Store, place: &dyn ResultPlace, batch: &[Wanted], clock: &Clock<'_>) -> Vec<Result<SavedAs>> {
    let seems_there = map_at_once(STAGING_THREADS, batch, |(key, object)| {
        let _step = clock.step(format!("looking at {}", place.name_of(key)));
        place.look(key, object).is_there()
    });
    let mut outcomes: Vec<Option<Result<SavedAs>>> = batch.iter().map(|_| None).collect();
    let there: Vec<usize> = (0..batch.len()).filter(|number| seems_there[*number]).collect();
    for (number, compared) in compare(store, place, batch, there, clock) {
        match compared {
            Ok(true) => outcomes[number] = Some(Ok(SavedAs::Present)),
            // It is written again.
            Ok(false) => {}
            Err(error) => outcomes[number] = Some(Err(error)),
        }
    }
    let absent: Vec<usize> = (0..batch.len()).filter(|number| outcomes[*number].is_none()).collect();
    let written = write(store, place, batch, &absent, clock);
    let mut is_written = Vec::new();
    for (number, written) in absent.into_iter().zip(written) {
        match written {
            Ok(()) => is_written.push(number),
            Err(error) => outcomes[number] = Some(Err(error)),
        }
    }
    for (number, compared) in compare(store, place, batch, is_written, clock) {
        outcomes[number] = Some(match compared {
            Ok(true) => Ok(SavedAs::Copied),
            Ok(false) => Err(anyhow!(
                "it differs at the destination; if nobody has changed it meanwhile, check that file system, and run the command again"
            )),
            Err(error) => Err(error),
        });
    }
    let not_tried = || Err(anyhow!("it was not tried, which is a bug of Terrace; run the command again"));
    outcomes.into_iter().map(|outcome| outcome.unwrap_or_else(not_tried)).collect()
}

/// Writes objects, each whole or not at all.
fn write(
    store: &Store,
    place: &dyn ResultPlace,
    batch: &[Wanted],
    absent: &[usize],
    clock: &Clock<'_>,
) -> Vec<Result<()>> {
    let mut drafts: Vec<Result<Draft>> = map_at_once(STAGING_THREADS, absent, |number| {
        let (key, object) = &batch[*number];
        clock.check()?;
        let _step = clock.step(format!("writing {}", place.name_of(key)));
        place.write(store, key, object, clock)
    });
    let syncing = clock.step(describe_sync(place, batch, absent));
    // Before any of them has its name, because a power cut could leave the name without the bytes.
    place.sync_drafts(&mut drafts);
    drop(syncing);
    let publish = |(number, draft): (&usize, Result<Draft>)| {
        let (key, object) = &batch[*number];
        let draft = draft?;
        // What was at its place stays.
        clock.check()?;
        let _step = clock.step(format!("writing {}", place.name_of(key)));
        place.publish(store, key, object, draft)
    };
    absent.iter().zip(drafts).map(publish).collect()
}

/// Says which objects are synced: one of them, and how many others.
fn describe_sync(place: &dyn ResultPlace, batch: &[Wanted], numbers: &[usize]) -> String {
    let first = numbers.first().and_then(|number| batch.get(*number)).map(|(key, _)| place.name_of(key));
    format!("syncing {} and {} others", first.unwrap_or_default(), numbers.len().saturating_sub(1))
}

/// Syncs the objects with these numbers, and then compares them. Returns whether each is there.
fn compare(
    store: &Store,
    place: &dyn ResultPlace,
    batch: &[Wanted],
    numbers: Vec<usize>,
    clock: &Clock<'_>,
) -> Vec<(usize, Result<bool>)> {
    // Before the comparison, so that it reads what a power cut leaves. An earlier command may have been killed before it synced.
    let syncing = clock.step(describe_sync(place, batch, &numbers));
    let synced = place.sync(&numbers.iter().map(|number| &batch[*number]).collect::<Vec<_>>());
    drop(syncing);
    let synced: Vec<_> = numbers.into_iter().zip(synced).collect();
    let compared = map_at_once(STAGING_THREADS, &synced, |(number, synced)| {
        let (key, object) = &batch[*number];
        let _step = clock.step(format!("reading {}", place.name_of(key)));
        synced
            .is_ok()
            .then(|| clock.check().map_err(Into::into).and_then(|()| place.is_there(store, key, object, clock)))
    });
    let outcome = |((number, synced), compared): ((usize, Result<()>), Option<Result<bool>>)| {
        (number, synced.and_then(|()| compared.unwrap_or(Ok(false))))
    };
    synced.into_iter().zip(compared).map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths_of(bytes: &[u64]) -> Vec<usize> {
        let (mut lengths, mut left, mut taken) = (BatchLengths::begin(), bytes, Vec::new());
        while !left.is_empty() {
            let length = lengths.next(left.iter().copied());
            left = &left[length..];
            taken.push(length);
        }
        taken
    }

    #[test]
    fn batches_become_longer_and_have_a_limit_of_bytes() {
        assert_eq!(lengths_of(&[1; 300]), [1, 2, 4, 8, 16, 32, 64, 128, 45]);
        assert_eq!(lengths_of(&[MAX_BATCH_BYTES * 2, MAX_BATCH_BYTES, 1, 2, u64::MAX, 3, 4]), [1, 1, 2, 1, 2]);
        assert_eq!(BatchLengths::begin().next([].into_iter()), 0);
    }
}
