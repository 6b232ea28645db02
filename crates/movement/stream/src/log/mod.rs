//! The log of a stream: pages of framed requests, each an object of the store.
//!
//! A page's key holds the sequence of its first request and the number of its requests, so the order of keys is the order of arrival.
//! Requests that arrive while a page is being written share the next page. A page is written atomically, and removed when all its
//! requests are done, independently of its neighbours; the store frees its space like that of any other object.
//!
//! The received requests of a producer are found in the pages and, for removed pages, in a record of the producer. The commit that
//! removes pages updates that record.

mod group;
mod open_page;
mod origins;
mod pages;
mod source;

pub use group::Submitted;
pub use pages::Page;
pub use source::LogSource;

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use rustix_futex_sync::{Condvar, Mutex};
use terrace::{Ack, Attributes, Locked, Object, PutOptions, Store};

use crate::entry::Position;
use crate::ledger::Ledger;
use crate::request::{Framed, Name, Origin, Request};
use crate::{Error, Result};
use group::Queue;
use origins::{Origins, SequencesByProducer};
use pages::Pages;

/// The outcome of an appended request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// The request was accepted.
    New,
    /// The request was a duplicate of an earlier one.
    Known,
}

/// The log of a stream. Many processes may append to it; one process consumes it.
pub struct Log {
    store: Store,
    folder: Vec<u8>,
    lock: PathBuf,
    ack: Ack,
    /// Held for a look at the queue or a change of it, and released during waits and while a page is written. `Waiting::done` may
    /// be taken under it, and no other lock.
    queue: Mutex<Queue>,
    /// Signals that a page was written.
    page_written: Condvar,
    /// Signals that requests wait to be written.
    requests_waiting: Condvar,
    /// Held while pages are appended, with I/O. Taken before the file lock of `lock_end`, which does the same among processes.
    end: Mutex<End>,
    /// The number of pages that this process has appended; readers wait for it to change. A leaf.
    appended: Mutex<u64>,
    more: Condvar,
}

/// The end of the log as far as this process has seen.
#[derive(Default)]
struct End {
    pages: Pages,
    origins: Origins,
    next: u64,
    /// The generation of the record that holds the trimmed position.
    trimmed: Option<u64>,
    /// The record of the end of a log that several nodes share, if there is one.
    record: Option<Object>,
}

/// The log's name in the marks of destinations.
pub const LOG_SOURCE_NAME: &str = "log";
const HEAD_KEY: &[u8] = b"/head";
/// Each page of a log that several nodes share is committed with a change of this record, so that no two have the same sequences.
const END_KEY: &[u8] = b"/end";
const LOG_FOLDER: &[u8] = b"/log";
const NEXT_ATTRIBUTE: &str = "next";
/// A page is written again this often if the node that took its bytes has begun again.
const MAX_STALE_PAGES: u32 = 20;
/// The time between two of these writes.
const STALE_PAUSE: Duration = Duration::from_millis(500);

impl Log {
    /// Opens the log of the stream whose objects lie below `folder`. Processes serialise their appends by locking the file `lock`.
    pub fn open(store: &Store, folder: &[u8], lock: PathBuf, ack: Ack) -> Log {
        Log {
            store: store.internal(),
            folder: folder.to_vec(),
            lock,
            ack,
            queue: Mutex::default(),
            page_written: Condvar::new(),
            requests_waiting: Condvar::new(),
            end: Mutex::default(),
            appended: Mutex::default(),
            more: Condvar::new(),
        }
    }

    fn below(&self, what: &[u8]) -> Vec<u8> {
        [&self.folder, what].concat()
    }

    /// Writes one page of these requests, without duplicates. If one request of a group is invalid, none of the group is written.
    fn write(&self, groups: &[&Vec<Framed>]) -> Result<Vec<Result<Vec<Accepted>>>> {
        terrace::fail::point("stream:appending");
        let mut end = self.end.lock();
        let end = &mut *end;
        let _turn = self.lock_end()?;
        let any_origin = groups.iter().any(|group| group.iter().any(|one| one.origin.is_some()));
        let mut stale_pages = 0;
        let accepted = loop {
            self.catch_up(end, any_origin)?;
            let (mut bytes, mut count) = (Vec::new(), 0);
            let accepted = groups.iter().map(|group| self.add_group(end, group, &mut bytes, &mut count)).collect();
            match self.write_page(end, &bytes, count) {
                Ok(()) => break accepted,
                Err(error) => {
                    // The cached end of the log includes requests that were not written; discard it and read the log again.
                    *end = End::default();
                    match error {
                        // Another node has appended a page, which this node's catalog has by now.
                        Error::Engine(terrace::Error::Conflict { .. }) if self.store.is_shared() => {}
                        // Nothing was changed. The next page goes to where the node is now.
                        Error::Engine(terrace::Error::Stale) if stale_pages < MAX_STALE_PAGES => {
                            stale_pages += 1;
                            std::thread::sleep(STALE_PAUSE);
                        }
                        error => return Err(error),
                    }
                }
            }
        };
        if self.ack == Ack::Durable {
            self.store.sync_placed()?;
        }
        Ok(accepted)
    }

