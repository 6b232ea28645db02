//! Requests for streams over HTTP, sent by curl and by Python.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use terrace_stream::{Accepted, Framed, Origin, Request, Stream};

use crate::place::Place;

const NODE_SECRET: &str = "correct-horse-battery-staple";

/// A node that takes requests for streams. It is killed when this is dropped.
struct Receiver {
    child: Child,
    address: String,
}

impl Receiver {
    fn start(place: &Place) -> Receiver {
        place.write("node.toml", "listen = '127.0.0.1:0'\nsecret = 'secret'\n");
        place.write("secret", NODE_SECRET);
        fs::set_permissions(place.path("secret"), fs::Permissions::from_mode(0o600)).unwrap();
        let mut command = place.command(["node", "--targets", "node.toml", "--no-listen"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(lines.next().unwrap().unwrap().contains("runs"));
        let address = first.split_once("http://").unwrap().1.trim_end_matches('/').to_owned();
        Receiver { child, address }
    }

    /// Sends a request by curl. Returns the status and the text of the answer.
    fn curl(&self, secret: &str, more: &[&str], path: &str) -> (u16, String) {
        let header = format!("Authorization: Bearer {secret}");
        let mut curl = Command::new("curl");
        curl.args(["-s", "-w", "\n%{http_code}", "-H", &header]).args(more);
        let output = curl.arg(format!("http://{}/streams/{path}", self.address)).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (text, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), text.trim_end().to_owned())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).unwrap();
    }
}

/// A misspelt parameter was passed over with 200, and one of two sequences was taken. A refusal did not name its reason.
#[test]
fn a_request_that_means_nothing_is_refused_with_the_reason() {
    let place = Place::new();
    let node = Receiver::start(&place);
    for (more, path, status, reason) in [
        (["--data-binary", "x"], "s/a?bogus=1", 400, "bogus: it means nothing here; this request has at, durable"),
        (["--data-binary", "x"], "s/a?producer=p&sequence=1&sequence=2", 400, "sequence: it is there twice"),
        (["--data-binary", "x"], "s/a?producer=p", 400, "sequence: it is missing"),
        (["--data-binary", "x"], "s/a?sequence=1", 400, "producer: it is missing"),
        (["--data-binary", "x"], "s/a?producer=p&sequence=0", 400, "sequence: the first one is 1"),
        (["--data-binary", "x"], "s/a?producer=&sequence=1", 400, "producer: it is empty"),
        (["--data-binary", "x"], "s/a?at=-1", 400, "at: \"-1\" is no number"),
        (["--data-binary", "x"], "s/a?ends=1", 400, "ends: it is neither true nor false"),
        (["--data-binary", "x"], "s/a?ends", 400, "ends: it has no value"),
        (["--data-binary", "x"], "s?at=1", 400, "at: it means nothing here; this request has durable"),
        (["-X", "GET"], "s", 400, "producer: it is missing"),
        (["-X", "GET"], "s?producer=p&durable=true", 400, "durable: it means nothing here"),
        (["-X", "DELETE"], "s", 405, "the method DELETE means nothing here; use POST or GET"),
        (["-X", "GET"], "s/a", 405, "the method GET means nothing here; use POST"),
    ] {
        let (found, text) = node.curl(NODE_SECRET, &more, path);
        assert_eq!(found, status, "{path}: {text}");
        assert!(text.contains(reason) && text.contains("docs/guide/flush.md"), "{path}: {text}");
    }
    let sent = node.curl(NODE_SECRET, &["--data-binary", "x"], "s/a?ends=true&durable=false&");
    assert_eq!(sent.0, 200, "{}", sent.1);
    assert_eq!(
        node.curl(NODE_SECRET, &["-X", "GET"], "s?producer=p"),
        (200, "{\"next\":1}".into()),
        "nothing of it arrived"
    );
}

#[test]
fn programs_without_the_library_send_requests_over_http() {
    let place = Place::new();
    let mut node = Receiver::start(&place);
    let post = |node: &Receiver, body: &str, path: &str| node.curl(NODE_SECRET, &["--data-binary", body], path);
    let counted = |new: u64, known: u64| (200, json!({ "known": known, "new": new }).to_string());
    assert_eq!(post(&node, "one", "s/north%20wind/a?producer=p&sequence=1"), counted(1, 0));
    assert_eq!(post(&node, "one", "s/north%20wind/a?producer=p&sequence=1"), counted(0, 1), "sent again");
    assert_eq!(post(&node, "two", "s/north%20wind/a?producer=p&sequence=2&durable=true"), counted(1, 0));
    assert_eq!(post(&node, "at three", "s/b?at=3"), counted(1, 0));
    assert_eq!(node.curl(NODE_SECRET, &[], "s?producer=p"), (200, "{\"next\":3}".into()));
    // What makes no sense, or comes from a stranger, is refused.
    for (path, status) in [
        ("s/a/../b", 400),
        (".s/a", 400),
        ("s/a?at=x", 400),
        ("s/a?producer=p", 400),
        ("s/a?producer=p&sequence=0", 400),
        ("s/a?at=9223372036854775807", 400),
        ("s/a?producer=q&sequence=99999999", 409),
        ("s", 400),
    ] {
        let (found, text) = node.curl(NODE_SECRET, &["--path-as-is", "--data-binary", "xyz"], path);
        assert_eq!(found, status, "{path}: {text}");
    }
    assert_eq!(node.curl("of somebody else", &["--data-binary", "x"], "s/a").0, 401);
    place.write("long", vec![0; 18 << 20]);
    let long = format!("@{}", place.path("long").display());
    assert!([0, 413].contains(&node.curl(NODE_SECRET, &["--data-binary", &long], "s/long").0));

    // Frames from Python, as many as fit into one commit.
    let program = format!(
        "import http.client, struct\n\
         frame = lambda n: struct.pack('<4sHHIIQQ', b'tfr1', 1, 2, 5, 1, 0, n) + b'f' + b'py' + b'%04d\\n' % n\n\
         link = http.client.HTTPConnection('{}')\n\
         link.request('POST', '/streams/s', b''.join(map(frame, range(1, 1001))), {{'Authorization': 'Bearer {NODE_SECRET}'}})\n\
         print(link.getresponse().read().decode())",
        node.address
    );
    let sent = Command::new("python3").args(["-c", &program]).output().unwrap();
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(sent, json!({ "new": 1000, "known": 0 }));

    // After a kill, what was answered is there, and what is sent again is known.
    node.child.kill().unwrap();
    drop(node);
    node = Receiver::start(&place);
    assert_eq!(post(&node, "two", "s/north%20wind/a?producer=p&sequence=2"), counted(0, 1));
    let store = terrace::Store::open(&place.path("store")).unwrap();
    let stream = Stream::open(&store, "s", terrace::Ack::Placed).unwrap();
    let origin = Some(Origin { producer: b"p".as_slice().into(), sequence: 1 });
    let again = vec![Framed { request: Request::append("north wind/a", "one"), origin }];
    assert_eq!(stream.append_framed(again).unwrap(), [Accepted::Known]);
    drop((stream, store));
    place.good(["flush", "-", "--stream", "s", "--to", "out", "--once"]);
    assert_eq!(place.read("out/north wind/a"), b"onetwo");
    assert_eq!(place.read("out/b"), b"\0\0\0at three");
    let expected: String = (1..=1000).map(|n| format!("{n:04}\n")).collect();
    assert!(place.read("out/f") == expected.as_bytes());
}
