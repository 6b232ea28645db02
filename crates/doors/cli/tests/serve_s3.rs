//! `terrace serve s3` as its users start and end it, and as it dies.

#![allow(clippy::unwrap_used, clippy::panic)]

mod served;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use served::Place;
use terrace_testkit::noise;

/// Bytes of a part that is not the last.
const PART_BYTES: usize = 5 << 20;

/// Serves on any port.
fn serve(place: &Place, more: &[&str]) -> Serving {
    let (child, line) = place.start(&[&["s3", "--listen", "127.0.0.1:0"], more].concat());
    assert!(line.contains("is served by S3 on http"), "{line:?}");
    Serving { address: line.trim().rsplit('/').next().unwrap().to_owned(), child }
}

struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    /// The status and the body of an answer. None if the server has died.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).and_then(|text| text.parse().ok());
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let body = answer.split_off(end + 4);
        // A server that dies closes the connection, too.
        length.is_none_or(|length: usize| length == body.len()).then_some((status, body))
    }

    fn text(&self, method: &str, path: &str, body: &[u8]) -> Option<String> {
        let (status, body) = self.ask(method, path, body)?;
        let text = String::from_utf8_lossy(&body).into_owned();
        assert_eq!(status, 200, "{method} {path}: {text}");
        Some(text)
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }

    /// Puts an object, whose name says which bytes it has. None if the server has died.
    fn put(&self, seed: u64, length: usize) -> Option<String> {
        let name = format!("{seed}-{length}");
        self.text("PUT", &format!("/bucket/{name}"), &noise(length, seed))?;
        Some(name)
    }

    /// The same in two parts.
    fn put_in_parts(&self, seed: u64, length: usize) -> Option<String> {
        let (name, bytes) = (format!("{seed}-{length}"), noise(length, seed));
        let begun = self.text("POST", &format!("/bucket/{name}?uploads"), b"")?;
        let upload = between(&begun, "<UploadId>", "</UploadId>").to_owned();
        let (first, second) = bytes.split_at(PART_BYTES);
        for (number, part) in [(2, second), (1, first)] {
            self.text("PUT", &format!("/bucket/{name}?partNumber={number}&uploadId={upload}"), part)?;
        }
        let listed = self.text("GET", &format!("/bucket/{name}?uploadId={upload}"), b"")?;
        let tags: Vec<&str> =
            listed.split("<ETag>").skip(1).map(|rest| rest.split("</ETag>").next().unwrap()).collect();
        let part = |(place, tag): (usize, &&str)| {
            format!("<Part><PartNumber>{}</PartNumber><ETag>{tag}</ETag></Part>", place + 1)
        };
        let parts: String = tags.iter().enumerate().map(part).collect();
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        self.text("POST", &format!("/bucket/{name}?uploadId={upload}"), body.as_bytes())?;
        Some(name)
    }

    /// The names of all objects.
    fn names(&self) -> BTreeSet<String> {
        let listed = self.text("GET", "/bucket?list-type=2", b"").unwrap();
        assert!(listed.contains("<IsTruncated>false</IsTruncated>"));
        listed.split("<Key>").skip(1).map(|rest| rest.split("</Key>").next().unwrap().to_owned()).collect()
    }
}

fn between<'t>(text: &'t str, start: &str, end: &str) -> &'t str {
    let rest = text.split(start).nth(1).unwrap_or_else(|| panic!("{text} has no {start}"));
    rest.split(end).next().unwrap()
}

