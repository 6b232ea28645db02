//! The source log of a stream: pages of framed requests, each an object of the store.
//!
//! A page's key tells the sequence of its first request and how many it has, so the order of keys is the order of arrival.
//! Requests that come while a page is being written make the next one. A page is written whole or not at all and removed when all its
//! requests are done, whatever became of those around it; the store gives its place back as it does every other.
//!
//! Which requests of a producer have come is in the pages themselves, and of those that are gone in a record of the
//! producer, which is changed in the commit that removes them.

mod group;
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
use terrace::{Ack, Attributes, Locked, PutOptions, Store};

use crate::entry::Position;
use crate::ledger::Ledger;
use crate::request::{Framed, Name, Origin, Request};
use crate::{Error, Result};
use group::Queue;
use origins::{Came, Origins};
use pages::Pages;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It was taken.
    New,
    /// It had been taken before.
    Known,
}

/// The log of a stream. Many processes may append to it; one takes from it.
pub struct Log {
    store: Store,
    folder: Vec<u8>,
    lock: PathBuf,
    ack: Ack,
    queue: Mutex<Queue>,
    /// A page was written.
    turn: Condvar,
    /// There is something to write.
    come: Condvar,
    end: Mutex<End>,
    /// How many pages this process has appended, for those who wait for more.
    appended: Mutex<u64>,
    more: Condvar,
}

/// Where the log ends, as far as this process has seen.
#[derive(Default)]
struct End {
    pages: Pages,
    origins: Origins,
    next: u64,
    /// The generation of the record that says what was trimmed.
    trimmed: Option<u64>,
}

/// The log's name in the marks of destinations.
pub const SOURCE: &str = "log";
const HEAD: &[u8] = b"/head";
const LOG: &[u8] = b"/log";
const NEXT: &str = "next";

impl Log {
    /// The log of the stream whose objects lie below `folder`; `lock` is a file that all processes lock in turn.
    pub fn open(store: &Store, folder: &[u8], lock: PathBuf, ack: Ack) -> Log {
        Log {
            store: store.internal(),
            folder: folder.to_vec(),
            lock,
            ack,
            queue: Mutex::default(),
            turn: Condvar::new(),
            come: Condvar::new(),
            end: Mutex::default(),
            appended: Mutex::default(),
            more: Condvar::new(),
        }
    }

    fn below(&self, what: &[u8]) -> Vec<u8> {
        [&self.folder, what].concat()
    }

    /// Writes one page of these requests, less those that are known. Of a group in which one is not allowed none is written.
    fn write(&self, groups: &[&Vec<Framed>]) -> Result<Vec<Result<Vec<Accepted>>>> {
        terrace::fail::point("stream:appending");
        let mut end = self.end.lock();
        let end = &mut *end;
        let _turn = self.turn_of_processes()?;
        let any_origin = groups.iter().any(|group| group.iter().any(|one| one.origin.is_some()));
        self.catch_up(end, any_origin)?;
        let (mut bytes, mut count) = (Vec::new(), 0);
        let accepted = groups.iter().map(|group| self.gather(end, group, &mut bytes, &mut count)).collect();
        if let Err(e) = self.write_page(end, &bytes, count) {
            // What it took for written is not: all is looked at anew.
            *end = End::default();
            return Err(e);
        }
        if self.ack == Ack::Durable {
            self.store.sync_placed()?;
        }
        Ok(accepted)
    }

    /// Adds a group's requests to a page, but those that have come already; all or none.
    fn gather(&self, end: &mut End, group: &[Framed], bytes: &mut Vec<u8>, count: &mut u64) -> Result<Vec<Accepted>> {
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
        let key = page.key(&self.below(LOG));
        let options = PutOptions {
            replicas: Some(1),
            ack: Some(Ack::Placed),
            create_new: true,
            attributes: Some(Attributes::now()),
            ..PutOptions::default()
        };
        self.store.put_bytes(&key, bytes, &options)?;
        terrace::fail::point("stream:appended");
        end.next = page.end();
        end.pages.seen(key);
        *self.appended.lock() += 1;
        self.more.notify_all();
        Ok(())
    }

