//! Streams in a golden store of an older version, which every later version must read. `make golden` writes missing
//! archives.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use common::{settings, store};
use terrace::{Ack, Store};
use terrace_stream::destinations::Keys;
use terrace_stream::{Accepted, Control, Framed, Origin, Request, Stream};
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
