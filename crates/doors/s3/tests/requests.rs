//! Requests as they stand on the wire: who may connect, what is refused, and what files see of it.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{Served, ask, new_store, options, status};
use terrace::files::{Files, Owner};
use terrace::key::KeyRule;
use terrace::{Attributes, Kind, PutOptions};
use terrace_s3::{S3Options, Server};
use terrace_testkit::{SmallDisk, noise, wait_until};

/// A request with a body.
fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}

fn get(path: &str) -> String {
    request("GET", path, "", "")
}

fn put(path: &str, body: &str) -> String {
    request("PUT", path, "", body)
}

#[test]
fn other_machines_need_keys_and_tls() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "");
    let everywhere = || S3Options { listen: ([0, 0, 0, 0], 0).into(), ..options() };
    for refused in [everywhere(), S3Options { keys: Some(common::keys(dir.path())), ..everywhere() }] {
        let reason = Server::begin(&store, refused).map(drop).unwrap_err().to_string();
        assert!(reason.contains("--keys") && reason.contains("--certificate"), "{reason}");
    }
    let served = Served::new();
    let answer = served.ask(&get("/"));
    assert!(status(&answer) == 403 && answer.contains("AccessDenied"), "{answer}");
}

#[test]
fn objects_are_files_and_files_are_objects_in_a_folder_of_paths() {
    let served = Served::open();
    let (store, files) = (&served.store, Files::new(&served.store).unwrap());
    store.make_key_space(b"flat", KeyRule::Flat).unwrap();
    files.make_directory(b"runs", 0o755, Owner { uid: 0, gid: 0 }).unwrap();
    store.put_bytes(b"runs/a/b", b"of a file", &PutOptions::default()).unwrap();
    store.put_bytes(b"alone", b"in no folder", &PutOptions::default()).unwrap();
    let answer = served.ask(&get("/"));
    assert!(answer.contains("<Name>flat</Name>") && answer.contains("<Name>runs</Name>"), "{answer}");
    assert!(!answer.contains("alone") && !answer.contains("terrace</Name>"), "{answer}");
    assert!(served.ask(&get("/runs/a/b")).ends_with("of a file"));
    assert_eq!(status(&served.ask(&put("/runs/c/d", "of a client"))), 200);
    assert_eq!(store.get(b"runs/c/d").unwrap(), b"of a client");
    assert_eq!(status(&served.ask(&put("/flat/c/d", "of a client"))), 200);
    assert_eq!(files.stat(b"flat/c/d\x01").unwrap().length, 11);
    // Names that are no paths, and names in each other's way.
    for (path, code) in
        [("/runs/c//d", 400), ("/runs/c/", 400), ("/runs/c", 409), ("/runs/a/b/c", 409), ("/flat/c//d", 200)]
    {
        let answer = served.ask(&put(path, "1"));
        assert_eq!(status(&answer), code, "{path}: {answer}");
    }
    for path in ["/runs/a", "/runs/a/", "/runs/../alone", "/alone/x", "/.terrace/uploads", "/runs/a/b/"] {
        let answer = served.ask(&get(path));
        assert!([400, 404].contains(&status(&answer)), "{path}: {answer}");
    }
    // A directory is no object, so nobody deletes it.
    assert_eq!(status(&served.ask(&request("DELETE", "/runs/a", "", ""))), 204);
    assert_eq!(store.get(b"runs/a/b").unwrap(), b"of a file");
    // A file that was changed has no MD5 any more.
    let etag = |answer: String| answer.lines().find_map(|line| line.strip_prefix("etag: ").map(str::to_owned)).unwrap();
    assert_eq!(etag(served.ask(&request("HEAD", "/runs/c/d", "", ""))), "\"035775c8933186e501e440de132c75d2\"");
    store.write_at(b"runs/c/d", 0, b"O", &PutOptions::default()).unwrap();
    assert!(etag(served.ask(&request("HEAD", "/runs/c/d", "", ""))).contains('-'));
    served.server.end();
}

#[test]
fn expired_objects_and_links_are_hidden() {
    let served = Served::open();
    let bucket = served.store.make_key_space(b"bucket", KeyRule::Flat).unwrap();
    let mut attributes = Attributes::now();
    attributes.set_expiry(Some(1));
    let expired = PutOptions { attributes: Some(attributes), ..PutOptions::default() };
    let link = PutOptions {
        attributes: Some(Attributes { kind: Kind::Symlink, ..Attributes::now() }),
        ..PutOptions::default()
    };
    served.store.put_bytes(&bucket.key(b"expired").unwrap(), b"1", &expired).unwrap();
    served.store.put_bytes(&bucket.key(b"link").unwrap(), b"/etc/passwd", &link).unwrap();
    for path in ["/bucket/expired", "/bucket/link"] {
        assert_eq!(status(&served.ask(&get(path))), 404, "{path}");
    }
    let once = request("PUT", "/bucket/expired", "If-None-Match: *\r\n", "again");
    assert_eq!(status(&served.ask(&once)), 200, "one that has expired is in nobody's way");
    assert!(served.ask(&get("/bucket/expired")).ends_with("again"));
}

