//! What is done with destinations that were given up: they are tried again, or what waits for them is thrown away, or it is
//! forgotten how far they have got.

use std::collections::{BTreeMap, HashSet};
use std::fs;

use crate::entry::Position;
use crate::ledger::Mark;
use crate::log::SOURCE;
use crate::request::Name;
use crate::stream::Stream;
use crate::{Error, Result};

/// How the files end in which others ask who runs a stream to try destinations again.
const WISHES: &str = ".again";

/// What was thrown away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Stream {
    /// Has these destinations tried again: at once where a process runs the stream, which is the answer, else by the next run.
    pub fn retry(&self, destinations: &[Name]) -> Result<bool> {
        match self.lock() {
            Ok(_lock) => {
                destinations.iter().try_for_each(|destination| self.ledger().unpark(destination))?;
                Ok(false)
            }
            Err(Error::Running(_)) => {
                let path = self.path(WISHES);
                let mut wishes: HashSet<Vec<u8>> = load(&path);
                wishes.extend(destinations.iter().map(|destination| destination.to_vec()));
                let new = path.with_extension(format!("new-{}", std::process::id()));
                let text = serde_json::to_vec(&wishes).unwrap_or_default();
                let written = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
                written.map_err(Error::io(format!("writing {}", path.display())))?;
                Ok(true)
            }
            Err(e) => Err(e),
        }
    }

    /// The destinations that others want tried again.
    pub(crate) fn take_wishes(&self) -> Vec<Name> {
        let path = self.path(WISHES);
        let wishes = load(&path);
        if !wishes.is_empty() {
            // Where it cannot be removed they are tried again once more.
            let _ = fs::remove_file(&path);
        }
        wishes.into_iter().map(|name| name.as_slice().into()).collect()
    }

    /// Throws away all requests of the log that wait for these destinations.
    ///
    /// # Errors
    /// [`Error::Running`] where a process runs the stream.
    pub fn drop_waiting(&self, destinations: &[Name]) -> Result<BTreeMap<Name, Dropped>> {
        let _lock = self.lock()?;
        let ledger = self.ledger();
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
                mark.done.insert(SOURCE.into(), *last);
            }
            ledger.set(destination, mark)?;
        }
        self.log.trim_done(&ledger)?;
        Ok(dropped)
    }

    /// Forgets how far these destinations have got, that they were given up, and to which directory they belong. The next append goes behind whatever is there then. What was
    /// done is not done again.
    ///
    /// # Errors
    /// [`Error::Running`] where a process runs the stream.
    pub fn forget(&self, destinations: &[Name]) -> Result<()> {
        let _lock = self.lock()?;
        let ledger = self.ledger();
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
