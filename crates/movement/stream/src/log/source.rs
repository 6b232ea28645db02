//! The log as a source: pages are pulled in order of arrival, and trimmed when all their requests are done.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix_futex_sync::Mutex;
use terrace_pipeline::{Pulled, Source};

use super::origins::{Came, came};
use super::pages::{Page, Pages};
use super::{LOG, Log, SOURCE};
use crate::control::Control;
use crate::entry::{Entry, Position};
use crate::ledger::Ledger;
use crate::request::Name;
use crate::{Error, Result};

/// Pages that are listed at once.
const LISTED: usize = 256;
/// Pages that are trimmed by one commit, about.
const TRIMMED: usize = 64;
/// The longest time that a page which is done stays.
const STAYS: Duration = Duration::from_millis(500);
/// How often it is looked for more, at most; and at least, as other processes may append, too.
const LOOK: Duration = Duration::from_millis(2);

/// A stream's log, from where its destinations have got to.
pub struct LogSource {
    log: Arc<Log>,
    ledger: Arc<Ledger>,
    control: Arc<Control>,
    number: usize,
    coming: Mutex<Coming>,
    state: Mutex<State>,
    /// Held while pages are trimmed: what is noted of them is read, added to, and written.
    trimming: Mutex<()>,
}

/// Pages that are not pulled.
#[derive(Default)]
struct Coming {
    listed: Pages,
    looked: Option<Instant>,
    /// Those that were listed, and are durable.
    pages: VecDeque<Page>,
    appended: u64,
}

#[derive(Default)]
struct State {
    /// Pages that were pulled, by their first sequences, as long as some of their requests are not done.
    open: BTreeMap<u64, Open>,
    /// Of which pages what is to be pulled again.
    again: BTreeMap<u64, HashSet<Name>>,
    done: Vec<(Page, Came)>,
    trimmed: Option<Instant>,
}

struct Open {
    page: Page,
    came: Came,
    /// Requests that are not done, by destination.
    left: HashMap<Name, usize>,
}

impl LogSource {
    /// The log as source number `number`.
    pub fn new(log: Arc<Log>, ledger: Arc<Ledger>, control: Arc<Control>, number: usize) -> LogSource {
        let (coming, state, trimming) = (Mutex::default(), Mutex::default(), Mutex::default());
        LogSource { log, ledger, control, number, coming, state, trimming }
    }

    /// What of a page is not done.
    fn entries(&self, page: &Page) -> Result<(Vec<Entry>, Came)> {
        let requests = self.log.page(page)?;
        let came = came(&requests);
        let mut entries = Vec::with_capacity(requests.len());
        for (sequence, framed) in (page.first..).zip(requests) {
            let (position, request) = (Position(sequence, 0), framed.request);
            if self.ledger.done(&request.destination, SOURCE)? < Some(position) {
                entries.push(Entry { request, source: self.number, position, file: None, lane: None });
            }
        }
        Ok((entries, came))
    }

    /// Lists what has been appended since, not too often unless `now`. What is pulled is durable: a destination never knows
    /// more than the log does after a loss of power.
    fn list(&self, coming: &mut Coming, now: bool) -> Result<()> {
        if coming.pages.is_empty() && (now || coming.looked.is_none_or(|at| at.elapsed() >= LOOK)) {
            coming.looked = Some(Instant::now());
            coming.pages = coming.listed.some(&self.log.store, &self.log.below(LOG), LISTED)?;
            if !coming.pages.is_empty() {
                self.log.store.sync_placed()?;
            }
        }
        Ok(())
    }

    fn pull_again(&self) -> Result<Option<Vec<Entry>>> {
        let (page, names) = {
            let mut state = self.state.lock();
            let Some((first, names)) = state.again.pop_first() else { return Ok(None) };
            let Some(open) = state.open.get(&first) else { return Ok(Some(Vec::new())) };
            (open.page, names)
        };
        let (mut entries, _) = self.entries(&page)?;
        entries.retain(|entry| names.contains(&entry.request.destination));
        Ok(Some(entries))
    }

    fn pull_next(&self, now: bool) -> Result<Option<Vec<Entry>>> {
        let mut coming = self.coming.lock();
        self.list(&mut coming, now)?;
        let Some(page) = coming.pages.pop_front() else { return Ok(None) };
        let (entries, came) = self.entries(&page)?;
        let mut left: HashMap<Name, usize> = HashMap::new();
        for entry in &entries {
            *left.entry(entry.request.destination.clone()).or_default() += 1;
        }
        let mut state = self.state.lock();
        match left.is_empty() {
            true => state.done.push((page, came)),
            false => drop(state.open.insert(page.first, Open { page, came, left })),
        }
        Ok(Some(entries))
    }