/// A client that is refused before it has sent its body sends none. The server took the first byte of the client's next request for it.
#[test]
fn a_connection_ends_if_a_body_was_refused_before_it_came() {
    let served = Served::open();
    assert_eq!(status(&served.ask(&put("/bucket", ""))), 200);
    assert_eq!(status(&served.ask(&put("/bucket/a", "x"))), 200);
    let head = |headers: &str| {
        format!(
            "PUT /bucket/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n{headers}\r\n"
        )
    };
    let refused = served.ask(&head("If-None-Match: *\r\n")).to_lowercase();
    assert!(status(&refused) == 412 && refused.contains("connection: close"), "{refused}");
    let mut stream = TcpStream::connect(served.server.address()).unwrap();
    for _ in 0..2 {
        stream.write_all(head("").as_bytes()).unwrap();
        let mut answer = [0; 1000];
        let length = stream.read(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&answer));
        stream.write_all(b"x").unwrap();
        let length = stream.read(&mut answer).unwrap();
        assert!(answer[..length].starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&answer));
    }
}

#[test]
fn what_cannot_be_true_is_refused() {
    let served = Served::open();
    assert_eq!(status(&served.ask(&put("/bucket", ""))), 200);
    for (request, code, says) in [
        (
            request(
                "PUT",
                "/bucket/a",
                "x-amz-content-sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER\r\n",
                "1\r\nx\r\n0\r\n\r\n",
            ),
            501,
            "--keys",
        ),
        (request("PUT", "/bucket/a", "Content-MD5: AAAA\r\n", "x"), 400, "InvalidDigest"),
        (request("PUT", "/bucket/a", "x-amz-checksum-crc32c: AAAAAA==\r\n", "x"), 400, "BadDigest"),
        (
            request(
                "POST",
                "/bucket",
                "Content-Type: multipart/form-data; boundary=x\r\n",
                "--x\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\na\r\n--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\nbytes\r\n--x--\r\n",
            ),
            501,
            "forms",
        ),
        (request("POST", "/bucket?delete", "", "<Delete>"), 400, "Malformed"),
        (request("PUT", "/bucket?versioning", "", "<VersioningConfiguration/>"), 501, "NotImplemented"),
        (request("GET", "/bucket?list-type=2&max-keys=-1", "", ""), 400, "InvalidArgument"),
        (request("GET", "/bucket/a", "Range: bytes=0-\r\n", ""), 404, "NoSuchKey"),
        (request("GET", "/bucket/%ff", "", ""), 400, "InvalidURI"),
    ] {
        let answer = served.ask(&request);
        assert!(status(&answer) == code && answer.contains(says), "{request}\n{answer}");
    }
    assert_eq!(status(&served.ask(&get("/bucket/a"))), 404, "nothing came of it");
    // A body that ends early leaves nothing.
    let cut = "PUT /bucket/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nhalf";
    let mut stream = TcpStream::connect(served.server.address()).unwrap();
    stream.write_all(cut.as_bytes()).unwrap();
    drop(stream);
    assert_eq!(status(&served.ask(&get("/bucket/a"))), 404);
    assert_eq!(status(&served.ask(&put("/bucket/a", "whole"))), 200);
}

#[test]
fn a_host_is_this_machine_or_a_bucket() {
    let named = |host: &str, path: &str| get(path).replace("Host: localhost", &format!("Host: {host}"));
    let served = Served::open();
    assert_eq!(status(&served.ask(&put("/bucket", ""))), 200);
    assert_eq!(status(&served.ask(&put("/bucket/a", "1"))), 200);
    for (host, code) in [
        ("127.0.0.1:80", 200),
        ("[::1]", 200),
        ("LOCALHOST:5643", 200),
        ("evil.example.org", 403),
        ("bucket.localhost", 403),
    ] {
        assert_eq!(status(&served.ask(&named(host, "/bucket/a"))), code, "{host}");
    }
    let options = S3Options { domain: Some("s3.example.org".to_owned()), ..options() };
    let server = Server::begin(&served.store, options).unwrap();
    let send = |request: &str| String::from_utf8_lossy(&ask(server.address(), request.as_bytes())).into_owned();
    for (host, path) in [("bucket.s3.example.org", "/a"), ("s3.example.org", "/bucket/a"), ("127.0.0.1", "/bucket/a")] {
        assert_eq!(status(&send(&named(host, path))), 200, "{host}");
    }
    server.end();
}

