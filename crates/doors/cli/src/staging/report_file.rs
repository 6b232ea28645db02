//! The file of a report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use terrace::{OwnPlaces, Store, real_path, replace_durably};

use crate::output::path_name;

/// The results wait for their report to begin for at most this time.
const FIRST_REPORT_LIMIT: Duration = Duration::from_secs(10);

/// A file that a report may replace.
#[derive(Clone)]
pub struct ReportFile {
    path: PathBuf,
    writes: Arc<Writes>,
}

/// The writes of a report. A thread does them, because the place of the report may hang; if so, it ends with the process.
#[derive(Default)]
struct Writes {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    /// The text to write next. A newer one replaces it.
    next: Option<Vec<u8>>,
    /// The number of texts that were given, and of those, the one that was written last.
    given: u64,
    written: u64,
    /// The outcome of the last write that has ended.
    outcome: Option<io::Result<()>>,
    /// Whether a report of this command is there.
    has_begun: bool,
    /// Whether a report of an earlier command is there, which can be neither replaced nor removed.
    has_earlier: bool,
    has_writer: bool,
}

impl ReportFile {
    /// Checks that the path is free, or a regular file that is not the store's own. Follows links.
    pub fn at(store: &Store, path: &Path) -> Result<ReportFile> {
        let real = real_path(path);
        let check = || match fs::metadata(&real) {
            Ok(found) if !found.is_file() => bail!("it is no regular file, and would be replaced; name a file"),
            _ => Ok(OwnPlaces::of(store).check(&real)?),
        };
        check().with_context(|| format!("writing the report to {}", path_name(path)))?;
        Ok(ReportFile { path: real, writes: Arc::default() })
    }

    /// Fails if nothing answers at a path for a while.
    pub fn check_answers(path: &Path) -> Result<()> {
        let (sender, receiver) = sync_channel(1);
        let own_path = path.to_owned();
        // It cannot be ended while it waits, and ends with the process. Whether there is a file does not matter here.
        let look = move || drop((fs::metadata(real_path(&own_path)), sender.send(())));
        thread::Builder::new().name("report".into()).spawn(look).context("starting a thread")?;
        match receiver.recv_timeout(FIRST_REPORT_LIMIT) {
            Err(RecvTimeoutError::Timeout) => {
                bail!("{} does not answer; see that its file system does", path_name(path))
            }
            _ => Ok(()),
        }
    }

    /// Checks that this is not another file of the same command.
    pub fn check_apart(&self, other: &Path, what: &str) -> Result<()> {
        match real_path(other) == self.path {
            true => bail!("the report would replace {}, {what}; give it another name", path_name(other)),
            false => Ok(()),
        }
    }

    /// Returns whether there is a file that the report replaces.
    pub fn is_there(&self) -> bool {
        self.path.exists()
    }

    /// Returns whether a path ends with the same name, so that it may be the same file.
    pub fn has_name_of(&self, other: &Path) -> bool {
        self.path.file_name() == other.file_name()
    }

    /// Writes the first report. Where that fails, there is none: an earlier command's would pass for this one's.
    pub fn begin(&self, report: &impl Serialize) -> Result<()> {
        self.write(report, Some(FIRST_REPORT_LIMIT))
    }

    /// Writes a report, whole and durably. Fails if that takes longer than a limit; the report may come later then, unless a newer one does.
    pub fn write(&self, report: &impl Serialize, limit: Option<Duration>) -> Result<()> {
        let text = serde_json::to_vec_pretty(report)?;
        self.described(self.write_text(text, limit))
    }

    /// Waits until the last report that was given is written. Fails if that takes longer than a limit.
    pub fn wait_for_last(&self, limit: Duration) -> Result<()> {
        let number = self.writes.queue().given;
        self.described(self.writes.wait(number, Some(limit)))
    }

    fn described(&self, written: Result<()>) -> Result<()> {
        let is_there = |queue: &Queue| queue.has_begun || queue.has_earlier;
        written.with_context(|| match is_there(&self.writes.queue()) {
            true => format!("the report {} is not current", path_name(&self.path)),
            false => format!("there is no report {}", path_name(&self.path)),
        })
    }

    fn write_text(&self, text: Vec<u8>, limit: Option<Duration>) -> Result<()> {
        let number = self.writes.give(text);
        if !std::mem::replace(&mut self.writes.queue().has_writer, true) {
            let (writes, path) = (Arc::clone(&self.writes), self.path.clone());
            thread::Builder::new().name("report".into()).spawn(move || writes.write_all(&path))?;
        }
        self.writes.wait(number, limit)
    }
}

impl Writes {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        // A thread that panicked while it held it has changed single fields only.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a text to the writer. Returns its number.
    fn give(&self, text: Vec<u8>) -> u64 {
        let mut queue = self.queue();
        queue.next = Some(text);
        queue.given += 1;
        self.changed.notify_all();
        queue.given
    }

    /// Writes each text that is given, one after another: an older one never replaces a newer one.
    fn write_all(&self, path: &Path) {
        let mut queue = self.queue();
        loop {
            let (Some(text), number) = (queue.next.take(), queue.given) else {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let outcome = replace_durably(path, text);
            queue = self.queue();
            if outcome.is_err() && !queue.has_begun {
                // This may hang.
                drop(queue);
                let removed = fs::remove_file(path);
                queue = self.queue();
                queue.has_earlier = removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
            }
            queue.has_begun |= outcome.is_ok();
            (queue.written, queue.outcome) = (number, Some(outcome));
            self.changed.notify_all();
        }
    }

    /// Waits until a text, or a newer one, is written.
    fn wait(&self, number: u64, limit: Option<Duration>) -> Result<()> {
        let is_pending = |queue: &mut Queue| queue.written < number;
        let queue = self.queue();
        let mut queue = match limit {
            Some(limit) => {
                self.changed.wait_timeout_while(queue, limit, is_pending).unwrap_or_else(PoisonError::into_inner).0
            }
            None => self.changed.wait_while(queue, is_pending).unwrap_or_else(PoisonError::into_inner),
        };
        match is_pending(&mut queue) {
            true => bail!(
                "it has not ended for {} s; see that its file system answers",
                limit.unwrap_or_default().as_secs()
            ),
            false => Ok(queue.outcome.take().unwrap_or(Ok(()))?),
        }
    }
}