    /// Adds all or none of a group's requests to a page, without duplicates.
    fn add_group(
        &self,
        end: &mut End,
        group: &[Framed],
        bytes: &mut Vec<u8>,
        count: &mut u64,
    ) -> Result<Vec<Accepted>> {
        let before = (bytes.len(), *count);
        let producers = group.iter().filter_map(|one| Some(&one.origin.as_ref()?.producer));
        let kept = end.origins.keep(producers);
        let mut add = |framed: &Framed| {
            if let Some(Origin { producer, sequence }) = &framed.origin {
                let window = end.origins.window(producer, &self.store, &self.folder)?;
                if window.contains(*sequence) {
                    return Ok(Accepted::Known);
                }
                if !window.reaches(*sequence) {
                    let (producer, missing) = (String::from_utf8_lossy(producer).into(), window.contiguous() + 1);
                    return Err(Error::TooFar { producer, sequence: *sequence, missing });
                }
                window.add(*sequence);
            }
            framed.encode(bytes)?;
            *count += 1;
            Ok(Accepted::New)
        };
        let accepted = group.iter().map(&mut add).collect::<Result<Vec<Accepted>>>();
        if accepted.is_err() {
            bytes.truncate(before.0);
            *count = before.1;
            end.origins.restore(kept);
        }
        accepted
    }

