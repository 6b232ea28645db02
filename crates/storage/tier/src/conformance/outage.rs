//! Questions about places that become unreachable in the middle of operations.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::frames::{append, bytes, read, scan};
use super::{Site, Trial};
use crate::{Place, Target, TargetFound, TargetKind};

const WRITER_COUNT: u64 = 2;
const FRAME_BYTES: usize = 5000;
/// Each writer frees its oldest frame when it has this many.
const MAX_FRAMES_OF_WRITER: usize = 40;
/// Frames that are acknowledged before an outage begins, and after it has ended.
const FRAMES_AROUND_OUTAGE: u64 = 10;
const WRITER_PAUSE: Duration = Duration::from_millis(2);
/// The longest wait for a condition on a busy machine.
const MAX_WAIT: Duration = Duration::from_secs(120);

/// A step of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// The place becomes unreachable, in the middle of all operations.
    Begins,
    /// The place is reachable again, with everything that it held.
    Ends,
}

/// Checks the behaviour of a kind whose place becomes unreachable while threads append, read and free, and then returns. `make`
/// carries out each step.
///
/// There is one right answer. A call that an outage interrupts fails with an error that sets the target aside: it must not
/// say that a frame is missing or damaged, since the store would forget it. An acknowledged frame outlives the outage, and
/// a freed one stays freed. The same target works again afterwards.
///
/// # Panics
/// If an answer is wrong.
pub fn check_outage(kind: &dyn TargetKind, site: Site, make: impl FnMut(Outage)) {
    let trial = Trial::new(kind, site, &|target, _| target);
    assert!(!trial.capabilities.ends_with_process, "the memory of this process is always reachable");
    let target = &*trial.open();
    let Written { held, freed } = write_through_outage(&trial, target, make);
    let found = scan(target);
    for (&write, &place) in &held {
        let raw = read(target, place, write, 0, FRAME_BYTES).expect("an acknowledged frame outlives the outage");
        assert!(raw == bytes(write, FRAME_BYTES), "frame {write} has changed");
        assert!(found.contains(&(write, place)), "a scan does not find frame {write}");
    }
    let found: BTreeSet<u64> = found.iter().map(|(write, _)| *write).collect();
    let back: Vec<&u64> = freed.intersection(&found).collect();
    assert!(back.is_empty(), "these frames were freed: {back:?}");
    let found = trial.kind.find(&trial.settings, &trial.owner()).expect("looks");
    assert!(matches!(found, TargetFound::Own { .. }), "{found:?}");
}

/// The outcome of all acknowledged operations.
#[derive(Default)]
struct Written {
    held: BTreeMap<u64, Place>,
    freed: BTreeSet<u64>,
}

fn write_through_outage(trial: &Trial<'_>, target: &dyn Target, mut make: impl FnMut(Outage)) -> Written {
    let (is_over, count) = (&AtomicBool::new(false), &AtomicU64::new(0));
    let mut all = Written::default();
    thread::scope(|scope| {
        let writers = (1..=WRITER_COUNT).map(|number| scope.spawn(move || write_until(target, number, is_over, count)));
        let writers: Vec<_> = writers.collect();
        // Ends the writers even if an assertion fails here: otherwise the scope would wait for them forever.
        let stop = SetOnDrop(is_over);
        let wait_for_more = |what: &str| {
            let enough = count.load(Ordering::Relaxed) + FRAMES_AROUND_OUTAGE;
            wait_until(what, || is_over.load(Ordering::Relaxed) || count.load(Ordering::Relaxed) >= enough);
        };
        wait_for_more("frames are acknowledged before the outage");
        make(Outage::Begins);
        assert_sets_aside(&target.check_again().expect_err("the place is unreachable"));
        let opened = trial.kind.open(&trial.settings, &trial.owner()).expect("the place may come back");
        assert_sets_aside(&opened.trouble.expect("the place is unreachable"));
        make(Outage::Ends);
        wait_until("the target works again", || target.check_again().is_ok());
        wait_for_more("frames are acknowledged after the outage");
        drop(stop);
        for writer in writers {
            let Written { held, freed } = writer.join().expect("a writer that found only right answers");
            all.held.extend(held);
            all.freed.extend(freed);
        }
    });
    all
}

/// Appends, reads and frees until `is_over`. Counts acknowledged frames. Both atomics are relaxed, because no other data depends
/// on them: joining the writers makes their results visible.
fn write_until(target: &dyn Target, number: u64, is_over: &AtomicBool, count: &AtomicU64) -> Written {
    // A writer that panics ends the others.
    let _stop = SetOnDrop(is_over);
    let mut written = Written::default();
    let mut freeing = BTreeMap::new();
    for write in number * 1_000_000.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        match append(target, write, FRAME_BYTES) {
            Ok(place) => {
                written.held.insert(write, place);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => assert_sets_aside(&error),
        }
        if let Some((&write, &place)) = written.held.iter().nth(write as usize % MAX_FRAMES_OF_WRITER) {
            match read(target, place, write, 0, FRAME_BYTES) {
                Ok(raw) => assert!(raw == bytes(write, FRAME_BYTES), "frame {write} has changed"),
                Err(error) => assert_sets_aside(&error),
            }
        }
        if written.held.len() > MAX_FRAMES_OF_WRITER {
            freeing.extend(written.held.pop_first());
        }
        // Frames that could not be freed are freed again. They may be gone already.
        let places: Vec<Place> = freeing.values().copied().collect();
        match target.free(&places) {
            Ok(()) => written.freed.extend(std::mem::take(&mut freeing).into_keys()),
            Err(error) => assert_sets_aside(&error),
        }
        thread::sleep(WRITER_PAUSE);
    }
    written
}

/// Checks that the error speaks of the target, not of a frame, and that it may pass.
fn assert_sets_aside(error: &io::Error) {
    use io::ErrorKind::*;
    let means_something_else = matches!(
        error.kind(),
        NotFound | InvalidData | UnexpectedEof | StorageFull | ReadOnlyFilesystem | AlreadyExists | InvalidInput
    );
    assert!(!means_something_else, "the place is unreachable, but the error is {:?}: {error}", error.kind());
}

/// Sets a flag on drop, even when its thread panics. Relaxed: the flag carries no data.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < MAX_WAIT, "{what}: not after {MAX_WAIT:?}");
        thread::sleep(WRITER_PAUSE);
    }
}
