//! The log as a source: pages are pulled in order of arrival, and trimmed when all their requests are done.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_pipeline::{Pulled, Source};

use super::open_page::OpenPage;
use super::origins::{SequencesByProducer, group_by_producer};
use super::pages::{Page, Pages};
use super::{LOG_FOLDER, LOG_SOURCE_NAME, Log};
use crate::control::Control;
use crate::deal::{Deal, HeldShares};
use crate::entry::{Entry, Position};
use crate::ledger::{Ledger, Mark};
use crate::request::Name;
use crate::{Error, Result};

/// The number of pages that one listing returns.
const PAGES_PER_LISTING: usize = 256;
/// The approximate number of pages that one commit trims.
const PAGES_PER_TRIM: usize = 64;
/// The longest time that a finished page stays in the log.
const MAX_TRIM_DELAY: Duration = Duration::from_millis(500);
/// The shortest time between two looks at the progress of destinations that other nodes deliver to.
const OTHERS_INTERVAL: Duration = Duration::from_millis(500);
/// The shortest time between two listings, and the longest one, because other processes may append too.
const LISTING_INTERVAL: Duration = Duration::from_millis(2);

/// A stream's log, read from the recorded progress of its destinations.
pub struct LogSource {
    log: Arc<Log>,
    ledger: Arc<Ledger>,
    control: Arc<Control>,
    /// Which destinations this process delivers to, if several nodes run the stream.
    deal: Option<Arc<Deal>>,
    number: usize,
    /// Held while pages are listed and read, and during the wait for new ones: only the collector's thread uses it. Taken before
    /// `state`.
    coming: Mutex<Coming>,
    /// Held for a look at the pages or a change of them, never during I/O. Other locks come before it.
    state: Mutex<State>,
    /// Held while pages are trimmed: the producers' records are read, changed and written as one step. Taken before `state`.
    trimming: Mutex<()>,
}

/// Pages that have not been pulled yet.
#[derive(Default)]
struct Coming {
    listed: Pages,
    looked: Option<Instant>,
    /// Pages that were listed and are durable.
    pages: VecDeque<Page>,
    appended: u64,
    /// [`HeldShares::gained`] when the first of them was read.
    gained: u64,
}

#[derive(Default)]
struct State {
    /// Pulled pages with pending requests, by their first sequences.
    open: BTreeMap<u64, OpenPage>,
    /// Pages whose requests for some destinations must be pulled again.
    again: BTreeMap<u64, HashSet<Name>>,
    /// Pages to trim.
    done: Vec<(Page, SequencesByProducer)>,
    trimmed: Option<Instant>,
    /// The time of the last look at what other nodes have delivered.
    looked: Option<Instant>,
    /// Whether all pending requests of other nodes' destinations are for parked ones.
    are_others_done: bool,
}

impl State {
    /// Leaves requests that were to be pulled again to others, if this process does not hand them out any more.
    fn leave_to_others(&mut self, held: HeldShares) {
        let State { open, again, are_others_done, .. } = self;
        for (first, names) in again.iter_mut() {
            for name in names.extract_if(|name| !held.has(name)) {
                *are_others_done = false;
                if let Some(open) = open.get_mut(first) {
                    open.leave_to_others(&name);
                }
            }
        }
        again.retain(|_, names| !names.is_empty());
    }

    /// Closes a page if nothing of it is pending.
    fn close_if_done(&mut self, first: u64, trims: bool) {
        if self.open.get(&first).is_some_and(OpenPage::is_done)
            && let Some(OpenPage { page, came, .. }) = self.open.remove(&first)
            && trims
        {
            self.done.push((page, came));
        }
    }
}

/// The pending requests of a page.
struct Contents {
    entries: Vec<Entry>,
    others: HashMap<Name, Position>,
    came: SequencesByProducer,
}

impl LogSource {
    /// The log as source number `number`.
    pub fn new(
        log: Arc<Log>,
        ledger: Arc<Ledger>,
        control: Arc<Control>,
        deal: Option<Arc<Deal>>,
        number: usize,
    ) -> LogSource {
        let (coming, state, trimming) = (Mutex::default(), Mutex::default(), Mutex::default());
        LogSource { log, ledger, control, deal, number, coming, state, trimming }
    }

