//! Streams in a golden store of an older version, which every later version must read. `make golden` writes missing
//! archives.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{Routed, settings, store};
use terrace::{Ack, Store};
use terrace_stream::destinations::{Destination, Keys, Outcome};
use terrace_stream::sources::Watch;
use terrace_stream::{Accepted, Control, Failure, Framed, Name, Origin, Position, Request, Run, Stream};
use terrace_testkit::golden::{archive, is_wanted, pack, unpack};

fn framed(sequence: u64) -> Framed {
    let request = Request::append(format!("deep/d{}", sequence % 2), format!("request {sequence}\n"));
    Framed { request, origin: Some(Origin { producer: b"one/two"[..].into(), sequence }) }
}

fn run(store: &Store, stream: &Stream) {
    let control = Arc::new(Control::default());
    control.drain();
    let to = Arc::new(Keys::new(store, b"archive"));
    stream.run(to, &control).unwrap().with_log().go(&settings()).unwrap();
}

/// Requests 1 to 4 are delivered; 5 to 8 and 10 are pending.
fn write(dir: &Path, archive: &Path) {
    let store = store(dir);
    let stream = Stream::open(&store, "golden", Ack::Placed).unwrap();
    stream.append_framed((1..5).map(framed).collect()).unwrap();
    run(&store, &stream);
    stream.append_framed((5..9).map(framed).collect()).unwrap();
    stream.append_framed(vec![framed(10)]).unwrap();
    drop(stream);
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn a_golden_stream_goes_on_where_it_stopped() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "stream");
    if is_wanted(&archive) {
        write(tempfile::tempdir().unwrap().path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    let home = dir.path().join("store");
    fs::write(home.join("terrace.toml"), common::config(dir.path()).to_toml()).unwrap();
    let store = Store::open(&home).unwrap();
    let stream = Stream::open(&store, "golden", Ack::Placed).unwrap();
    assert_eq!(stream.backlog().unwrap().requests, 5);
    let again = stream.append_framed(vec![framed(3), framed(8), framed(9), framed(10)]).unwrap();
    assert_eq!(again, [Accepted::Known, Accepted::Known, Accepted::New, Accepted::Known]);
    run(&store, &stream);
    let even: String = [2, 4, 6, 8, 10].map(|number| format!("request {number}\n")).concat();
    let odd: String = [1, 3, 5, 7, 9].map(|number| format!("request {number}\n")).concat();
    assert_eq!(String::from_utf8(store.get(b"archive/deep/d0").unwrap()).unwrap(), even);
    assert_eq!(String::from_utf8(store.get(b"archive/deep/d1").unwrap()).unwrap(), odd);
}

/// A destination that takes bytes and cannot be truncated.
struct Growing(Routed);

impl Destination for Growing {
    fn length(&self, name: &[u8]) -> Outcome<Option<u64>> {
        self.0.length(name)
    }

    fn write(&self, name: &[u8], first: Position, runs: &[Run]) -> Outcome<()> {
        self.0.write(name, first, runs)
    }

    fn set_length(&self, name: &[u8], length: u64) -> Outcome<()> {
        match name.ends_with(b"cut") {
            true => Err(Failure::Never("it cannot be truncated".into())),
            false => self.0.set_length(name, length),
        }
    }

    fn sync(&self, name: &[u8]) -> Outcome<()> {
        self.0.sync(name)
    }
}

/// Files of two directories have arrived, one destination is parked, and another one stays longer than it should be.
fn write_parked(dir: &Path, archive: &Path) {
    let store = store(dir);
    let (folders, watch) = (["one", "two"].map(|name| dir.join(name)), Watch::default());
    for (name, bytes) in [("one/deep/file", "of a directory"), ("two/other", "more bytes")] {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let stream = Stream::open(&store, "parked", Ack::Placed).unwrap();
    let run = || {
        let control = Arc::new(Control::default());
        control.drain();
        let to = Arc::new(Growing(Routed::new(&store, &dir.join("archive"), false, 1)));
        let mut running = stream.run(to, &control).unwrap().with_log();
        for folder in &folders {
            running = running.with_directory(folder, &watch).unwrap();
        }
        running.go(&settings()).unwrap();
    };
    stream.append(vec![Request::append("bad/one", "pending"), Request::append("key/cut", "ten bytes.")]).unwrap();
    run();
    stream.append(vec![Request { ends: true, ..Request::at("key/cut", 0, "four") }]).unwrap();
    run();
    drop(stream);
    store.sync().unwrap();
    store.close().unwrap();
    pack(dir, archive);
}

#[test]
fn parked_destinations_of_a_golden_stream_are_tried_again() {
    let archive = archive(env!("CARGO_MANIFEST_DIR"), "parked");
    if is_wanted(&archive) {
        write_parked(tempfile::tempdir().unwrap().path(), &archive);
    }
    let dir = tempfile::tempdir().unwrap();
    unpack(&archive, dir.path());
    let home = dir.path().join("store");
    fs::write(home.join("terrace.toml"), common::config(dir.path()).to_toml()).unwrap();
    let store = Store::open(&home).unwrap();
    let stream = Stream::open(&store, "parked", Ack::Placed).unwrap();
    let name = |name: &str| Name::from(name.as_bytes());
    let mark = |of: &str| stream.ledger().mark(&name(of)).unwrap().unwrap();
    assert!(mark("bad/one").parked.unwrap().contains("it is bad"));
    let cut = mark("key/cut");
    assert_eq!((cut.watermark, cut.cut), (Some(10), Some(4)));
    assert!(cut.parked.unwrap().contains("it cannot be truncated"));
    let done = stream.done().unwrap();
    assert_eq!((done.files, done.bytes), (2, 34));
    let owners = store.internal().list(b".terrace/streams/parked/owners", None, 10).unwrap();
    assert!(owners.iter().any(|(key, _)| key.ends_with(b"/deep%2Ffile")), "{owners:?}");
    assert!(!stream.retry(&[name("bad/one"), name("key/cut")]).unwrap(), "nothing runs the stream");
    let control = Arc::new(Control::default());
    control.drain();
    let archive = dir.path().join("archive");
    let to = Arc::new(Routed::new(&store, &archive, true, 1));
    stream.run(to, &control).unwrap().with_log().go(&settings()).unwrap();
    assert_eq!(fs::read(archive.join("bad/one")).unwrap(), b"pending");
    assert_eq!(store.get(b"archive/key/cut").unwrap(), b"four");
    assert_eq!(mark("key/cut").cut, None);
    assert_eq!(stream.backlog().unwrap().requests, 0);
}
