//! The whole pipeline between a source and a sink in memory, against what a loop over the moves would have done.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use terrace_pipeline::{Ended, Failure, Figures, Move, Pulled, Settings, Sink, Source, run};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    destination: u8,
    sequence: u64,
    weight: usize,
}

impl Move for Request {
    type Destination = u8;
    type Order = u64;
    fn destination(&self) -> &u8 {
        &self.destination
    }
    fn order(&self) -> u64 {
        self.sequence
    }
    fn weight(&self) -> usize {
        self.weight
    }
}

/// A log in memory; `sip` requests are given at once.
struct Log {
    state: Mutex<LogState>,
    sip: usize,
}

#[derive(Default)]
struct LogState {
    all: BTreeMap<u64, Request>,
    next: u64,
    again: BTreeMap<u64, Request>,
}

impl Log {
    fn new(requests: impl IntoIterator<Item = Request>, sip: usize) -> Log {
        let all = requests.into_iter().map(|request| (request.sequence, request)).collect();
        Log { state: Mutex::new(LogState { all, ..LogState::default() }), sip }
    }

    fn left(&self) -> Vec<Request> {
        self.state.lock().unwrap().all.values().cloned().collect()
    }
}

impl Source for Log {
    type Move = Request;
    type Error = String;

    fn pull(&self, budget: usize) -> Result<Pulled<Request>, String> {
        let mut state = self.state.lock().unwrap();
        let mut given = Vec::new();
        let mut bytes = 0;
        while given.len() < self.sip && (given.is_empty() || bytes < budget) {
            let old = state.again.pop_first();
            let Some((sequence, request)) = old.or_else(|| {
                let next = state.next;
                state.all.range(next..).next().map(|(sequence, request)| (*sequence, request.clone()))
            }) else {
                break;
            };
            state.next = state.next.max(sequence + 1);
            bytes += request.weight;
            given.push(request);
        }
        // Several sources or a network may mix up what is near.
        given.reverse();
        Ok(if given.is_empty() { Pulled::End } else { Pulled::Moves(given) })
    }

    fn wait(&self, limit: Duration) {
        std::thread::sleep(limit);
    }

    fn finish(&self, moves: Vec<Request>) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        for request in moves {
            state.all.remove(&request.sequence).ok_or("finished twice")?;
        }
        Ok(())
    }

    fn again(&self, destination: &u8) -> Result<(), String> {
        let mut state = self.state.lock().unwrap();
        let next = state.next;
        let missed = state.all.range(..next).filter(|(_, request)| request.destination == *destination);
        let missed: Vec<_> = missed.map(|(sequence, request)| (*sequence, request.clone())).collect();
        state.again.extend(missed);
        Ok(())
    }
}

/// Keeps what each destination was given; `plan` says how many writes to each fail first, and which fail for good.
#[derive(Default)]
struct Kept {
    written: Mutex<HashMap<u8, Vec<u64>>>,
    fails: HashMap<u8, usize>,
    refuses: Vec<u8>,
    tried: Mutex<HashMap<u8, usize>>,
    parked: Mutex<HashMap<u8, String>>,
    busy: Mutex<Vec<u8>>,
    slow: Option<Duration>,
}

impl Sink<Request> for Kept {
    type Written = Vec<u64>;
    type Error = String;

    fn write(&self, destination: &u8, moves: &[Request]) -> Result<Vec<u64>, Failure<String>> {
        {
            let mut busy = self.busy.lock().unwrap();
            if busy.contains(destination) {
                return Err(Failure::Fatal(format!("two at {destination}")));
            }
            busy.push(*destination);
        }
        if let Some(slow) = self.slow {
            std::thread::sleep(slow);
        }
        Ok(moves.iter().map(|request| request.sequence).collect())
    }

    fn sync(&self, destination: &u8, written: Vec<u64>) -> Result<(), Failure<String>> {
        self.busy.lock().unwrap().retain(|busy| busy != destination);
        if self.refuses.contains(destination) {
            return Err(Failure::Never("never".into()));
        }
        let mut tried = self.tried.lock().unwrap();
        let tried = tried.entry(*destination).or_default();
        *tried += 1;
        // It fails on every second try, so that what is under way meets what is pulled again.
        if tried.is_multiple_of(2) && *tried / 2 <= self.fails.get(destination).copied().unwrap_or(0) {
            return Err(Failure::Later("not now".into()));
        }
        self.written.lock().unwrap().entry(*destination).or_default().extend(written);
        Ok(())
    }

    fn park(&self, destination: &u8, reason: &str) -> Result<(), String> {
        self.parked.lock().unwrap().insert(*destination, reason.into());
        Ok(())
    }
}

fn settings() -> Settings {
    Settings { retry: Duration::from_millis(1), rest: Duration::from_millis(5), ..Settings::default() }
}

