//! Invalid messages. `CASES` sets their number.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::client::{Body, Client, OPEN_READ_WRITE};
use common::{Served, bytes};
use proptest::prelude::*;
use terrace_nine::Limits;
use terrace_nine::nine::Reply;
use terrace_nine::nine::message::{Damaged, Request};
use terrace_nine::nine::record::{Qid, Record};
use terrace_testkit::Random;

#[test]
fn damaged_messages_end_their_connection_only() {
    let served = Served::new();
    let mut healthy = served.client();
    let cut_walk = Body::default().n(4, 0).n(4, 1).n(2, 3).s("a");
    let long_walk = (0..17).fold(Body::default().n(4, 0).n(4, 1).n(2, 17), |body, _| body.s("a"));
    let mut behind = Body::default().n(4, 0);
    behind.0.push(0);
    let cut_write = Body::default().n(4, 0).n(8, 0).n(4, 100);
    for (kind, body) in
        [(110, cut_walk), (110, long_walk), (120, behind), (118, cut_write), (126, Body::default().n(6, 0))]
    {
        let mut client = served.client();
        assert!(client.ask(kind, body).unwrap_err().contains("damaged message"));
        assert!(client.receive().is_err(), "it goes on");
    }
    for size in [0, 6, (1 << 20) + 25, u32::MAX] {
        let mut stream = UnixStream::connect(&served.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(&size.to_le_bytes()).unwrap();
        let mut told = Vec::new();
        stream.read_to_end(&mut told).unwrap();
        assert_eq!(told[4], 107, "{size}");
    }
    // A connection that ends within a message is closed without an answer.
    let mut stream = UnixStream::connect(&served.socket).unwrap();
    stream.write_all(&[100, 0, 0, 0, 100]).unwrap();
    drop(stream);
    assert_eq!(healthy.names("").unwrap(), [""; 0]);
}

#[test]
fn fids_are_bounded() {
    let served = Served::new();
    let mut client = served.client();
    let refused = (0..1 << 15).find_map(|_| client.walk("").err()).unwrap();
    assert_eq!(refused, "Too many open files");
}

/// A silent connection kept its place forever, so 256 of them locked all clients out. The tests could not see it
/// because they closed all of their connections.
#[test]
fn idle_connections_give_way_to_new_ones() {
    let limits = Limits { spared: Duration::from_millis(200), ..Limits::default() };
    let served = Served::within(limits);
    served.files.store().put_bytes(b"a", b"1", &Default::default()).unwrap();
    // This client holds a file open and has written to it.
    let mut holding = served.client();
    let file = holding.create("", "held", 0o644, OPEN_READ_WRITE).unwrap();
    holding.write(file, 0, b"kept back").unwrap();
    let silent: Vec<UnixStream> = (0..600).map(|_| UnixStream::connect(&served.socket).unwrap()).collect();
    assert_eq!(served.client().read_all("a").unwrap(), b"1", "600 silent connections keep nobody out");
    let mut first = &silent[0];
    first.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(first.read(&mut [0]).unwrap(), 0, "the one that has been silent longest has given way");

    // Connections that have agreed on a version are spared at first, so a new one may have to try again.
    let mut attached: Vec<Client> = Vec::new();
    for _ in 0..300 {
        let connected = (0..1000).find_map(|_| {
            let client =
                UnixStream::connect(&served.socket).ok().and_then(|stream| Client::try_over(Box::new(stream)).ok());
            if client.is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
            client
        });
        attached.push(connected.expect("nobody is let in any more"));
        // Connections with open files are closed last.
        assert_eq!(holding.read(file, 0, 100).unwrap(), b"kept back");
    }
    assert_eq!(attached.last_mut().unwrap().read_all("a").unwrap(), b"1");
    assert!(attached[0].read_all("a").is_err(), "who has been idle longest has given way");
}

#[test]
fn connections_idle_for_too_long_are_closed() {
    let served = Served::within(Limits { idle: Some(Duration::from_millis(300)), ..Limits::default() });
    let mut client = served.client();
    let file = client.create("", "held", 0o644, OPEN_READ_WRITE).unwrap();
    client.write(file, 0, b"kept back").unwrap();
    let mut silent = UnixStream::connect(&served.socket).unwrap();
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
    assert!(client.receive().is_err(), "it is ended");
    // Its file is closed, and thereby written.
    let mut other = served.client();
    let written = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        other.read_all("held").is_ok_and(|bytes| bytes == b"kept back")
    });
    assert!(written);
}