    /// Trims what is done: `now`, or where that is much and nobody else does just now.
    pub fn trim(&self, now: bool) -> Result<()> {
        let _alone = match now {
            true => self.trimming.lock(),
            false => match self.trimming.try_lock() {
                Some(alone) => alone,
                None => return Ok(()),
            },
        };
        let mut state = self.state.lock();
        let due = state.done.len() >= TRIMMED || state.trimmed.is_none_or(|at| at.elapsed() >= STAYS);
        if state.done.is_empty() || !(due || now) {
            return Ok(());
        }
        let done = std::mem::take(&mut state.done);
        state.trimmed = Some(Instant::now());
        drop(state);
        self.log.trim(&done)
    }
}

impl Source for LogSource {
    type Move = Entry;
    type Error = Error;

    fn pull(&self, budget: usize) -> Result<Pulled<Entry>> {
        if self.control.stopped() {
            return Ok(Pulled::Stop);
        }
        // Before it is looked: what is appended before that is not missed.
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
            true if ends => Pulled::End,
            true => Pulled::Nothing,
        })
    }

    fn wait(&self, limit: Duration) {
        // Where it fails it fails again when more is done.
        let _ = self.trim(false);
        let mut coming = self.coming.lock();
        coming.appended = self.log.wait(coming.appended, limit.min(LOOK));
        // What comes at once is synced at once.
        let soon = coming.looked.map_or(Duration::ZERO, |at| LOOK.saturating_sub(at.elapsed()));
        std::thread::sleep(soon.min(limit));
    }

    fn finish(&self, moves: Vec<Entry>) -> Result<()> {
        let mut state = self.state.lock();
        for entry in moves {
            let State { open, done, .. } = &mut *state;
            let page = open.range_mut(..=entry.position.0).next_back();
            let Some((&first, page)) = page else { continue };
            if let Some(left) = page.left.get_mut(&entry.request.destination) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    page.left.remove(&entry.request.destination);
                }
            }
            if page.left.is_empty()
                && let Some(Open { page, came, .. }) = open.remove(&first)
            {
                done.push((page, came));
            }
        }
        drop(state);
        self.trim(false)
    }

    fn again(&self, destination: &Name) -> Result<()> {
        let mut state = self.state.lock();
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

    const REQUESTS: u64 = 1200;
    const WORKERS: usize = 8;

    #[test]
    fn what_many_workers_finish_at_once_is_remembered() {
        let dir = tempfile::tempdir().expect("a folder");
        let config =
            format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']", dir.path().display());
        let config = Config::parse(&config, "test").expect("a configuration");
        let store = Store::init(&dir.path().join("store"), &config).expect("a store");
        let stream = Stream::open(&store, "s", Ack::Placed).expect("a stream");
        let producer: Name = b"p".as_slice().into();
        for sequence in 1..=REQUESTS {
            let origin = Some(Origin { producer: producer.clone(), sequence });
            let request = Request::append(format!("to/{}", sequence % 7), sequence.to_le_bytes().to_vec());
            stream.append_framed(vec![Framed { request, origin }]).expect("appends");
        }
        let control = Arc::new(Control::default());
        control.drain();
        let source = LogSource::new(stream.log.clone(), Arc::new(stream.ledger()), control, 0);
        let mut parts: Vec<Vec<Entry>> = (0..WORKERS).map(|_| Vec::new()).collect();
        while let Pulled::Moves(moves) = source.pull(1 << 20).expect("pulls") {
            moves.into_iter().enumerate().for_each(|(at, one)| parts[at % WORKERS].push(one));
        }
        std::thread::scope(|scope| {
            for part in parts {
                scope.spawn(|| part.into_iter().for_each(|one| source.finish(vec![one]).expect("finishes")));
            }
        });
        source.trim(true).expect("trims");
        let stream = Stream::open(&store, "s", Ack::Placed).expect("a stream");
        assert_eq!(stream.producer("p").expect("a producer").next(), REQUESTS + 1);
        assert_eq!(stream.log.head().expect("a head").map(|(next, _)| next), Some(REQUESTS + 1));
    }
}