fn expected<'a>(requests: impl IntoIterator<Item = &'a Request>) -> HashMap<u8, Vec<u64>> {
    let mut expected: HashMap<u8, Vec<u64>> = HashMap::new();
    for request in requests {
        expected.entry(request.destination).or_default().push(request.sequence);
    }
    expected
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    /// Each destination gets each move once, in order, whatever fails for a while; one that fails for good stops no other,
    /// and what it was to get stays in the source.
    #[test]
    fn every_move_arrives_once_and_in_order(
        targets in prop::collection::vec((0u8..6, 1usize..500), 0..400),
        fails in prop::collection::hash_map(0u8..6, 0usize..4, 0..6),
        refuses in prop::collection::vec(0u8..6, 0..2),
        (sip, max_bytes, memory, workers) in (1usize..40, 1usize..3000, 1usize..5000, 1usize..5),
    ) {
        let request = |(sequence, (destination, weight)): (u64, (u8, usize))| Request { destination, sequence, weight };
        let requests: Vec<Request> = (0..).zip(targets).map(request).collect();
        let log = Log::new(requests.clone(), sip);
        let sink = Kept { fails, refuses: refuses.clone(), ..Kept::default() };
        let settings = Settings { max_bytes, memory, workers, ..settings() };
        let figures = Figures::default();
        run(&[&log], &sink, &settings, &figures).unwrap();
        let (bad, good): (Vec<_>, Vec<_>) = requests.into_iter().partition(|r| refuses.contains(&r.destination));
        prop_assert_eq!(sink.written.into_inner().unwrap(), expected(&good));
        prop_assert_eq!(log.left(), bad);
        let peak = figures.peak.load(Ordering::Relaxed) as usize;
        prop_assert!(peak <= memory + 500 * sip, "{} of {}", peak, memory);
    }
}

#[test]
fn several_sources_are_pulled_at_once_and_each_begins_again() {
    let requests = |source: u64| {
        (0..500).map(move |i| Request { destination: (i % 3) as u8, sequence: 2 * i + source, weight: 10 })
    };
    let logs = [Log::new(requests(0), 7), Log::new(requests(1), 3)];
    let sink = Kept { fails: [(0, 3), (1, 2)].into(), ..Kept::default() };
    run(&[&logs[0], &logs[1]], &sink, &Settings { max_bytes: 100, ..settings() }, &Figures::default()).unwrap();
    for (destination, written) in sink.written.into_inner().unwrap() {
        for source in [0, 1] {
            let of: Vec<u64> = written.iter().copied().filter(|sequence| sequence % 2 == source).collect();
            let all: Vec<u64> = requests(source).filter(|r| r.destination == destination).map(|r| r.sequence).collect();
            assert_eq!(of, all, "of source {source} at {destination}");
        }
    }
    assert!(logs.iter().all(|log| log.left().is_empty()));
}

#[test]
fn workers_come_with_the_backlog_and_go() {
    let requests = (0..400).map(|i| Request { destination: (i % 8) as u8, sequence: i, weight: 100 });
    let log = Log::new(requests, 50);
    let sink = Kept { slow: Some(Duration::from_millis(2)), ..Kept::default() };
    let figures = Figures::default();
    run(&[&log], &sink, &Settings { max_bytes: 500, workers: 6, ..settings() }, &figures).unwrap();
    assert_eq!(figures.most_workers.load(Ordering::Relaxed), 6);
    assert_eq!(figures.workers.load(Ordering::Relaxed), 0);
    assert_eq!(figures.moves.load(Ordering::Relaxed), 400);
}

/// Gives one request, and the end only once that has arrived.
struct Lone {
    given: AtomicBool,
    arrived: Mutex<bool>,
    changed: Condvar,
}

impl Source for Lone {
    type Move = Request;
    type Error = String;
    fn pull(&self, _: usize) -> Result<Pulled<Request>, String> {
        if !self.given.swap(true, Ordering::Relaxed) {
            return Ok(Pulled::Moves(vec![Request { destination: 0, sequence: 0, weight: 1 }]));
        }
        Ok(if *self.arrived.lock().unwrap() { Pulled::End } else { Pulled::Nothing })
    }
    fn wait(&self, limit: Duration) {
        let arrived = self.arrived.lock().unwrap();
        drop(self.changed.wait_timeout_while(arrived, limit, |arrived| !*arrived).unwrap());
    }
    fn finish(&self, _: Vec<Request>) -> Result<(), String> {
        *self.arrived.lock().unwrap() = true;
        self.changed.notify_all();
        Ok(())
    }
    fn again(&self, _: &u8) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn a_lone_request_does_not_wait_for_the_timer() {
    let lone = Lone { given: AtomicBool::new(false), arrived: Mutex::new(false), changed: Condvar::new() };
    let settings = Settings { max_age: Duration::from_secs(3600), ..settings() };
    let figures = Figures::default();
    run(&[lone], &Kept::default(), &settings, &figures).unwrap();
    assert_eq!(figures.by_idle.load(Ordering::Relaxed), 1);
}

/// A sink whose catalog is broken.
struct Broken(AtomicUsize);

impl Sink<Request> for Broken {
    type Written = ();
    type Error = String;
    fn write(&self, _: &u8, _: &[Request]) -> Result<(), Failure<String>> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 3 { Err(Failure::Fatal("broken".into())) } else { Ok(()) }
    }
    fn sync(&self, _: &u8, (): ()) -> Result<(), Failure<String>> {
        Ok(())
    }
    fn park(&self, _: &u8, _: &str) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn an_error_ends_the_pipeline_and_leaves_the_rest_in_the_source() {
    let requests = (0..1000).map(|i| Request { destination: (i % 5) as u8, sequence: i, weight: 100 });
    let log = Log::new(requests, 10);
    let error =
        run(&[&log], &Broken(AtomicUsize::new(0)), &Settings { max_bytes: 300, ..settings() }, &Figures::default());
    assert!(matches!(error, Err(Ended::Failed(error)) if error == "broken"));
    assert!(!log.left().is_empty());
}
