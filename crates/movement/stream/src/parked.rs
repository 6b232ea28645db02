//! Operations on parked destinations: retry them, drop their pending requests, or forget their progress.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use terrace::{Attributes, replace};

use crate::entry::Position;
use crate::ledger::Mark;
use crate::log::LOG_SOURCE_NAME;
use crate::request::{Name, escape, unescape};
use crate::stream::Stream;
use crate::{Error, Result};

/// The suffix of the file in which other processes ask the running process to retry destinations.
const RETRY_REQUESTS_SUFFIX: &str = ".again";
/// The folder of the same requests where several nodes share the store.
const RETRY_FOLDER: &str = "/again";

/// The requests that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The number of requests.
    pub requests: u64,
    /// Their size in bytes.
    pub bytes: u64,
}

impl Stream {
    /// Requests a retry of these destinations. Returns whether a process runs the stream and retries them now; otherwise the next run
    /// does.
    pub fn retry(&self, destinations: &[Name]) -> Result<bool> {
        match self.lock() {
            Ok(exclusive) => {
                let ledger = self.ledger_of(&exclusive.right);
                destinations.iter().try_for_each(|destination| ledger.unpark(destination))?;
                Ok(false)
            }
            Err(Error::Running(_)) if self.store().is_shared() => {
                for destination in destinations {
                    let mut batch = self.store().batch();
                    batch.replace(
                        &[&self.retry_folder(), b"/".as_slice(), &escape(destination)].concat(),
                        0,
                        Attributes::now(),
                    )?;
                    batch.commit()?;
                }
                Ok(true)
            }
            Err(Error::Running(_)) => {
                let path = self.path(RETRY_REQUESTS_SUFFIX);
                let mut wishes: HashSet<Vec<u8>> = load(&path);
                wishes.extend(destinations.iter().map(|destination| destination.to_vec()));
                let text = serde_json::to_vec(&wishes).unwrap_or_default();
                let written = replace(&path, text);
                written.map_err(Error::io(format!("writing {}", path.display())))?;
                Ok(true)
            }
            Err(e) => Err(e),
        }
    }

    /// The key below which processes of other nodes request retries.
    fn retry_folder(&self) -> Vec<u8> {
        self.key(RETRY_FOLDER)
    }

    /// Takes those of the retries that other processes have requested that `has` says are this process's.
    pub(crate) fn take_retry_requests(&self, has: &dyn Fn(&Name) -> bool) -> Result<Vec<Name>> {
        if !self.store().is_shared() {
            return Ok(self.take_local_requests());
        }
        let folder = self.retry_folder();
        let mut taken = Vec::new();
        for (key, _) in self.store().list(&folder, None, usize::MAX)? {
            let name: Name = unescape(key.get(folder.len() + 1..).unwrap_or_default()).into();
            if has(&name) {
                self.store().remove(&key)?;
                taken.push(name);
            }
        }
        Ok(taken)
    }

    fn take_local_requests(&self) -> Vec<Name> {
        let path = self.path(RETRY_REQUESTS_SUFFIX);
        let wishes = load(&path);
        if !wishes.is_empty() {
            // If the file cannot be removed, the destinations are only retried once more.
            let _ = fs::remove_file(&path);
        }
        wishes.into_iter().map(|name| name.as_slice().into()).collect()
    }

    /// Drops all pending requests of the log for these destinations.
    ///
    /// # Errors
    /// [`Error::Running`] where a process runs the stream.
    pub fn drop_waiting(&self, destinations: &[Name]) -> Result<BTreeMap<Name, Dropped>> {
        let exclusive = self.lock()?;
        let ledger = self.ledger_of(&exclusive.right);
        let mut dropped: BTreeMap<Name, Dropped> =
            destinations.iter().map(|name| (name.clone(), Dropped::default())).collect();
        let mut last: BTreeMap<Name, Position> = BTreeMap::new();
        for page in self.log.pages()? {
            for (position, request) in self.log.waiting(&page, &ledger)? {
                if let Some(count) = dropped.get_mut(&request.destination) {
                    count.requests += 1;
                    count.bytes += request.bytes.len() as u64;
                    last.insert(request.destination, position);
                }
            }
        }
        for destination in destinations {
            let mut mark = ledger.mark(destination)?.unwrap_or_default();
            mark.parked = None;
            if let Some(last) = last.get(destination) {
                tracing::info!(
                    destination = %String::from_utf8_lossy(destination), requests = dropped.get(destination).map_or(0, |one| one.requests),
                    "requests are thrown away, as was asked for"
                );
                mark.done.insert(LOG_SOURCE_NAME.into(), *last);
            }
            ledger.set(destination, mark)?;
        }
        self.log.trim_done(&ledger)?;
        Ok(dropped)
    }

    /// Forgets the progress, the parked state and the owning directory of these destinations. The next append goes behind the bytes that
    /// exist then. Requests that were delivered are not delivered again.
    ///
    /// # Errors
    /// [`Error::Running`] where a process runs the stream.
    pub fn forget(&self, destinations: &[Name]) -> Result<()> {
        let exclusive = self.lock()?;
        let ledger = self.ledger_of(&exclusive.right);
        for destination in destinations {
            let mark = ledger.mark(destination)?.unwrap_or_default();
            ledger.set(destination, Mark { watermark: None, cut: None, parked: None, ..mark })?;
            self.owners().forget(destination)?;
        }
        Ok(())
    }
}

fn load(path: &std::path::Path) -> HashSet<Vec<u8>> {
    fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}
