//! Delivery, the last stage of the pipeline: writes each segment to its destination.

use std::collections::HashSet;
use std::sync::Arc;

use rustix_futex_sync::Mutex;
use terrace_pipeline::Sink;

use crate::claim::Claim;
use crate::control::Control;
use crate::deal::Deal;
use crate::destinations::{Destination, End, Outcome};
use crate::entry::{Entry, Position};
use crate::ledger::{Ledger, Mark};
use crate::request::{Name, Place};
use crate::runs::{Run, runs};
use crate::{Error, Failure};

const SAME_FILE: &str = "it is the file itself, under another name; remove one of the two";

/// Writes segments to destinations and records the progress of each.
pub struct Deliver {
    /// The destination of the bytes.
    pub destination: Arc<dyn Destination>,
    /// The progress of each name.
    pub ledger: Arc<Ledger>,
    /// The names of the sources, by number.
    pub sources: Vec<String>,
    /// Control and progress counters shared with other threads.
    pub control: Arc<Control>,
    /// Which destinations this process delivers to, if several nodes run the stream.
    pub deal: Option<Arc<Deal>>,
    /// Names that were checked against the ledger since their last failure.
    pub begun: Arc<Begun>,
}

/// The progress after a write, and the claim under which it was made.
pub struct Written {
    mark: Option<Mark>,
    claim: Option<Claim>,
}

/// Names of destinations that were checked against the ledger.
pub type Begun = Mutex<HashSet<Name>>;

impl Deliver {
    /// Checks that the destination's state agrees with its mark. A destination without a mark appends behind the bytes that exist
    /// already.
    fn check_destination(&self, name: &Name, claim: Option<&Claim>) -> Outcome<Mark> {
        let known = self.ledger.mark(name)?;
        if let Some(mark) = known.as_ref().filter(|_| self.begun.lock().contains(name)) {
            return Ok(mark.clone());
        }
        let mut mark = known.unwrap_or_default();
        // Before the length is asked: a directory that takes the destination's place after this is noticed by the first write.
        self.destination.resume(name, mark.newest())?;
        let length = self.destination.length(name)?;
        let watermark = match mark.watermark {
            Some(watermark) => watermark,
            None => {
                // The watermark must be durable before the first byte is written: a crash or a power cut may leave some of the bytes, and
                // the next run must not append behind those.
                let watermark = length.unwrap_or(0);
                mark.watermark = Some(watermark);
                self.commit(name, claim, mark.clone())?;
                self.ledger.sync()?;
                watermark
            }
        };
        let least = mark.cut.map_or(watermark, |cut| cut.min(watermark));
        if let Some(length) = length.filter(|length| *length < least) {
            return Err(Failure::Never(format!(
                "it holds {length} bytes, though {least} were delivered; put it back as it was"
            )));
        }
        // Bytes behind the watermark may be those of a crash, and are written over. In another directory they are somebody else's.
        let has_moved = self.destination.take_moved(name);
        if let Some(length) = length.filter(|length| has_moved && *length > watermark) {
            return Err(Failure::Never(format!(
                "it holds {length} bytes, though {watermark} were delivered, because the destination's path leads to another directory \
                 now; put the earlier directory back, move this file away, or have the next run append to it: `terrace flush --forget`"
            )));
        }
        self.begun.lock().insert(name.clone());
        Ok(mark)
    }

    /// Writes the entries that are parts of files.
    fn write_parts(&self, name: &Name, entries: &[Entry]) -> Outcome<()> {
        let mut writes: Vec<Run> = Vec::new();
        let mut checked: Option<u64> = None;
        for (entry, file) in entries.iter().filter_map(|entry| Some((entry, entry.file.as_ref()?))) {
            let Place::At(offset) = entry.request.place else { continue };
            // Check once per file, and before its first byte is written: a file written to itself would be truncated and then removed.
            if checked.replace(file.inode) != Some(file.inode)
                && self.destination.is_file(name, file.device, file.inode)
            {
                return Err(Failure::Never(SAME_FILE.into()));
            }
            let run = Run { offset, bytes: entry.request.bytes.clone() };
            let length = run.end();
            writes.push(run);
            if entry.request.ends {
                let end = End { length, attributes: file.attributes.clone() };
                self.destination.write_part(name, &runs(std::mem::take(&mut writes)), Some(&end))?;
                if let Some(folder) = self.destination.folder(name)? {
                    file.delivered_to.get_or_init(|| folder);
                }
            }
        }
        if writes.is_empty() { Ok(()) } else { self.destination.write_part(name, &runs(writes), None) }
    }

