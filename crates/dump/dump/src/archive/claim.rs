//! The right to change a dump in an archive, which one job has at a time.
//!
//! A job that has it rewrites a file of its own, every few seconds. A job that finds the file of another one watches it: if the file changes, the
//! other job is at work; if it does not for [`WATCH_MS`], that job has ended, and the file is removed. So the clocks of two machines are never
//! compared. A job that could not rewrite its file for [`MAX_RENEWAL_AGE_MS`], which is less, does not change the archive any more.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace::fail;

use super::Archive;
use crate::names::{self, Part};
use crate::{Error, Result};

/// The time between two renewals.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(5);
/// The last renewal is at most this old while a job changes the archive.
const MAX_RENEWAL_AGE_MS: u64 = 20_000;
/// The file of a job that has ended is watched for this long.
const WATCH_MS: u64 = 30_000;
/// The interval at which the files of others are read.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Held by a job that changes a dump in an archive, until it is dropped.
pub struct Claim {
    renewed: Arc<Renewed>,
    /// Dropped before the thread is awaited, which ends the thread.
    work: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The file of this job, and when it was last written.
struct Renewed {
    archive: Archive,
    file: String,
    last: Mutex<Instant>,
    is_lost: AtomicBool,
}

impl Claim {
    /// Takes the right. Waits for a while if a job has left its file behind.
    ///
    /// # Errors
    /// [`Error::Refused`] if another job has it, or takes it at the same time.
    pub fn take(archive: &Archive, name: &str) -> Result<Claim> {
        let number = RandomState::new().hash_one(name);
        let file = format!("{}/{number:016x}", names::part_prefix(name, Part::Claims));
        let last = Mutex::new(Instant::now());
        let renewed = Renewed { archive: archive.clone(), file, last, is_lost: AtomicBool::new(false) };
        // Before it is looked for others: of two jobs that begin at once, at least one sees the other.
        renewed.write(0)?;
        let renewed = Arc::new(renewed);
        let (work, end) = mpsc::channel();
        let thread = thread::spawn({
            let renewed = renewed.clone();
            move || renewed.renew_until(&end)
        });
        let claim = Claim { renewed, work: Some(work), thread: Some(thread) };
        claim.wait_for_ended(name)?;
        Ok(claim)
    }

    /// Waits until no file of another job is there. Removes those of jobs that have ended.
    fn wait_for_ended(&self, name: &str) -> Result<()> {
        let Renewed { archive, file, .. } = &*self.renewed;
        let watch = Duration::from_millis(fail::limit("TERRACE_FLOW_WATCH_MS", WATCH_MS));
        let own_number = file.rsplit('/').next().unwrap_or(file);
        let mut seen: BTreeMap<String, (Vec<u8>, Instant)> = BTreeMap::new();
        loop {
            let mut others = archive.list(name, Part::Claims)?;
            // The name of a file that is being written contains its own, too.
            others.retain(|other| !other.contains(own_number));
            if others.is_empty() {
                return Ok(());
            }
            for other in others {
                let Some(says) = archive.read_if_there(&other)? else { continue };
                let who = String::from_utf8_lossy(&says).into_owned();
                match seen.get(&other) {
                    Some((before, _)) if *before != says => {
                        return Err(Error::Refused(format!(
                            "another job, {who}, lets dump {name:?} flow to {archive}; wait until that ends, or give this job \
                             another name or place"
                        )));
                    }
                    Some((_, since)) if since.elapsed() >= watch => {
                        tracing::warn!(
                            "{other} in {archive} was left by a job that has ended, {who}; it is removed after {} s without a change",
                            watch.as_secs()
                        );
                        archive.delete(name, Part::Claims, vec![other])?;
                    }
                    Some(_) => {}
                    None => drop(seen.insert(other, (says, Instant::now()))),
                }
            }
            thread::sleep(POLL_INTERVAL.min(watch / 4));
        }
    }

    /// Returns the archive that this job may change.
    pub fn archive(&self) -> &Archive {
        &self.renewed.archive
    }

    /// Checks that no other job can have taken this one for ended.
    ///
    /// # Errors
    /// [`Error::Refused`] if one can.
    pub fn check(&self) -> Result<()> {
        let Renewed { archive, file, .. } = &*self.renewed;
        match self.renewed.may_be_taken() {
            false => Ok(()),
            true => Err(Error::Refused(format!(
                "{file} in {archive} could not be rewritten for {} s, or another job has removed it; that job may let the dump flow \
                 there now; let it flow again",
                MAX_RENEWAL_AGE_MS / 1000
            ))),
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.work = None;
        // Ignoring a panic of the thread is safe: it only renews.
        let _ = self.thread.take().map(JoinHandle::join);
        let Renewed { archive, file, .. } = &*self.renewed;
        if let Err(error) = archive.place.delete(vec![file.clone()]) {
            tracing::warn!(
                "the next job that lets a dump flow to {archive} waits, because {file} was not removed: {error}"
            );
        }
    }
}

impl Renewed {
    /// Writes the file, which says who this is.
    fn write(&self, count: u64) -> Result<()> {
        // Taken before: the file is at least as new as it.
        let now = Instant::now();
        let host = rustix::system::uname();
        let says = format!("process {} on {}, renewal {count}", std::process::id(), host.nodename().to_string_lossy());
        self.archive.outcome("writing", &self.file, self.archive.place.write(&self.file, says.as_bytes()))?;
        *self.last.lock() = now;
        Ok(())
    }

    fn renew_until(&self, end: &Receiver<()>) {
        for count in 1.. {
            if end.recv_timeout(RENEWAL_INTERVAL) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let is_there = self.archive.length(&self.file);
            // Once another job may have taken over, a new file would look like a right that this one has kept.
            if self.may_be_taken() || matches!(is_there, Ok(None)) {
                self.is_lost.store(true, Ordering::Relaxed);
                return;
            }
            if let Err(error) = is_there.and_then(|_| self.write(count)) {
                tracing::warn!("it is tried again: {error}");
            }
        }
    }

    fn may_be_taken(&self) -> bool {
        let most = Duration::from_millis(fail::limit("TERRACE_FLOW_RENEWAL_MS", MAX_RENEWAL_AGE_MS));
        // Relaxed: it says no more than the time does, and a thread that does not see it yet is as late as one that has just checked.
        self.is_lost.load(Ordering::Relaxed) || self.last.lock().elapsed() > most
    }
}
