//! The outcome of a job's end, and the thread that tells it if the command itself cannot: it waits for a file system that does not answer.
//!
//! A thread that waits for one cannot be ended, nor can its process (`supervisor`).

use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::clock::Clock;
use super::report::EndReport;
use super::report_file::ReportFile;
use super::steps::Steps;
use super::supervisor;
use crate::FOUND_BAD;
use crate::errors::describe;
use crate::output::{Show, complain, count, name};

const MAX_SHOWN_OBJECTS: usize = 20;
/// The time after the deadline in which the batch in progress may end by itself.
const DEADLINE_GRACE: Duration = Duration::from_secs(5);
/// After SIGTERM, the batch in progress is given up if nothing of it moves for this time. Slurm's is 30 s from SIGTERM to SIGKILL.
const STALL_LIMIT: Duration = Duration::from_secs(20);
/// The time in which the report must be written then.
const LAST_REPORT_LIMIT: Duration = Duration::from_secs(5);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The state that the command and the thread that watches it share.
pub struct Ending {
    pub steps: Steps,
    to: PathBuf,
    until: Option<Instant>,
    /// Set by SIGTERM.
    stops: Arc<AtomicBool>,
    show: Show,
    /// None while the objects are not known. Held for a change of it only, never for a call that may hang.
    report: Mutex<Option<EndReport>>,
    /// Whether all objects were tried, and are looked at once more.
    pub looks_again: AtomicBool,
    pub file: OnceLock<ReportFile>,
    /// Why there can be no report, though one is wanted.
    pub no_report: OnceLock<String>,
    is_told: AtomicBool,
}

impl Ending {
    /// Begins to watch the command.
    pub fn begin(to: &Path, limit: Option<Duration>, stops: Arc<AtomicBool>, show: Show) -> Result<Arc<Ending>> {
        let ending = Arc::new(Ending {
            steps: Steps::new(),
            to: to.to_owned(),
            until: limit.map(|limit| Instant::now() + limit),
            stops,
            show,
            report: Mutex::default(),
            looks_again: AtomicBool::new(false),
            file: OnceLock::new(),
            no_report: OnceLock::new(),
            is_told: AtomicBool::new(false),
        });
        let watched = Arc::clone(&ending);
        let watch = move || watched.watch();
        thread::Builder::new().name("watch".into()).spawn(watch).context("starting a thread")?;
        Ok(ending)
    }

    pub fn clock(&self) -> Clock<'_> {
        Clock { until: self.until, stops: &self.stops, steps: &self.steps }
    }

    /// Sets the report.
    pub fn set_report(&self, report: EndReport) {
        *self.lock() = Some(report);
    }

    /// FileChanges the report.
    pub fn change_report(&self, change: impl FnOnce(&mut EndReport)) {
        if let Some(report) = self.lock().as_mut() {
            change(report);
        }
    }

    /// Returns a copy of the report.
    pub fn report(&self) -> EndReport {
        self.lock().clone().unwrap_or_else(|| EndReport::begin(&self.to, 0, std::iter::empty()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<EndReport>> {
        // A thread that panicked ends the command with an error.
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the outcome, and returns whether all is safe. Never returns if the watching thread tells it.
    pub fn tell_outcome(&self, report: &EndReport) -> Result<bool> {
        if self.is_told.swap(true, Ordering::AcqRel) {
            // It ends the process.
            loop {
                thread::park();
            }
        }
        self.print_and_write(report, None)?;
        Ok(report.is_safe())
    }

    fn print_and_write(&self, report: &EndReport, limit: Option<Duration>) -> Result<()> {
        for (key, reason) in report.lacking().take(MAX_SHOWN_OBJECTS) {
            complain(&format!("{}: {reason}", name(key.as_bytes())));
        }
        let others = report.lacking().skip(MAX_SHOWN_OBJECTS).count() as u64;
        if others > 0 {
            complain(&format!("{} more, which `--report FILE` names", count(others, "object")));
        }
        // Before the file, for which there may be no room.
        self.show.result(report, &report.describe())?;
        if let Some(reason) = self.no_report.get() {
            bail!("there is no report: {reason}");
        }
        let _step = self.steps.begin("writing the report".into());
        self.file.get().map_or(Ok(()), |file| file.write(report, limit))
    }

    /// Waits until the command may not go on, and ends the process.
    fn watch(&self) -> ! {
        let why_over = loop {
            thread::sleep(CHECK_INTERVAL);
            if let Some(reason) = self.why_given_up() {
                break reason;
            }
        };
        let step = self.steps.describe_oldest().unwrap_or_else(|| "the command has not ended".into());
        complain(&format!("{step}; see that what it waits for answers, and run the command again"));
        let told = match self.is_told.swap(true, Ordering::AcqRel) {
            // All that is missing is the end of the report, or of the store.
            true => self.file.get().map_or(Ok(()), |file| file.wait_for_last(LAST_REPORT_LIMIT)),
            false => self.tell_given_up(&format!("{step}, and {why_over}")),
        };
        if let Err(error) = told {
            complain(&describe(&error));
        }
        supervisor::leave_outputs();
        process::exit(i32::from(FOUND_BAD));
    }

    /// Says why the command is given up. None if it may go on.
    fn why_given_up(&self) -> Option<&'static str> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until + DEADLINE_GRACE);
        // Relaxed: no other data depends on the flag.
        let is_stalled = self.stops.load(Ordering::Relaxed) && self.steps.idle_time() >= STALL_LIMIT;
        if is_late || is_stalled { self.clock().why_over() } else { None }
    }

    fn tell_given_up(&self, reason: &str) -> Result<()> {
        let mut report = self.lock().clone().unwrap_or_else(|| EndReport::of_unknown(&self.to, reason.to_owned()));
        report.give_up(reason, self.looks_again.load(Ordering::Acquire));
        self.print_and_write(&report, Some(LAST_REPORT_LIMIT))
    }
}
