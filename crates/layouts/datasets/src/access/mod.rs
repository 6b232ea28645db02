//! How a dataset is read: which fields, in which shape, how often. `advise` proposes layouts by that.
//!
//! A read notes its range in memory. About once a second, and when the dataset is closed, the process adds what it has noted to a file of
//! the store. A process that is killed loses the rest, and an error loses accesses, but fails no read.

mod kept;
mod run;
mod table;

use std::path::Path;
use std::process;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix_futex_sync::Mutex;
use terrace_views::convert::Slab;
use xxhash_rust::xxh3::xxh3_64;

use crate::loaded::Loaded;
use kept::{KeptAccesses, Patience};
use table::Table;

pub use run::Run;
pub use table::Access;

/// The number of runs that may go on at the same time, as those of several threads do.
const MAX_OPEN_RUNS: usize = 8;
/// The number of ended runs after which their shapes are computed.
const MAX_ENDED_RUNS: usize = 256;
/// The shape of a run of many parts is that of this number of them.
const MAX_SHAPED_PARTS: u64 = 16;
/// The file is updated after this time at the earliest.
const KEEP_INTERVAL: Duration = Duration::from_secs(1);
/// A run may go on while the last request is not older than this.
const MAX_RUN_PAUSE: Duration = Duration::from_secs(10);

/// Notes the reads of a dataset.
pub struct Accesses {
    /// A leaf lock, held for a look at a few runs; about once a second, while a small file is written.
    noted: Mutex<Noted>,
    kept: KeptAccesses,
    /// The process that notes. The child of a fork has its parent's notes, which the parent keeps.
    process: u32,
}

struct Noted {
    /// The runs that may go on, each with the time of its last request.
    open: Vec<(Run, Instant)>,
    ended: Vec<Run>,
    /// The accesses that the file does not have yet.
    new: Table,
    /// The time of the last update of the file.
    kept_at: Instant,
}

/// The fields that an access reads, and the indices of their elements.
pub type Shape = Vec<Slab>;

impl Accesses {
    /// Makes notes for a dataset of the store in this directory.
    pub fn new(store: &Path, dataset: &str) -> Accesses {
        let noted = Noted { open: Vec::new(), ended: Vec::new(), new: Table::default(), kept_at: Instant::now() };
        Accesses { noted: Mutex::new(noted), kept: KeptAccesses::new(store, dataset), process: process::id() }
    }

    /// Returns the distance of the requests that are expected to follow one, if those before it lie at one distance.
    pub fn foresee(&self, view: &str, offset: u64, length: u64) -> Option<u64> {
        let noted = self.noted.lock();
        noted.open.iter().rev().find(|(run, _)| run.expects(view, offset, length)).map(|(run, _)| run.stride)
    }

    /// Notes a read of a view's bytes.
    pub fn note(&self, loaded: &Loaded, view: &str, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let now = Instant::now();
        let noted = &mut *self.noted.lock();
        noted.note(now, view, offset, length);
        if noted.ended.len() >= MAX_ENDED_RUNS {
            noted.absorb(loaded);
        }
        if now.duration_since(noted.kept_at) >= KEEP_INTERVAL {
            noted.end_runs(|last| now.duration_since(last) > MAX_RUN_PAUSE);
            noted.keep(loaded, &self.kept, Patience::AtOnce);
        }
    }

    /// Returns all accesses that are known, also to other processes of this machine, with their shapes.
    pub fn list(&self, loaded: &Loaded) -> Vec<(Access, Shape)> {
        let noted = &mut *self.noted.lock();
        noted.end_runs(|_| true);
        noted.keep(loaded, &self.kept, Patience::Wait);
        let mut all = self.kept.read(loaded.object.id);
        // Those that could not be kept.
        all.merge(noted.new.clone());
        let known = all.kinds_at(now()).into_iter().filter_map(|access| {
            let shape = shape_of(loaded, &access.run())?;
            // A view of the same name may show something else by now.
            (hash(loaded, &shape) == access.shape).then_some((access, shape))
        });
        known.collect()
    }

    /// Keeps what was noted, as the last user of the dataset does.
    pub fn close(&mut self, loaded: &Loaded) {
        // The child of a fork does not lock: a thread of its parent may have held the lock when it began.
        if self.process == process::id() {
            let noted = self.noted.get_mut();
            noted.end_runs(|_| true);
            noted.keep(loaded, &self.kept, Patience::Wait);
        }
    }

