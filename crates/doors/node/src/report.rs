//! The node's reports on its store. A report is cached for a while, so that frequent requests cost little.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace::Result;
use terrace::report::{Health, Status};
use terrace_datasets::Datasets;

use crate::held::Held;

/// The shortest time for which a report is cached.
const MIN_REPORT_LIFE: Duration = Duration::from_millis(500);
/// A report is cached for at least this multiple of the time that it took to make. It walks over all objects and pending replicas.
const REPORT_LIFE_FACTOR: u32 = 10;

/// The state of a store at one moment.
pub struct Report {
    pub status: Status,
    pub health: Health,
    /// The sequence of the last commit, and of the last one that a power cut cannot undo.
    pub commits: (u64, u64),
    /// The store's directory, printed lossily.
    pub dir: String,
}

/// Takes reports, one at a time.
pub struct Reporter {
    held: Arc<Held>,
    /// The last report, and the time until which it is returned again. Held while a report is made, so that all who ask meanwhile get that one.
    last: Mutex<Option<(Instant, Arc<Report>)>>,
}

impl Reporter {
    /// Creates a reporter on the held store.
    pub fn new(held: Arc<Held>) -> Reporter {
        Reporter { held, last: Mutex::default() }
    }

    /// Returns a report. It is up to half a second old, or up to ten times the time that it took to make. None while the store is
    /// being closed.
    pub fn report(&self) -> Result<Option<Arc<Report>>> {
        let mut last = self.last.lock();
        if let Some((_, report)) = last.as_ref().filter(|(until, _)| Instant::now() < *until) {
            return Ok(Some(report.clone()));
        }
        let held = self.held.read();
        let Some(store) = &*held else { return Ok(None) };
        let begun = Instant::now();
        let status = store.status()?;
        let mut health = store.health_with(&status)?;
        health.add(Datasets::new(store).findings());
        let report = Report { status, health, commits: store.commits()?, dir: store.dir().display().to_string() };
        let report = Arc::new(report);
        let life = (begun.elapsed() * REPORT_LIFE_FACTOR).max(MIN_REPORT_LIFE);
        *last = Some((Instant::now() + life, report.clone()));
        Ok(Some(report))
    }
}