    /// Returns what is pending of a page; nothing if another node has trimmed it. If several nodes run the stream, `held` says which
    /// destinations this one has.
    fn read(&self, page: &Page, held: Option<HeldShares>) -> Result<Option<Contents>> {
        let requests = match self.log.page(page) {
            Err(Error::Engine(terrace::Error::NotFound { .. })) if self.deal.is_some() => return Ok(None),
            requests => requests?,
        };
        let came = group_by_producer(&requests);
        let (mut entries, mut others) = (Vec::with_capacity(requests.len()), HashMap::new());
        for (sequence, framed) in (page.first..).zip(requests) {
            let (position, request) = (Position(sequence, 0), framed.request);
            if held.is_some_and(|held| !held.has(&request.destination)) {
                others.insert(request.destination, position);
            } else if self.ledger.done(&request.destination, LOG_SOURCE_NAME)? < Some(position) {
                entries.push(Entry { request, source: self.number, position, file: None, lane: None });
            }
        }
        Ok(Some(Contents { entries, others, came }))
    }

    /// Begins again with the first page if this process has got destinations: it has left out their requests.
    fn begin_again_if_more(coming: &mut Coming, held: HeldShares) {
        if held.gained != coming.gained {
            (coming.listed, coming.pages, coming.looked, coming.gained) =
                (Pages::default(), VecDeque::new(), None, held.gained);
        }
    }

    fn held_shares(&self) -> Option<HeldShares> {
        self.deal.as_ref().map(|deal| deal.held_shares())
    }

    /// Returns whether the pipeline holds no requests for these destinations.
    pub fn is_idle(&self, is_one: &dyn Fn(&[u8]) -> bool) -> bool {
        let Some(deal) = &self.deal else { return true };
        // Both: requests that are read now are handed out only after this look, and only if this process still has the destination.
        let (_coming, state) = (self.coming.lock(), self.state.lock());
        let mut left = state.open.values().flat_map(|open| open.left.keys());
        !left.any(|destination| is_one(destination) && deal.may_be_moving(destination))
    }

    /// Reads, twice a second, what other nodes have delivered.
    fn read_progress_of_others(&self) -> Result<()> {
        let Some(deal) = &self.deal else { return Ok(()) };
        {
            // Released before the ledger is read.
            let mut state = self.state.lock();
            if state.looked.is_some_and(|at| at.elapsed() < OTHERS_INTERVAL) {
                return Ok(());
            }
            state.looked = Some(Instant::now());
            if state.open.values().all(|open| open.others.is_empty()) {
                state.are_others_done = true;
                return Ok(());
            }
        }
        let marks: HashMap<Vec<u8>, Mark> = self.ledger.all()?.into_iter().collect();
        let State { open, done, are_others_done, .. } = &mut *self.state.lock();
        let is_pending = |destination: &Name, last: &mut Position| {
            let log = marks.get(&**destination).and_then(|mark| mark.done.get(LOG_SOURCE_NAME));
            log.is_none_or(|done| done < last)
        };
        open.values_mut().for_each(|open| open.others.retain(is_pending));
        for (_, finished) in open.extract_if(.., |_, open| open.is_done()) {
            if deal.trims() {
                done.push((finished.page, finished.came));
            }
        }
        let is_parked = |destination: &Name| marks.get(&**destination).is_some_and(|mark| mark.parked.is_some());
        *are_others_done = open.values().flat_map(|open| open.others.keys()).all(is_parked);
        Ok(())
    }

    /// Returns whether other nodes have nothing more to deliver.
    fn are_others_done(&self) -> bool {
        self.deal.is_none() || self.state.lock().are_others_done
    }

    /// Lists the pages appended since the last listing; unless `now`, only after a minimum interval. Syncs the pages before they are
    /// pulled: after a power cut, no destination may be ahead of the log.
    fn list(&self, coming: &mut Coming, now: bool) -> Result<()> {
        if coming.pages.is_empty() && (now || coming.looked.is_none_or(|at| at.elapsed() >= LISTING_INTERVAL)) {
            coming.looked = Some(Instant::now());
            coming.pages = coming.listed.list_some(&self.log.store, &self.log.below(LOG_FOLDER), PAGES_PER_LISTING)?;
            if !coming.pages.is_empty() {
                self.log.store.sync_placed()?;
            }
        }
        Ok(())
    }