    /// The highest sequence of a producer up to which all of its requests have come.
    pub fn contiguous(&self, producer: &Name) -> Result<u64> {
        let mut end = self.end.lock();
        let _turn = self.turn_of_processes()?;
        self.catch_up(&mut end, true)?;
        Ok(end.origins.window(producer, &self.store, &self.folder)?.contiguous())
    }

    /// Held while the log's end moves: by one process at a time.
    fn turn_of_processes(&self) -> Result<Locked> {
        let context = || format!("locking {}", self.lock.display());
        let file = File::options().create(true).truncate(false).write(true).open(&self.lock);
        file.and_then(Locked::wait).map_err(Error::io(context()))
    }

    /// Sees what other processes have appended since, and what was trimmed; `origins`: whose requests these are, too.
    fn catch_up(&self, end: &mut End, origins: bool) -> Result<()> {
        end.next = end.next.max(1);
        // Pages before the head: whatever is trimmed meanwhile is in one of the two.
        for page in end.pages.all_new(&self.store, &self.below(LOG))? {
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

    /// The sequence behind all pages that were ever trimmed, and the generation of the record that says so.
    fn head(&self) -> Result<Option<(u64, u64)>> {
        let head = match self.store.stat(&self.below(HEAD)) {
            Ok(head) => head,
            Err(terrace::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let next = head.attributes.user.get(NEXT).and_then(|next| next.parse().ok());
        let next = next.ok_or_else(|| Error::damaged("the head of the log", "it tells no number"))?;
        Ok(Some((next, head.generation)))
    }

    /// A page's requests.
    fn page(&self, page: &Page) -> Result<Vec<Framed>> {
        let mut bytes = bytes::Bytes::from(self.store.get(&page.key(&self.below(LOG)))?);
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

    /// The pages that are there.
    pub fn pages(&self) -> Result<Vec<Page>> {
        Pages::default().all_new(&self.store, &self.below(LOG))
    }

    /// The requests of a page that are not done, and their positions.
    pub fn waiting(&self, page: &Page, ledger: &Ledger) -> Result<Vec<(Position, Request)>> {
        let mut waiting = Vec::new();
        for (sequence, framed) in (page.first..).zip(self.page(page)?) {
            let position = Position(sequence, 0);
            if ledger.done(&framed.request.destination, SOURCE)? < Some(position) {
                waiting.push((position, framed.request));
            }
        }
        Ok(waiting)
    }

    /// Removes the pages of which all requests are done.
    pub fn trim_done(&self, ledger: &Ledger) -> Result<()> {
        for page in self.pages()? {
            if self.waiting(&page, ledger)?.is_empty() {
                let came = origins::came(&self.page(&page)?);
                self.trim(&[(page, came)])?;
            }
        }
        Ok(())
    }

    /// Removes pages of which all requests are done, and notes whose these were. The one who runs the stream does, and waits for nobody
    /// who appends: these may be waiting for the room.
    fn trim(&self, pages: &[(Page, Came)]) -> Result<()> {
        let mut batch = self.store.batch();
        let gone: Vec<Came> = pages.iter().map(|(_, came)| came.clone()).collect();
        for (key, attributes, is_new) in origins::records(&gone, &self.store, &self.folder)? {
            match is_new {
                true => drop(batch.make(&key, 0, attributes)?),
                false => batch.set_attributes(&key, attributes),
            }
        }
        let before = self.head()?.map(|(next, _)| next);
        let next = pages.iter().map(|(page, _)| page.end()).chain(before).max().unwrap_or(1);
        let mut head = Attributes::now();
        head.user.insert(NEXT.into(), next.to_string());
        let key = self.below(HEAD);
        match before {
            None => drop(batch.make(&key, 0, head)?),
            Some(_) => batch.set_attributes(&key, head),
        }
        pages.iter().for_each(|(page, _)| batch.remove(&page.key(&self.below(LOG))));
        batch.commit()?;
        terrace::fail::point("stream:trimmed");
        Ok(())
    }

    /// Waits until this process appends something, for `limit` at most; how many pages it has.
    fn wait(&self, seen: u64, limit: Duration) -> u64 {
        let mut appended = self.appended.lock();
        if *appended == seen {
            (appended, _) = self.more.wait_timeout(appended, limit);
        }
        *appended
    }
}