    /// Forgets all accesses, since the dataset is removed.
    pub fn forget(&self) {
        let noted = &mut *self.noted.lock();
        (noted.open, noted.ended, noted.new) = Default::default();
        self.kept.remove();
    }
}

impl Noted {
    fn note(&mut self, now: Instant, view: &str, offset: u64, length: u64) {
        let goes_on =
            self.open.iter_mut().rev().find_map(|(run, last)| run.extend(view, offset, length).then_some(last));
        if let Some(last) = goes_on {
            *last = now;
            return;
        }
        if let Some((run, last)) = self.open.last_mut()
            && run.pair(view, offset, length)
        {
            *last = now;
            return;
        }
        if self.open.len() >= MAX_OPEN_RUNS {
            let oldest =
                self.open.iter().enumerate().min_by_key(|(_, (_, last))| *last).map_or(0, |(number, _)| number);
            self.ended.extend(self.open.remove(oldest).0.split());
        }
        self.open.push((Run::new(view, offset, length), now));
    }

    /// Ends the runs for whose last request `is_over` returns true.
    fn end_runs(&mut self, is_over: impl Fn(Instant) -> bool) {
        for (run, _) in self.open.extract_if(.., |(_, last)| is_over(*last)) {
            self.ended.extend(run.split());
        }
    }

    /// Computes the shapes of the ended runs.
    fn absorb(&mut self, loaded: &Loaded) {
        let at = now();
        for run in self.ended.drain(..) {
            if let Some(shape) = shape_of(loaded, &run) {
                self.new.add(Access::new(run, hash(loaded, &shape), at));
            }
        }
    }

    /// Adds what is new to the file.
    fn keep(&mut self, loaded: &Loaded, kept: &KeptAccesses, patience: Patience) {
        self.kept_at = Instant::now();
        self.absorb(loaded);
        if self.new.is_empty() {
            return;
        }
        match kept.add(loaded.object.id, &self.new, patience) {
            Ok(true) => self.new = Table::default(),
            // They are kept for the next time, and the table does not grow.
            Ok(false) => {}
            Err(error) => tracing::debug!(%error, dataset = loaded.name, "accesses could not be kept"),
        }
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// Returns the elements that a run reads, if its view is there.
fn shape_of(loaded: &Loaded, run: &Run) -> Option<Shape> {
    let elements = loaded.elements(loaded.view(&run.view).ok()?)?;
    let looked_at = run.count.min(MAX_SHAPED_PARTS);
    let mut shape: Shape = Vec::new();
    for number in 0..looked_at {
        // Evenly from the first to the last part.
        let part = match looked_at == run.count {
            true => number,
            false => (run.count - 1).checked_mul(number)? / (looked_at - 1),
        };
        let start = part.checked_mul(run.stride)?.checked_add(run.offset)?;
        for slab in elements.shown(start..start.checked_add(run.length)?).ok()? {
            match shape.iter_mut().find(|known| known.leaf == slab.leaf) {
                Some(known) => {
                    for (all, new) in known.indices.iter_mut().zip(slab.indices) {
                        *all = all.start.min(new.start)..all.end.max(new.end);
                    }
                }
                None => shape.push(slab),
            }
        }
    }
    shape.sort_unstable_by_key(|slab| slab.leaf);
    Some(shape)
}

/// Returns a hash of the fields and, of each dimension, whether one index is read, all, or about how many.
fn hash(loaded: &Loaded, shape: &Shape) -> u64 {
    let leaves = &loaded.declared.model.dataset.leaves;
    let mut words = Vec::new();
    for slab in shape {
        words.extend((slab.leaf as u64).to_le_bytes());
        let lengths = leaves.get(slab.leaf).map_or(&[][..], |leaf| &leaf.lengths);
        for (indices, length) in slab.indices.iter().zip(lengths) {
            let (count, length) = (indices.end - indices.start, length.at(&loaded.sizes));
            words.push(if count == length { u8::MAX } else { count.checked_ilog2().map_or(0, |log| log as u8 + 1) });
        }
    }
    xxh3_64(&words)
}