    fn pull_again(&self) -> Result<Option<Vec<Entry>>> {
        let _coming = self.coming.lock(); // see `is_idle`
        // What is not handed out now is handed out with what comes after it: `pull_next` begins again once this process has it again.
        let held = self.held_shares();
        let (page, names) = {
            // Released before the page is read.
            let mut state = self.state.lock();
            if let Some(held) = held {
                state.leave_to_others(held);
            }
            let Some((first, names)) = state.again.pop_first() else { return Ok(None) };
            let Some(open) = state.open.get(&first) else { return Ok(Some(Vec::new())) };
            (open.page, names)
        };
        let contents = self.read(&page, held)?;
        let mut entries = contents.map_or_else(Vec::new, |contents| contents.entries);
        entries.retain(|entry| names.contains(&entry.request.destination));
        // Before the entries are handed out: `finish` must find as many. Other nodes may have delivered some of them since they were pulled first.
        let mut state = self.state.lock();
        if let Some(open) = state.open.get_mut(&page.first) {
            open.left.retain(|destination, _| !names.contains(destination));
            open.hand_out(&entries);
        }
        state.close_if_done(page.first, self.trims());
        Ok(Some(entries))
    }

    fn pull_next(&self, now: bool) -> Result<Option<Vec<Entry>>> {
        let mut coming = self.coming.lock(); // see the field
        // One look for this page: with a later one, a request could be handed out before an earlier one that was left out.
        let held = self.held_shares();
        if let Some(held) = held {
            LogSource::begin_again_if_more(&mut coming, held);
        }
        self.list(&mut coming, now)?;
        let Some(page) = coming.pages.pop_front() else { return Ok(None) };
        let Some(Contents { mut entries, others, came }) = self.read(&page, held)? else { return Ok(Some(Vec::new())) };
        // Before the entries are handed out: `finish` must find their page.
        let mut state = self.state.lock();
        // A page that is read again has destinations whose requests were handed out before.
        let left = state.open.remove(&page.first).map_or_else(HashMap::new, |open| open.left);
        entries.retain(|entry| !left.contains_key(&entry.request.destination));
        state.are_others_done &= others.is_empty();
        let mut open = OpenPage { page, came, left, others };
        open.hand_out(&entries);
        state.open.insert(page.first, open);
        state.close_if_done(page.first, self.trims());
        Ok(Some(entries))
    }

    /// Returns whether this process trims the log. Only one does.
    fn trims(&self) -> bool {
        self.deal.as_ref().is_none_or(|deal| deal.trims())
    }

    /// Trims finished pages: at once with `now`, otherwise if many are finished and no other thread is trimming.
    pub fn trim(&self, now: bool) -> Result<()> {
        let _alone = match now {
            true => self.trimming.lock(),
            false => match self.trimming.try_lock() {
                Some(alone) => alone,
                None => return Ok(()),
            },
        };
        // Released before pages are trimmed. Taken out of `done`, they are trimmed by this thread only.
        let mut state = self.state.lock();
        let due = state.done.len() >= PAGES_PER_TRIM || state.trimmed.is_none_or(|at| at.elapsed() >= MAX_TRIM_DELAY);
        if state.done.is_empty() || !(due || now) {
            return Ok(());
        }
        let mut done = std::mem::take(&mut state.done);
        state.trimmed = Some(Instant::now());
        drop(state);
        if self.deal.is_some() {
            // A page that was read again may have been trimmed before.
            let is_there = |page: &Page| self.log.has(page);
            let there = done.iter().map(|(page, _)| is_there(page)).collect::<Result<Vec<bool>>>()?;
            let mut there = there.into_iter();
            done.retain(|_| there.next() == Some(true) && self.trims());
            done.sort_by_key(|(page, _)| page.first);
            done.dedup_by_key(|(page, _)| page.first);
            if done.is_empty() {
                return Ok(());
            }
        }
        match self.log.trim(&done, &self.ledger) {
            // Another node trims now, and reads all pages.
            Err(Error::TakenOver(_)) => Ok(()),
            trimmed => trimmed,
        }
    }
}

impl Source for LogSource {
    type Move = Entry;
    type Error = Error;