/// Sends random but complete messages: with right lengths, and with fids that exist and fids that do not.
#[test]
fn random_messages_never_panic() {
    let served = Served::new();
    served.files.store().put_bytes(b"a/b/c", b"some bytes", &Default::default()).unwrap();
    let cases = std::env::var("CASES").map_or(20_000, |text| text.parse().unwrap());
    let seed: u64 = std::env::var("SEED").map_or(1, |text| text.parse().unwrap());
    let mut random = Random::new(seed);
    let mut next = move |below: u64| random.below(below);
    let mut client = served.client();
    let names = ["a", "b", "c", "new", "..", ".", "", "a/b", "\u{fc}", ".views", ".terrace", "\0"];
    for case in 0..cases {
        let kind = [100, 102, 104, 108, 110, 110, 110, 112, 114, 116, 118, 120, 122, 124, 126, 99][next(16) as usize];
        let fid = next(6);
        let mut body = Body::default().n(4, fid);
        body = match kind {
            100 => {
                Body::default().n(4, [0, 300, 8192, 1 << 30][next(4) as usize]).s(["9P2000", "?"][next(8) as usize / 7])
            }
            104 => body.n(4, u64::MAX).s("").s(names[next(12) as usize]),
            108 => Body::default().n(2, next(9)),
            110 => {
                let count = next(4);
                (0..count).fold(body.n(4, next(6)).n(2, count), |body, _| body.s(names[next(12) as usize]))
            }
            112 => body.n(1, next(256)),
            114 => body.s(names[next(12) as usize]).n(4, next(1 << 32)).n(1, next(256)),
            116 => body.n(8, [0, 5, u64::MAX][next(3) as usize]).n(4, next(1 << 32)),
            118 => {
                let mut body = body.n(8, [0, 5, 1 << 40, u64::MAX][next(4) as usize]).n(4, 9);
                body.0.extend(bytes(9, next(9)));
                body
            }
            126 => {
                let mut record = Body(vec![0xff; 39]);
                for _ in 0..next(3) {
                    let at = next(39) as usize;
                    record.0[at] = next(256) as u8;
                }
                let record = record.s(names[next(12) as usize]).s("").s("").s("");
                let mut body = body.n(2, record.0.len() as u64 + 2).n(2, record.0.len() as u64);
                body.0.extend(record.0);
                body
            }
            102 => body.s("").s(""),
            _ => body,
        };
        // Sometimes the message is cut, or one of its bytes is changed.
        if next(50) == 0 && !body.0.is_empty() {
            let at = next(body.0.len() as u64) as usize;
            match next(2) {
                0 => body.0.truncate(at),
                _ => body.0[at] ^= 1 << next(8),
            }
        }
        let answered = client.send(kind, 1, &body.0).and_then(|()| client.receive());
        let damaged = match &answered {
            Ok((kind, tag, answer)) => {
                assert_eq!(*tag, 1, "case {case} of seed {seed}");
                *kind == 107 && String::from_utf8_lossy(answer).contains("damaged")
            }
            Err(error) => panic!("case {case} of seed {seed}: {error}"),
        };
        if damaged || next(500) == 0 {
            client = served.client();
        }
    }
    let _: Client = served.client();
}

