//! Clients of S3 see the files of an origin as objects, and cannot change them.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::time::Duration;

use common::{Served, ask, status};
use terrace_testkit::noise;

/// A server whose store shows a directory below the bucket `runs`, in the folder `far`.
fn served_with_origin() -> Served {
    let served = Served::open();
    let far = served.dir.path().join("far");
    fs::create_dir_all(far.join("sub")).unwrap();
    fs::write(far.join("long"), noise(2_000_000, 1)).unwrap();
    fs::write(far.join("sub/short"), b"words").unwrap();
    let url = far.to_str().unwrap();
    served.store.add_origin("runs/far", url, Default::default(), Some(Duration::ZERO)).unwrap();
    served
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

fn body_of(answer: &[u8]) -> &[u8] {
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    &answer[head + 4..]
}

#[test]
fn objects_are_listed_and_read_in_parts() {
    let served = served_with_origin();
    let (get, bytes) = (|path: &str, headers: &str| request("GET", path, headers, ""), noise(2_000_000, 1));
    let listed = served.ask(&get("/runs?list-type=2&prefix=far/&delimiter=/", ""));
    assert!(listed.contains("<Key>far/long</Key>") && listed.contains("<Prefix>far/sub/</Prefix>"), "{listed}");
    assert!(listed.contains("<Size>2000000</Size>"), "{listed}");
    let listed = served.ask(&get("/runs?list-type=2", ""));
    assert!(listed.contains("<Key>far/sub/short</Key>"), "{listed}");
    let head = served.ask(&request("HEAD", "/runs/far/long", "", ""));
    assert!(status(&head) == 200 && head.contains("content-length: 2000000"), "{head}");
    let part = ask(served.server.address(), get("/runs/far/long", "Range: bytes=1000000-1000999\r\n").as_bytes());
    assert!(body_of(&part) == &bytes[1_000_000..1_001_000]);
    let cached = served.store.origins().unwrap()[0].cached;
    assert!((1000..1 << 20).contains(&cached), "{cached}");
    let whole = ask(served.server.address(), get("/runs/far/long", "").as_bytes());
    assert!(body_of(&whole) == bytes.as_slice());
    // Files that appear there are objects at once.
    fs::write(served.dir.path().join("far/new"), b"new").unwrap();
    assert!(served.ask(&get("/runs/far/new", "")).ends_with("new"));
    assert_eq!(status(&served.ask(&get("/runs/far/none", ""))), 404);
    served.server.end();
}

#[test]
fn changes_are_refused_and_copies_are_not() {
    let served = served_with_origin();
    let delete =
        "<Delete><Object><Key>far/long</Key></Object><Object><Key>far/sub/short</Key></Object></Delete>".to_owned();
    let copy = "x-amz-copy-source: /runs/own\r\n";
    assert_eq!(status(&served.ask(&request("PUT", "/runs/own", "", "own"))), 200);
    for (method, path, headers, body) in [
        ("PUT", "/runs/far/long", "", "changed"),
        ("PUT", "/runs/far/new", "", "new"),
        ("PUT", "/runs/far/copy", copy, ""),
        ("DELETE", "/runs/far/long", "", ""),
        ("POST", "/runs/far/long?uploads", "", ""),
    ] {
        let answer = served.ask(&request(method, path, headers, body));
        assert!(status(&answer) == 403 && answer.contains("<Code>AccessDenied</Code>"), "{method} {path}: {answer}");
        assert!(answer.contains("read-only"), "{method} {path}: {answer}");
    }
    let answer = served.ask(&request("POST", "/runs?delete", "", &delete));
    assert_eq!(answer.matches("<Code>AccessDenied</Code>").count(), 2, "{answer}");
    assert_eq!(fs::read(served.dir.path().join("far/sub/short")).unwrap(), b"words");
    let from = "x-amz-copy-source: /runs/far/sub/short\r\n";
    let answer = served.ask(&request("PUT", "/runs/mine", from, ""));
    assert_eq!(status(&answer), 200, "{answer}");
    fs::remove_file(served.dir.path().join("far/sub/short")).unwrap();
    assert_eq!(served.store.get(b"runs/mine").unwrap(), b"words");
    assert_eq!(status(&served.ask(&request("DELETE", "/runs/mine", "", ""))), 204);
    served.server.end();
}
