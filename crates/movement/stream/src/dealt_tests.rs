//! Tests of the log as a source where several nodes run the stream.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use terrace::{Ack, Config, Locked, Store};
use terrace_pipeline::{Pulled, Source};

use crate::control::Control;
use crate::deal::{Deal, Delivery};
use crate::entry::Entry;
use crate::ledger::{Ledger, Mark};
use crate::log::{LOG_SOURCE_NAME, LogSource};
use crate::request::{Name, Request};
use crate::right::Right;
use crate::stream::Stream;

const DESTINATION_COUNT: usize = 32;

/// A process that delivers a stream, without a pipeline.
struct Deliverer {
    deal: Arc<Deal>,
    ledger: Arc<Ledger>,
    source: LogSource,
}

impl Deliverer {
    /// All workers of a test use one store. A claim names the node, so they differ as if each were on a machine of its own.
    fn join(stream: &Stream, folder: &Path, node: &str) -> Deliverer {
        let lock = Locked::wait(File::create(folder.join(node)).expect("a file")).expect("a lock");
        let folder = String::from_utf8(stream.key("")).expect("a name");
        let deal =
            Deal::join(stream.store(), &folder, stream.name(), node.into(), "a place".into(), lock).expect("joins");
        let deal = Arc::new(deal);
        let ledger = Arc::new(stream.ledger_of(&Right::Dealt(deal.clone())));
        let control = Arc::new(Control::default());
        let source = LogSource::new(stream.log.clone(), ledger.clone(), control, Some(deal.clone()), 0);
        Deliverer { deal, ledger, source }
    }

    fn tend(&self) {
        self.deal.tend(self).expect("tends");
    }

    fn pull_all(&self) -> Vec<Entry> {
        let mut pulled = Vec::new();
        while let Pulled::Moves(moves) = self.source.pull(1 << 20).expect("pulls") {
            pulled.extend(moves);
        }
        pulled
    }
}

impl Delivery for Deliverer {
    fn is_idle(&self, is_one: &dyn Fn(&[u8]) -> bool) -> bool {
        self.source.is_idle(is_one)
    }

    fn forget(&self, is_one: &dyn Fn(&[u8]) -> bool) {
        self.ledger.reread(is_one);
    }

    fn retry(&self, _: Vec<Name>) {}
}

fn lines_by_destination(entries: &[Entry]) -> BTreeMap<Name, Vec<String>> {
    let mut lines: BTreeMap<Name, Vec<String>> = BTreeMap::new();
    for Entry { request, .. } in entries {
        let line = String::from_utf8_lossy(&request.bytes).into_owned();
        lines.entry(request.destination.clone()).or_default().push(line);
    }
    lines
}

/// While etcd did not answer, writes failed. Then another process had the shares for a moment, just when this one asked for the requests again: they were not handed out, and
/// stayed noted as handed out. When this process had the shares again, it went on with later requests, and these were recorded as done.
#[test]
fn requests_that_were_left_out_come_before_later_ones() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']", dir.path().display());
    let store =
        Store::init(&dir.path().join("store"), &Config::parse(&config, "test").expect("rules")).expect("a store");
    let stream = Stream::open(&store, "s", Ack::Placed).expect("a stream");
    let destinations: Vec<Name> =
        (0..DESTINATION_COUNT).map(|number| format!("to/{number}").as_bytes().into()).collect();
    let append = |line: &str| {
        let requests = destinations.iter().map(|name| Request::append(name.clone(), line.to_owned()));
        stream.append(requests.collect()).expect("appends");
    };
    let worker = Deliverer::join(&stream, dir.path(), "worker");
    worker.tend();
    append("first");
    assert_eq!(worker.pull_all().len(), DESTINATION_COUNT);
    // All writes fail.
    destinations.iter().for_each(|name| worker.deal.note(name, true));
    let other = Deliverer::join(&stream, dir.path(), "other");
    other.tend();
    worker.tend();
    other.tend();
    let (kept, lost): (Vec<&Name>, Vec<&Name>) = destinations.iter().partition(|name| worker.deal.has(name));
    assert!(!kept.is_empty() && lost.len() > 1 && lost.iter().all(|name| other.deal.has(name)));
    destinations.iter().for_each(|name| worker.source.again(name).expect("asks again"));
    let mut pulled = worker.pull_all();
    assert!(pulled.iter().map(|entry| &entry.request.destination).eq(kept.iter().copied()));
    // The other process delivers to one of its destinations, and ends.
    let of_other = other.pull_all();
    let delivered = of_other.iter().find(|entry| entry.request.destination == *lost[0]).expect("a request");
    let done = BTreeMap::from([(LOG_SOURCE_NAME.to_owned(), delivered.position)]);
    other.ledger.commit(lost[0], Mark { watermark: Some(5), done, ..Mark::default() }).expect("commits");
    drop(other);
    worker.tend();
    assert!(destinations.iter().all(|name| worker.deal.has(name)));
    append("second");
    pulled.extend(worker.pull_all());
    let expected = |name: &Name| match name == lost[0] {
        true => vec!["second".to_owned()],
        false => vec!["first".to_owned(), "second".to_owned()],
    };
    let expected: BTreeMap<Name, Vec<String>> =
        destinations.iter().map(|name| (name.clone(), expected(name))).collect();
    assert_eq!(lines_by_destination(&pulled), expected);
    worker.source.finish(pulled).expect("finishes");
    assert!(worker.is_idle(&|_| true));
}

/// A destination was given up after a failed write, and others delivered to it. What this process had pulled before stayed noted as handed out: it never gave up the destination
/// again.
#[test]
fn requests_that_others_have_delivered_are_not_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let config = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']", dir.path().display());
    let store =
        Store::init(&dir.path().join("store"), &Config::parse(&config, "test").expect("rules")).expect("a store");
    let stream = Stream::open(&store, "s", Ack::Placed).expect("a stream");
    let name: Name = b"to".as_slice().into();
    let worker = Deliverer::join(&stream, dir.path(), "worker");
    worker.tend();
    stream.append(vec![Request::append(name.clone(), "line")]).expect("appends");
    let pulled = worker.pull_all();
    let done = BTreeMap::from([(LOG_SOURCE_NAME.to_owned(), pulled[0].position)]);
    // As if another process had committed this while it had the destination.
    worker.ledger.commit(&name, Mark { watermark: Some(4), done, ..Mark::default() }).expect("commits");
    worker.source.again(&name).expect("asks again");
    assert!(worker.pull_all().is_empty());
    assert!(worker.is_idle(&|_| true));
}