fn texts() -> impl Strategy<Value = String> {
    "[a-z.é]{0,20}"
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_decoded_as_the_manual_defines(
        (fid, other, count) in any::<(u32, u32, u32)>(),
        (offset, mode) in any::<(u64, u8)>(),
        names in prop::collection::vec(texts(), 0..=16),
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let body = |body: Body| body.0;
        let start = || Body::default().n(4, fid.into());
        let check = |kind, body: &[u8], expected: Request| {
            assert_eq!(Request::decode(kind, body).as_ref(), Ok(&expected));
            // Every byte matters.
            if !body.is_empty() {
                assert!(Request::decode(kind, &body[..body.len() - 1]).is_err());
            }
            assert!(Request::decode(kind, &[body, &[0]].concat()).is_err());
        };
        let name = names.first().cloned().unwrap_or_default();
        check(100, &body(start().s(&name)), Request::Version { msize: fid, version: name.as_bytes() });
        let attach = Request::Attach { fid, afid: other, uname: name.as_bytes(), aname: b"x" };
        check(104, &body(start().n(4, other.into()).s(&name).s("x")), attach);
        let walk = names.iter().fold(start().n(4, other.into()).n(2, names.len() as u64), |body, name| body.s(name));
        check(110, &walk.0, Request::Walk { fid, newfid: other, names: names.iter().map(|name| name.as_bytes()).collect() });
        check(112, &body(start().n(1, mode.into())), Request::Open { fid, mode });
        let create = Request::Create { fid, name: name.as_bytes(), perm: other, mode };
        check(114, &body(start().s(&name).n(4, other.into()).n(1, mode.into())), create);
        check(116, &body(start().n(8, offset).n(4, count.into())), Request::Read { fid, offset, count });
        let mut write = start().n(8, offset).n(4, data.len() as u64);
        write.0.extend(&data);
        check(118, &write.0, Request::Write { fid, offset, data: &data });
        check(120, &body(start()), Request::Clunk { fid });
        check(122, &body(start()), Request::Remove { fid });
        check(124, &body(start()), Request::Stat { fid });
    }

    #[test]
    fn records_decode_to_what_was_encoded(
        numbers in any::<(u16, u32, u8, u32, u64, u32, u32, u32, u64)>(),
        (name, owner, group) in (texts(), texts(), texts()),
        at in any::<prop::sample::Index>(),
    ) {
        let (kind, device, qid, version, path, mode, accessed, modified, length) = numbers;
        let record = Record {
            kind, device, qid: Qid { kind: qid, version, path }, mode, accessed, modified, length,
            name: name.as_bytes(), owner: owner.as_bytes(), group: group.as_bytes(), changer: b"",
        };
        let mut encoded = Vec::new();
        record.encode(&mut encoded);
        assert_eq!(encoded.len(), record.size());
        // The encoding that a client would write.
        let by_hand = Body::default().n(2, record.size() as u64 - 2).n(2, kind.into()).n(4, device.into());
        let by_hand = by_hand.n(1, qid.into()).n(4, version.into()).n(8, path).n(4, mode.into());
        let by_hand = by_hand.n(4, accessed.into()).n(4, modified.into()).n(8, length);
        assert_eq!(&by_hand.s(&name).s(&owner).s(&group).s("").0, &encoded);
        let mut body = Body::default().n(4, 1).n(2, encoded.len() as u64);
        body.0.extend(&encoded);
        assert_eq!(Request::decode(126, &body.0), Ok(Request::Wstat { fid: 1, record: record.clone() }));
        let cut = at.index(body.0.len());
        assert_eq!(Request::decode(126, &body.0[..cut]), Err(Damaged("it ends too early")));
        let mut answer = Vec::new();
        Reply::Stat(record).encode(5, &mut answer);
        assert_eq!(answer[..4], (answer.len() as u32).to_le_bytes());
        assert_eq!(answer[9..], encoded);
    }

    #[test]
    fn random_bytes_never_panic(kind in any::<u8>(), body in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Request::decode(kind, &body);
    }
}