    fn write_page(&self, end: &mut End, bytes: &[u8], count: u64) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let page = Page { first: end.next, count };
        let key = page.key(&self.below(LOG_FOLDER));
        if self.store.is_shared() {
            self.put_shared_page(end, page, &key, bytes)?;
        } else {
            self.put_page(&key, bytes)?;
        }
        terrace::fail::point("stream:appended");
        end.next = page.end();
        end.pages.note_appended(key);
        // Changed under the lock and then signalled, so that a reader between its look and its wait does not miss it.
        *self.appended.lock() += 1;
        self.more.notify_all();
        Ok(())
    }

    fn put_page(&self, key: &[u8], bytes: &[u8]) -> Result<()> {
        let options = PutOptions {
            replicas: Some(1),
            ack: Some(Ack::Placed),
            create_new: true,
            attributes: Some(Attributes::now()),
            ..PutOptions::default()
        };
        self.store.put_bytes(key, bytes, &options)?;
        Ok(())
    }

    /// Commits a page if no other node has appended one meanwhile, with replicas on as many nodes as the store's rules ask for.
    ///
    /// # Errors
    /// [`terrace::Error::Conflict`] if another node has.
    fn put_shared_page(&self, end: &mut End, page: Page, key: &[u8], bytes: &[u8]) -> Result<()> {
        let end_key = self.below(END_KEY);
        let mut attributes = Attributes::now();
        attributes.user.insert(NEXT_ATTRIBUTE.into(), page.end().to_string());
        let mut batch = self.store.batch();
        match &end.record {
            Some(record) => {
                batch.unchanged(&end_key, record);
                batch.set_attributes(&end_key, attributes);
            }
            None => drop(batch.make(&end_key, 0, attributes)?),
        }
        let object = batch.make(key, bytes.len() as u64, Attributes::now())?;
        batch.write(key, object, 0, bytes, None)?;
        for mut receipt in batch.commit()? {
            match self.store.wait(&mut receipt, Ack::Replicated) {
                // They are accepted, and their replicas are made later.
                Ok(()) | Err(terrace::Error::StillOwed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        end.record = self.end_record()?;
        Ok(())
    }

    fn end_record(&self) -> Result<Option<Object>> {
        match self.store.stat(&self.below(END_KEY)) {
            Ok(record) => Ok(Some(record)),
            Err(terrace::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the highest sequence of a producer up to which all of its requests have arrived.
    pub fn contiguous(&self, producer: &Name) -> Result<u64> {
        let mut end = self.end.lock();
        let _turn = self.lock_end()?;
        self.catch_up(&mut end, true)?;
        Ok(end.origins.window(producer, &self.store, &self.folder)?.contiguous())
    }

    /// Locks the log's end against other processes while it moves.
    fn lock_end(&self) -> Result<Locked> {
        let context = || format!("locking {}", self.lock.display());
        let file = File::options().create(true).truncate(false).write(true).open(&self.lock);
        file.and_then(Locked::wait).map_err(Error::io(context()))
    }

    /// Reads what other processes have appended and trimmed. With `origins`, also reads the producers of the new requests.
    fn catch_up(&self, end: &mut End, origins: bool) -> Result<()> {
        end.next = end.next.max(1);
        if self.store.is_shared() {
            // Read before the pages: if a page is newer than this record, the next commit meets a conflict.
            end.record = self.end_record()?;
            let next = end.record.as_ref().and_then(|record| record.attributes.user.get(NEXT_ATTRIBUTE)?.parse().ok());
            end.next = end.next.max(next.unwrap_or(1));
        }
        // List pages before reading the head, so that a page trimmed in between is seen in one of the two.
        for page in end.pages.list_new(&self.store, &self.below(LOG_FOLDER))? {
            end.next = end.next.max(page.end());
            end.origins.unread(page);
        }
        if let Some((next, generation)) = self.head()?.filter(|(_, generation)| end.trimmed != Some(*generation)) {
            end.next = end.next.max(next);
            end.trimmed = Some(generation);
            end.origins.records_changed();
        }
        if origins {
            end.origins.read(|page| self.page(page))?;
        }
        Ok(())
    }

    /// Returns the sequence after all trimmed pages, and the generation of the record that holds it.
    fn head(&self) -> Result<Option<(u64, u64)>> {
        let head = match self.store.stat(&self.below(HEAD_KEY)) {
            Ok(head) => head,
            Err(terrace::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let next = head.attributes.user.get(NEXT_ATTRIBUTE).and_then(|next| next.parse().ok());
        let next = next.ok_or_else(|| Error::damaged("the head of the log", "it tells no number"))?;
        Ok(Some((next, head.generation)))
    }

    /// Reads the requests of a page.
    fn page(&self, page: &Page) -> Result<Vec<Framed>> {
        let mut bytes = bytes::Bytes::from(self.store.get(&page.key(&self.below(LOG_FOLDER)))?);
        let mut requests = Vec::with_capacity(page.count as usize);
        let length = bytes.len();
        loop {
            let at = (length - bytes.len()) as u64;
            match crate::frame::take(&mut bytes, at)? {
                Some(framed) => requests.push(framed),
                None => break,
            }
        }
        if requests.len() as u64 != page.count {
            let reason = format!("it has {} requests", requests.len());
            return Err(Error::damaged(format!("page {} of the log, of {} requests,", page.first, page.count), reason));
        }
        Ok(requests)
    }

    /// Returns whether a page was not trimmed yet.
    fn has(&self, page: &Page) -> Result<bool> {
        match self.store.stat(&page.key(&self.below(LOG_FOLDER))) {
            Ok(_) => Ok(true),
            Err(terrace::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Lists the existing pages.
    pub fn pages(&self) -> Result<Vec<Page>> {
        Pages::default().list_new(&self.store, &self.below(LOG_FOLDER))
    }

    /// Returns the pending requests of a page with their positions.
    pub fn waiting(&self, page: &Page, ledger: &Ledger) -> Result<Vec<(Position, Request)>> {
        let mut waiting = Vec::new();
        for (sequence, framed) in (page.first..).zip(self.page(page)?) {
            let position = Position(sequence, 0);
            if ledger.done(&framed.request.destination, LOG_SOURCE_NAME)? < Some(position) {
                waiting.push((position, framed.request));
            }
        }
        Ok(waiting)
    }

    /// Removes the pages whose requests are all done.
    pub fn trim_done(&self, ledger: &Ledger) -> Result<()> {
        for page in self.pages()? {
            if self.waiting(&page, ledger)?.is_empty() {
                let came = origins::group_by_producer(&self.page(&page)?);
                self.trim(&[(page, came)], ledger)?;
            }
        }
        Ok(())
    }

    /// Removes pages whose requests are all done, and records their producers' sequences. Only the process that runs the stream trims,
    /// and it never waits for an appender: an appender may itself be waiting for the space.
    fn trim(&self, pages: &[(Page, SequencesByProducer)], ledger: &Ledger) -> Result<()> {
        let mut batch = ledger.batch(None)?;
        let gone: Vec<SequencesByProducer> = pages.iter().map(|(_, came)| came.clone()).collect();
        for (key, attributes, is_new) in origins::records(&gone, &self.store, &self.folder)? {
            match is_new {
                true => drop(batch.make(&key, 0, attributes)?),
                false => batch.set_attributes(&key, attributes),
            }
        }
        let before = self.head()?.map(|(next, _)| next);
        let next = pages.iter().map(|(page, _)| page.end()).chain(before).max().unwrap_or(1);
        let mut head = Attributes::now();
        head.user.insert(NEXT_ATTRIBUTE.into(), next.to_string());
        let key = self.below(HEAD_KEY);
        match before {
            None => drop(batch.make(&key, 0, head)?),
            Some(_) => batch.set_attributes(&key, head),
        }
        pages.iter().for_each(|(page, _)| batch.remove(&page.key(&self.below(LOG_FOLDER))));
        ledger.commit_batch(batch)?;
        terrace::fail::point("stream:trimmed");
        Ok(())
    }

    /// Waits until this process appends a page, for at most `limit`, and returns its number of pages.
    fn wait(&self, seen: u64, limit: Duration) -> u64 {
        let mut appended = self.appended.lock();
        if *appended == seen {
            (appended, _) = self.more.wait_timeout(appended, limit);
        }
        *appended
    }
}