    fn deliver(&self, name: &Name, claim: Option<&Claim>, entries: &[Entry]) -> Outcome<Option<Mark>> {
        self.write_parts(name, entries)?;
        let mut requests = entries.iter().filter(|entry| entry.file.is_none()).peekable();
        if requests.peek().is_none() {
            return Ok(None);
        }
        let mut mark = self.check_destination(name, claim)?;
        let before = mark.clone();
        let mut end = mark.watermark.unwrap_or(0);
        let mut writes: Vec<Run> = Vec::new();
        let mut first = None;
        for entry in requests {
            let (source, until) = match &entry.lane {
                Some(lane) => (lane.name.to_string(), lane.until),
                None => (self.sources.get(entry.source).cloned().unwrap_or_default(), entry.position),
            };
            let done = mark.done.entry(source).or_default();
            if until <= *done {
                continue;
            }
            *done = until;
            if entry.lane.as_ref().is_some_and(|lane| self.destination.is_file(name, lane.device, lane.inode)) {
                return Err(Failure::Never(SAME_FILE.into()));
            }
            mark.requests += 1;
            mark.bytes += entry.request.bytes.len() as u64;
            let bytes = entry.request.bytes.clone();
            let offset = match entry.request.place {
                Place::Append => end,
                Place::At(_) if self.destination.appends_only() => {
                    return Err(Failure::Never("it takes appends only, and a request has an offset".into()));
                }
                Place::At(offset) => offset,
            };
            let run = Run { offset, bytes };
            let first = *first.get_or_insert(entry.position);
            end = if entry.request.ends { run.end() } else { end.max(run.end()) };
            writes.push(run);
            if entry.request.ends {
                self.write(name, first, &mut writes)?;
                if before.watermark.is_some_and(|watermark| end < watermark) {
                    // Record the cut before it happens: otherwise the next run could not tell it from a file that was damaged.
                    let cut = Some(before.cut.map_or(end, |cut| cut.min(end)));
                    self.commit(name, claim, Mark { cut, ..before.clone() })?;
                    self.ledger.sync()?;
                }
                self.destination.set_length(name, end)?;
            }
        }
        self.write(name, first.unwrap_or_default(), &mut writes)?;
        (mark.watermark, mark.cut, mark.parked) = (Some(end), None, None);
        Ok(Some(mark))
    }

    fn write(&self, name: &Name, first: Position, writes: &mut Vec<Run>) -> Outcome<()> {
        let runs = runs(std::mem::take(writes));
        if runs.is_empty() { Ok(()) } else { self.destination.write(name, first, &runs) }
    }

    /// Returns the claim under which this process writes to a destination, if several nodes run the stream.
    fn claim_on(&self, name: &Name) -> Result<Option<Claim>, Error> {
        let Some(deal) = &self.deal else { return Ok(None) };
        deal.claim_on(name).map_or_else(|| Err(deal.taken_over()), |claim| Ok(Some(claim)))
    }

    fn commit(&self, name: &Name, claim: Option<&Claim>, mark: Mark) -> Result<(), Error> {
        match claim {
            Some(claim) => self.ledger.commit_under(claim, name, mark),
            None => self.ledger.commit(name, mark),
        }
    }

    fn recheck_after_error<T>(&self, name: &Name, outcome: Outcome<T>) -> Outcome<T> {
        let outcome = outcome.map_err(|failure| match failure {
            // Another node delivers to it now. The log hands out nothing for it until this process has it again.
            Failure::Fatal(error @ Error::TakenOver(_)) if self.deal.is_some() => Failure::Later(error.to_string()),
            Failure::Fatal(error @ Error::Unheard(_)) => Failure::Later(error.to_string()),
            failure => failure,
        });
        if outcome.is_err() {
            self.begun.lock().remove(name);
            if let Some(deal) = &self.deal {
                deal.note(name, true);
            }
        }
        outcome
    }
}

impl Sink<Entry> for Deliver {
    type Written = Written;
    type Error = Error;

    fn write(&self, name: &Name, entries: &[Entry]) -> Outcome<Written> {
        let claim = self.ledger.check_fresh().and_then(|()| self.claim_on(name)).map_err(Failure::Fatal);
        let delivered =
            claim.and_then(|claim| Ok(Written { mark: self.deliver(name, claim.as_ref(), entries)?, claim }));
        terrace::fail::point("stream:written");
        self.recheck_after_error(name, delivered)
    }

    fn sync(&self, name: &Name, Written { mark, claim }: Written) -> Outcome<()> {
        self.recheck_after_error(name, self.destination.sync(name))?;
        terrace::fail::point("stream:synced");
        match mark {
            Some(mark) => {
                let before = self.ledger.mark(name)?.map_or(0, |before| before.requests);
                let requests = mark.requests.saturating_sub(before);
                self.recheck_after_error(name, self.commit(name, claim.as_ref(), mark).map_err(Failure::Fatal))?;
                self.control.add_requests_done(requests);
            }
            // A file has no mark of its own, unless its destination was parked before.
            None => self.ledger.unpark(name)?,
        }
        self.control.set_parked(name, false);
        terrace::fail::point("stream:committed");
        Ok(())
    }

    fn wanted_again(&self) -> Result<Vec<Name>, Error> {
        let mut wanted = self.control.take_wanted_again();
        wanted.retain(|name| self.deal.as_ref().is_none_or(|deal| deal.has(name)));
        let mut again = Vec::with_capacity(wanted.len());
        for name in wanted {
            match self.ledger.unpark(&name) {
                // Since that look. It is asked for again once this process has the destination again.
                Err(Error::TakenOver(_)) if self.deal.is_some() => continue,
                unparked => unparked?,
            }
            self.control.set_parked(&name, false);
            again.push(name);
        }
        Ok(again)
    }

    fn park(&self, name: &Name, reason: &str) -> Result<(), Error> {
        tracing::error!(destination = %String::from_utf8_lossy(name), reason, "a destination is parked");
        self.control.set_parked(name, true);
        let reason = format!("{reason} (from {} to {})", self.sources.join(", "), self.destination.describe());
        match self.ledger.park(name, &reason) {
            // It failed, and was given up to another node, which tries again.
            Err(Error::TakenOver(_)) => Ok(()),
            parked => parked,
        }
    }
}