/// How often it is killed, `TERRACE_KILLS` says.
#[test]
fn what_was_answered_survives_a_kill_and_nothing_half_is_there() {
    let place = Place::new();
    let kills: u64 = std::env::var("TERRACE_KILLS").map_or(6, |text| text.parse().unwrap());
    let (seeds, answered) = (AtomicU64::new(0), Mutex::new(BTreeSet::new()));
    let mut serving = serve(&place, &[]);
    serving.text("PUT", "/bucket", b"").unwrap();
    for round in 0..kills {
        let pid = Pid::from_child(&serving.child);
        thread::scope(|threads| {
            for client in 0..4 {
                let (serving, seeds, answered) = (&serving, &seeds, &answered);
                threads.spawn(move || {
                    loop {
                        let seed = seeds.fetch_add(1, Ordering::Relaxed);
                        let put = match client {
                            0 => serving.put_in_parts(seed, PART_BYTES + 100_000),
                            _ => serving.put(seed, [0, 100, 70_000, 600_000][seed as usize % 4]),
                        };
                        let Some(name) = put else { break };
                        answered.lock().unwrap().insert(name);
                    }
                });
            }
            threads.spawn(|| {
                let before = answered.lock().unwrap().len();
                let wanted = before + 3 + round as usize % 17;
                terrace_testkit::wait_until("clients get answers", || answered.lock().unwrap().len() >= wanted);
                kill_process(pid, Signal::KILL).unwrap();
            });
        });
        serving.child.wait().unwrap();
        serving = serve(&place, &[]);
        let (names, mut answered) = (serving.names(), answered.lock().unwrap());
        let lost: Vec<_> = answered.difference(&names).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} were answered, and are lost");
        for name in &names {
            let (seed, length) = name.split_once('-').unwrap();
            let (status, body) = serving.ask("GET", &format!("/bucket/{name}"), b"").unwrap();
            assert!(
                status == 200 && body == noise(length.parse().unwrap(), seed.parse().unwrap()),
                "round {round}: {name}"
            );
        }
        // So that the lists stay short.
        for name in names {
            assert_eq!(serving.ask("DELETE", &format!("/bucket/{name}"), b"").unwrap().0, 204);
        }
        answered.clear();
    }
    serving.end();
    println!("{kills} kills: all that was answered is there");
}

#[test]
fn commands_and_clients_see_the_same() {
    let place = Place::new();
    let keys = place.0.path().join("keys");
    fs::write(&keys, "ana 0123456789abcdef\n").unwrap();
    let open = place.run(&["serve", "s3", "--listen", "127.0.0.1:0", "--keys", "keys"]);
    let errors = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(open.status.code() == Some(1) && errors.contains("make its mode 600"), "{errors}");
    fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
    let serving = serve(&place, &["--keys", "keys"]);
    assert_eq!(serving.ask("GET", "/", b"").unwrap().0, 403);
    serving.end();
    let away = place.run(&["serve", "s3", "--listen", "0.0.0.0:0", "--keys", "keys"]);
    let errors = String::from_utf8_lossy(&away.stderr).into_owned();
    assert!(away.status.code() == Some(1) && errors.contains("--certificate"), "{errors}");

    fs::create_dir(place.0.path().join("runs")).unwrap();
    fs::write(place.0.path().join("runs/a"), "of a command").unwrap();
    assert!(place.run(&["put", "runs/", "runs/"]).status.success());
    let serving = serve(&place, &[]);
    assert_eq!(serving.ask("GET", "/runs/a", b"").unwrap(), (200, b"of a command".to_vec()));
    serving.text("PUT", "/runs/b", b"of a client").unwrap();
    serving.text("PUT", "/bucket", b"").unwrap();
    serving.text("PUT", "/bucket/a//b", b"flat").unwrap();
    // Another process reads while it is served.
    assert_eq!(place.run(&["cat", "runs/b"]).stdout, b"of a client");
    serving.end();
    assert_eq!(place.run(&["cat", "runs/b"]).stdout, b"of a client");
    let listed = String::from_utf8_lossy(&place.run(&["ls", "bucket"]).stdout).into_owned();
    assert!(listed.contains("bucket/a/"), "{listed}");
}

/// A certificate of its own authority, as `openssl` makes it.
#[test]
fn it_speaks_tls() {
    let place = Place::new();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(place.0.path().join("cert.pem"), made.cert.pem()).unwrap();
    fs::write(place.0.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let serving = serve(&place, &["--certificate", "cert.pem", "--private-key", "key.pem"]);
    let port = serving.address.rsplit(':').next().unwrap();
    let mut curl = Command::new("curl");
    curl.args(["-s", "--cacert", "cert.pem", "-X", "PUT", "-o", "/dev/null", "-w", "%{http_code}"]);
    curl.arg(format!("https://localhost:{port}/bucket")).current_dir(place.0.path()).env_remove("CURL_CA_BUNDLE");
    assert_eq!(String::from_utf8_lossy(&curl.output().unwrap().stdout), "200");
    assert_eq!(serving.ask("GET", "/", b""), None, "not without TLS");
    serving.end();
    let wrong = place.run(&["serve", "s3", "--certificate", "key.pem", "--private-key", "cert.pem"]);
    let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(wrong.status.code() == Some(1) && errors.contains(".pem: "), "{errors}");
}
