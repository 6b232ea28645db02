//! Flushing by batches: buffer until N bytes are there or T has passed, push them, and buffer again.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use rustix_futex_sync::{Condvar, Mutex};
use terrace_stream::destinations::Destination;
use terrace_stream::{Position, Run};

use super::archive::{Archive, TARGET_COUNT, name, target};

/// The ways to push a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Push {
    /// In order of arrival, with a write for each request.
    Generic,
    /// Grouped by file, with one write and one thread for each file.
    Aggregated,
}

/// Gathers requests of many producers.
pub struct Batch<'a> {
    archive: &'a Archive,
    bytes: usize,
    age: Duration,
    push: Push,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<(u64, Bytes)>,
    held: usize,
    since: Option<Instant>,
    pushing: bool,
    over: bool,
    ends: [u64; TARGET_COUNT],
}

impl<'a> Batch<'a> {
    pub fn new(archive: &'a Archive, bytes: usize, age: Duration, push: Push) -> Batch<'a> {
        Batch { archive, bytes, age, push, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Accepts a request; waits while a batch is being pushed.
    pub fn accept(&self, id: u64, bytes: Bytes) {
        let mut state = self.state.lock();
        while state.pushing || state.held >= self.bytes {
            state = self.changed.wait(state);
        }
        state.held += bytes.len();
        state.since.get_or_insert_with(Instant::now);
        state.requests.push((id, bytes));
        if state.held >= self.bytes {
            self.changed.notify_all();
        }
    }

    pub fn end(&self) {
        self.state.lock().over = true;
        self.changed.notify_all();
    }

    /// Pushes batches until the producers are done.
    pub fn run(&self) -> Result<()> {
        loop {
            let mut state = self.state.lock();
            loop {
                let old = state.since.is_some_and(|since| since.elapsed() >= self.age);
                if state.held >= self.bytes || old || state.over {
                    break;
                }
                let left = state.since.map_or(self.age, |since| self.age.saturating_sub(since.elapsed()));
                (state, _) = self.changed.wait_timeout(state, left);
            }
            let requests = std::mem::take(&mut state.requests);
            if requests.is_empty() && state.over {
                return Ok(());
            }
            state.pushing = true;
            let mut ends = state.ends;
            drop(state);
            self.push(requests, &mut ends)?;
            let mut state = self.state.lock();
            (state.pushing, state.held, state.since, state.ends) = (false, 0, None, ends);
            self.changed.notify_all();
        }
    }

    fn push(&self, requests: Vec<(u64, Bytes)>, ends: &mut [u64; TARGET_COUNT]) -> Result<()> {
        let write = |target: usize, run: Run| {
            let written = self.archive.write(name(target).as_bytes(), Position::default(), &[run]);
            written.map_err(|e| anyhow!("{e:?}"))
        };
        let sync = |target: usize| self.archive.sync(name(target).as_bytes()).map_err(|e| anyhow!("{e:?}"));
        if self.push == Push::Generic {
            for (id, bytes) in requests {
                let target = target(id);
                let offset = ends[target];
                ends[target] += bytes.len() as u64;
                write(target, Run { offset, bytes })?;
            }
            return (0..TARGET_COUNT).try_for_each(sync);
        }
        let mut parts: [Vec<u8>; TARGET_COUNT] = Default::default();
        requests.iter().for_each(|(id, bytes)| parts[target(*id)].extend_from_slice(bytes));
        std::thread::scope(|scope| {
            let push = |(target, part): (usize, Vec<u8>)| {
                let offset = ends[target];
                ends[target] += part.len() as u64;
                scope.spawn(move || {
                    if part.is_empty() {
                        Ok(())
                    } else {
                        write(target, Run { offset, bytes: part.into() }).and_then(|()| sync(target))
                    }
                })
            };
            let pushed: Vec<_> = parts.into_iter().enumerate().map(push).collect();
            pushed.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a push panicked"))?)
        })
    }
}