    fn pull(&self, budget: usize) -> Result<Pulled<Entry>> {
        if self.control.stopped() {
            return Ok(Pulled::Stop);
        }
        match self.ledger.check_fresh() {
            // What it would read now may not follow what it has read.
            Err(Error::Unheard(_)) => return Ok(Pulled::Nothing),
            fresh => fresh?,
        }
        self.read_progress_of_others()?;
        // Read the drain flag before the listing, so that requests appended before the drain was requested are not missed.
        let ends = self.control.drains();
        let mut pulled = Vec::new();
        let mut bytes = 0;
        while bytes < budget {
            let next = match self.pull_again()? {
                Some(again) => Some(again),
                None => self.pull_next(ends)?,
            };
            let Some(entries) = next else { break };
            bytes += entries.iter().map(|entry| entry.request.bytes.len()).sum::<usize>();
            pulled.extend(entries);
        }
        terrace::fail::point("stream:pulled");
        Ok(match pulled.is_empty() {
            false => Pulled::Moves(pulled),
            true if ends && self.are_others_done() => Pulled::End,
            true => Pulled::Nothing,
        })
    }

    fn wait(&self, limit: Duration) {
        // A failure here repeats when more requests are done, so it can be ignored.
        let _ = self.trim(false);
        let mut coming = self.coming.lock();
        coming.appended = self.log.wait(coming.appended, limit.min(LISTING_INTERVAL));
        // Requests that arrive together are synced together.
        let soon = coming.looked.map_or(Duration::ZERO, |at| LISTING_INTERVAL.saturating_sub(at.elapsed()));
        std::thread::sleep(soon.min(limit));
    }

    fn finish(&self, moves: Vec<Entry>) -> Result<()> {
        let mut state = self.state.lock(); // released before `trim`
        for entry in moves {
            let page = state.open.range_mut(..=entry.position.0).next_back();
            // Another node may have trimmed the page.
            let Some((&first, open)) = page.filter(|(_, open)| entry.position.0 < open.page.end()) else { continue };
            open.finish(&entry.request.destination);
            state.close_if_done(first, self.trims());
        }
        drop(state);
        self.trim(false)
    }

    fn again(&self, destination: &Name) -> Result<()> {
        if let Some(deal) = &self.deal {
            deal.note(destination, false);
        }
        let mut state = self.state.lock(); // a change in memory only
        let State { open, again, .. } = &mut *state;
        let with = open.iter().filter(|(_, page)| page.left.contains_key(destination));
        for (&first, _) in with {
            again.entry(first).or_default().insert(destination.clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{Framed, Origin, Request};
    use crate::stream::Stream;
    use terrace::{Ack, Config, Store};

    const REQUEST_COUNT: u64 = 1200;
    const WORKER_COUNT: usize = 8;

    #[test]
    fn requests_that_many_workers_finish_at_once_are_recorded() {
        let dir = tempfile::tempdir().expect("a folder");
        let config =
            format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']", dir.path().display());
        let config = Config::parse(&config, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let stream = Stream::open(&store, "s", Ack::Placed).expect("a stream");
        let producer: Name = b"p".as_slice().into();
        for sequence in 1..=REQUEST_COUNT {
            let origin = Some(Origin { producer: producer.clone(), sequence });
            let request = Request::append(format!("to/{}", sequence % 7), sequence.to_le_bytes().to_vec());
            stream.append_framed(vec![Framed { request, origin }]).expect("appends");
        }
        let control = Arc::new(Control::default());
        control.drain();
        let source = LogSource::new(stream.log.clone(), Arc::new(stream.ledger()), control, None, 0);
        let mut parts: Vec<Vec<Entry>> = (0..WORKER_COUNT).map(|_| Vec::new()).collect();
        while let Pulled::Moves(moves) = source.pull(1 << 20).expect("pulls") {
            moves.into_iter().enumerate().for_each(|(at, one)| parts[at % WORKER_COUNT].push(one));
        }
        std::thread::scope(|scope| {
            for part in parts {
                scope.spawn(|| part.into_iter().for_each(|one| source.finish(vec![one]).expect("finishes")));
            }
        });
        source.trim(true).expect("trims");
        let stream = Stream::open(&store, "s", Ack::Placed).expect("a stream");
        assert_eq!(stream.producer("p").expect("a producer").next(), REQUEST_COUNT + 1);
        assert_eq!(stream.log.head().expect("a head").map(|(next, _)| next), Some(REQUEST_COUNT + 1));
    }
}