/// Random bytes, and requests with some of their bytes changed. `CASES` sets their number.
#[test]
fn damaged_requests_end_their_connection_only() {
    let served = Served::open();
    assert_eq!(status(&served.ask(&put("/bucket", ""))), 200);
    let cases: u64 = std::env::var("CASES").map_or(300, |text| text.parse().unwrap());
    let templates = [
        put("/bucket/a", "bytes"),
        get("/bucket?list-type=2&prefix=a&delimiter=%2F&continuation-token=YQ&encoding-type=url"),
        request("POST", "/bucket?delete", "", "<Delete><Object><Key>a</Key></Object></Delete>"),
        request("PUT", "/bucket/b", "x-amz-copy-source: /bucket/a\r\nx-amz-tagging: a=1\r\n", ""),
        request("POST", "/bucket/c?uploads", "", ""),
        request("GET", "/bucket/a", "Range: bytes=1-2\r\nIf-None-Match: \"a\"\r\n", ""),
    ];
    for seed in 0..cases {
        let dice = noise(64, seed);
        let mut bytes = templates[seed as usize % templates.len()].clone().into_bytes();
        for pair in dice.chunks(2).take(1 + dice[63] as usize % 8) {
            let at = (usize::from(pair[0]) << 8 | usize::from(pair[1])) % bytes.len();
            match pair[1] % 4 {
                0 => bytes[at] = pair[0],
                1 => bytes.truncate(at + 1),
                2 => bytes.insert(at, pair[0]),
                _ => drop(bytes.remove(at)),
            }
            if bytes.is_empty() {
                bytes.push(pair[0]);
            }
        }
        if seed % 10 == 9 {
            bytes = noise(1 + usize::from(dice[0]) * 20, seed);
        }
        let mut stream = TcpStream::connect(served.server.address()).unwrap();
        // The server may leave before it has read everything.
        let _ = stream.write_all(&bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(status(&served.ask(&put("/bucket/a", "still here"))), 200);
    assert!(served.ask(&get("/bucket/a")).ends_with("still here"));
    served.server.end();
}

#[test]
fn requests_under_way_end_before_the_server() {
    let served = Served::open();
    assert_eq!(status(&served.ask(&put("/bucket", ""))), 200);
    let address = served.server.address();
    let mut idle = TcpStream::connect(address).unwrap();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(
        b"PUT /bucket/slow HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n",
    )
    .unwrap();
    let mut told = [0; 12];
    // The request has reached the store when the body is asked for.
    slow.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"HTTP/1.1 100");
    let ended = Arc::new(AtomicBool::new(false));
    let Served { store, server, dir } = served;
    let ending = {
        let ended = ended.clone();
        thread::spawn(move || {
            server.end();
            ended.store(true, Ordering::Release);
        })
    };
    wait_until("nobody else is let in", || TcpStream::connect(address).is_err());
    assert_eq!(idle.read(&mut [0; 1]).unwrap(), 0, "an idle connection is closed");
    assert!(!ended.load(Ordering::Acquire));
    slow.write_all(b"ten bytes.").unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("HTTP/1.1 200"), "{answer}");
    ending.join().unwrap();
    let bucket = store.key_space(b"bucket").unwrap();
    assert_eq!(store.get(&bucket.key(b"slow").unwrap()).unwrap(), b"ten bytes.");
    drop(dir);
}

#[test]
fn clients_that_wait_for_their_turn_are_answered_before_the_server_ends() {
    let dir = tempfile::tempdir().unwrap();
    let store = new_store(dir.path(), "");
    let server = Server::begin(&store, S3Options { max_connections: 1, ..options() }).unwrap();
    let address = server.address();
    let mut first = TcpStream::connect(address).unwrap();
    first.write_all(b"PUT /bucket HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n").unwrap();
    let mut told = [0; 12];
    first.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"HTTP/1.1 200");
    // The first connection stays open, so these have theirs from the system only.
    let mut waiting: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut waiting {
        stream.write_all(get("/bucket").as_bytes()).unwrap();
    }
    server.end();
    for mut stream in waiting {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(status(&answer), 200, "{answer}");
    }
}

#[test]
fn a_full_disk_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let disk = dir.path().join("small");
    let Some(small) = SmallDisk::mount("a full disk", &disk, "size=12m") else { return };
    let config = format!(
        "[store]\nreplicas = {{ default = 1 }}\n[[tier]]\nname = 'small'\nkind = 'directory'\ntargets = ['{}/t']\n",
        disk.display()
    );
    let config = terrace::Config::parse(&config, "test").unwrap();
    let store = terrace::Store::init(&dir.path().join("store"), &config).unwrap();
    let server = Server::begin(&store, options()).unwrap();
    let send = |request: &str| String::from_utf8_lossy(&ask(server.address(), request.as_bytes())).into_owned();
    assert_eq!(status(&send(&put("/bucket", ""))), 200);
    assert_eq!(status(&send(&put("/bucket/kept", "kept"))), 200);
    let body = noise(16 << 20, 1).iter().map(|byte| char::from(b'!' + byte % 90)).collect::<String>();
    let answer = send(&put("/bucket/long", &body));
    assert!(
        status(&answer) == 507 && answer.contains("InsufficientStorage") && answer.contains("no space"),
        "{answer}"
    );
    assert_eq!(status(&send(&get("/bucket/long"))), 404);
    assert!(send(&get("/bucket/kept")).ends_with("kept"));
    server.end();
    store.close().unwrap();
    drop(small);
}
