//! The source log of a stream: pages of framed requests, each an object of the store.
//!
//! A page's key tells the sequence of its first request and how many it has, so the order of keys is the order of arrival.
//! Requests that come while a page is being written make the next one. A page is written whole or not at all and removed when all its
//! requests are done, whatever became of those around it; the store gives its place back as it does every other.
//!
//! Which requests of a producer have come is in the pages themselves, and of those that are gone in a record of the
//! producer, which is changed in the commit that removes them.

mod origins;
mod pages;
mod source;

pub use pages::Page;
pub use source::{LogSource, NAME as SOURCE};

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustix::fs::FlockOperation;
use terrace::{Ack, Attributes, PutOptions, Store};

use crate::request::{Framed, Name, Origin};
use crate::{Error, Result};
use origins::{Came, Origins};
use pages::Pages;

/// Bytes of a page, about: what has gathered beyond goes into the next.
const PAGE: usize = 1 << 20;

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
    turn: Condvar,
    end: Mutex<End>,
    /// How many pages this process has appended, for those who wait for more.
    appended: Mutex<u64>,
    more: Condvar,
}

/// Requests that wait for the page in progress to be written.
#[derive(Default)]
struct Queue {
    leading: bool,
    waiting: Vec<Arc<Waiting>>,
}

struct Waiting {
    requests: Vec<Framed>,
    done: Mutex<Option<Result<Vec<Accepted>>>>,
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

const HEAD: &[u8] = b"/head";
const LOG: &[u8] = b"/log";
const NEXT: &str = "next";

impl Log {
    /// The log of the stream whose objects lie below `folder`; `lock` is a file that all processes lock in turn.
    pub fn open(store: &Store, folder: &[u8], lock: PathBuf, ack: Ack) -> Log {
        Log {
            store: store.clone(),
            folder: folder.to_vec(),
            lock,
            ack,
            queue: Mutex::default(),
            turn: Condvar::new(),
            end: Mutex::default(),
            appended: Mutex::default(),
            more: Condvar::new(),
        }
    }

    fn below(&self, what: &[u8]) -> Vec<u8> {
        [&self.folder, what].concat()
    }

    /// Takes requests, all or none; returns when they survive what the stream's [`Ack`] says.
    ///
    /// # Errors
    /// Where one of them is not allowed, or the store takes nothing: then none was taken.
    pub fn append(&self, requests: Vec<Framed>) -> Result<Vec<Accepted>> {
        let mut queue = self.queue.lock();
        if !queue.leading {
            queue.leading = true;
            drop(queue);
            let result = self.write(&[&requests]).map(|mut accepted| accepted.pop().unwrap_or(Ok(Vec::new())));
            self.lead();
            return result.flatten();
        }
        let waiting = Arc::new(Waiting { requests, done: Mutex::new(None) });
        queue.waiting.push(waiting.clone());
        loop {
            self.turn.wait(&mut queue);
            if let Some(result) = waiting.done.lock().take() {
                return result;
            }
        }
    }

    /// Writes what gathered while this thread led, until nothing has.
    fn lead(&self) {
        loop {
            let mut queue = self.queue.lock();
            if queue.waiting.is_empty() {
                queue.leading = false;
                return;
            }
            let mut bytes = 0;
            let fits = |waiting: &&Arc<Waiting>| {
                let fits = bytes < PAGE;
                bytes += waiting.requests.iter().map(|one| one.request.bytes.len()).sum::<usize>();
                fits
            };
            let count = queue.waiting.iter().take_while(fits).count();
            let group: Vec<Arc<Waiting>> = queue.waiting.drain(..count).collect();
            drop(queue);
            let requests: Vec<&Vec<Framed>> = group.iter().map(|waiting| &waiting.requests).collect();
            match self.write(&requests) {
                Ok(accepted) => {
                    for (waiting, accepted) in group.iter().zip(accepted) {
                        *waiting.done.lock() = Some(accepted);
                    }
                }
                Err(e) => {
                    let e = Arc::new(e);
                    group.iter().for_each(|waiting| *waiting.done.lock() = Some(Err(Error::Shared(e.clone()))));
                }
            }
            // The lock is taken so that no waiter is between its check and its wait.
            let _queue = self.queue.lock();
            self.turn.notify_all();
        }
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
    fn turn_of_processes(&self) -> Result<File> {
        let context = || format!("locking {}", self.lock.display());
        let file = File::options().create(true).truncate(false).write(true).open(&self.lock);
        let file = file.map_err(Error::io(context()))?;
        let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive));
        locked.map_err(|e| Error::io(context())(e.into()))?;
        Ok(file)
    }

    /// Sees what other processes have appended and trimmed since; `origins`: whose requests these are, too.
    fn catch_up(&self, end: &mut End, origins: bool) -> Result<()> {
        let head = match self.store.stat(&self.below(HEAD)) {
            Ok(head) => Some(head),
            Err(terrace::Error::NotFound { .. }) => None,
            Err(e) => return Err(e.into()),
        };
        end.next = end.next.max(1);
        if let Some(head) = head.filter(|head| end.trimmed != Some(head.generation)) {
            let next = head.attributes.user.get(NEXT).and_then(|next| next.parse::<u64>().ok());
            end.next = end.next.max(next.ok_or_else(|| Error::damaged("the head of the log", "it tells no number"))?);
            end.trimmed = Some(head.generation);
            end.origins.records_changed();
        }
        for page in end.pages.all_new(&self.store, &self.below(LOG))? {
            end.next = end.next.max(page.end());
            end.origins.unread(page);
        }
        if origins {
            end.origins.read(|page| self.page(page))?;
        }
        Ok(())
    }

    /// A page's requests.
    fn page(&self, page: &Page) -> Result<Vec<Framed>> {
        let mut bytes = bytes::Bytes::from(self.store.get(&page.key(&self.below(LOG)))?);
        let mut requests = Vec::with_capacity(page.count as usize);
        let length = bytes.len();
        loop {
            let at = (length - bytes.len()) as u64;
            match crate::request::take(&mut bytes, at)? {
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

    /// Removes pages of which all requests are done, and notes whose these were.
    fn trim(&self, pages: &[(Page, Came)]) -> Result<()> {
        let mut end = self.end.lock();
        let end = &mut *end;
        let _turn = self.turn_of_processes()?;
        self.catch_up(end, false)?;
        let mut batch = self.store.batch();
        let gone: Vec<Came> = pages.iter().map(|(_, came)| came.clone()).collect();
        for (key, attributes, is_new) in origins::records(&gone, &self.store, &self.folder)? {
            match is_new {
                true => drop(batch.make(&key, 0, attributes)?),
                false => batch.set_attributes(&key, attributes),
            }
        }
        let mut head = Attributes::now();
        head.user.insert(NEXT.into(), end.next.to_string());
        let key = self.below(HEAD);
        match end.trimmed {
            None => drop(batch.make(&key, 0, head)?),
            Some(_) => batch.set_attributes(&key, head),
        }
        pages.iter().for_each(|(page, _)| batch.remove(&page.key(&self.below(LOG))));
        batch.commit()?;
        terrace::fail::point("stream:trimmed");
        end.trimmed = Some(self.store.stat(&key)?.generation);
        pages.iter().for_each(|(page, _)| end.origins.gone(page));
        end.origins.records_changed();
        Ok(())
    }

    /// Waits until this process appends something, for `limit` at most; how many pages it has.
    fn wait(&self, seen: u64, limit: Duration) -> u64 {
        let mut appended = self.appended.lock();
        if *appended == seen {
            self.more.wait_for(&mut appended, limit);
        }
        *appended
    }
}
