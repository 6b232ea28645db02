//! A web server with ranges and ETags, which counts what it serves.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How the server behaves.
#[derive(Default)]
pub struct Manners {
    /// Whether it ignores ranges.
    pub without_ranges: AtomicBool,
    /// Whether it answers with the bytes that come one later than those that were asked for, and says so.
    pub shifts_ranges: AtomicBool,
    /// Whether it ignores conditions.
    pub without_conditions: AtomicBool,
    /// Whether its ETags are weak, which no condition matches.
    pub weak: AtomicBool,
    /// Whether it tells neither ETag nor time.
    pub without_versions: AtomicBool,
    /// Whether it tells the ETag only to those who ask for no bytes.
    pub without_etags_of_bytes: AtomicBool,
    /// Whether it answers each request with an error.
    pub is_broken: AtomicBool,
    /// Whether it refuses to show the bytes of files whose paths end with `private`.
    pub keeps_private: AtomicBool,
    /// The time that each answer with bytes takes, in milliseconds.
    pub delay: AtomicU64,
}

/// The bytes of a file, and its version.
type Served = (Arc<Vec<u8>>, u64);

#[derive(Default)]
struct Shared {
    /// The file at each path.
    files: Mutex<BTreeMap<String, Served>>,
    /// The ranges that were served of each path.
    served: Mutex<Vec<(String, u64, u64)>>,
    requests: AtomicU64,
    manners: Manners,
}

pub struct WebServer {
    shared: Arc<Shared>,
    port: u16,
}

impl WebServer {
    pub fn start() -> WebServer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (shared, port) = (Arc::new(Shared::default()), listener.local_addr().unwrap().port());
        let of = shared.clone();
        // It ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, of) = (stream.unwrap(), of.clone());
                thread::spawn(move || serve(stream, &of));
            }
        });
        WebServer { shared, port }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    pub fn manners(&self) -> &Manners {
        &self.shared.manners
    }

    pub fn put(&self, path: &str, bytes: Vec<u8>) {
        let mut files = self.shared.files.lock().unwrap();
        let version = files.get(path).map_or(1, |(_, version)| version + 1);
        files.insert(path.to_owned(), (Arc::new(bytes), version));
    }

    pub fn remove(&self, path: &str) {
        self.shared.files.lock().unwrap().remove(path);
    }

    /// The ranges that were served of a path, in order.
    pub fn served(&self, path: &str) -> Vec<(u64, u64)> {
        let served = self.shared.served.lock().unwrap();
        let mut ranges: Vec<(u64, u64)> =
            served.iter().filter(|(of, ..)| of == path).map(|(_, start, end)| (*start, *end)).collect();
        ranges.sort_unstable();
        ranges
    }

    /// Checks that no byte of a path was served twice. Returns the number of bytes.
    pub fn bytes_served_once(&self, path: &str) -> u64 {
        let ranges = self.served(path);
        for pair in ranges.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{path}: {pair:?}");
        }
        ranges.iter().map(|(start, end)| end - start).sum()
    }

    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }
}

fn serve(stream: TcpStream, shared: &Shared) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(length) if length > 0 => {}
                _ => return,
            }
            let line = line.trim_end().to_owned();
            if line.is_empty() {
                break;
            }
            lines.push(line);
        }
        if answer(&mut stream, shared, &lines).is_err() {
            return;
        }
    }
}

fn answer(stream: &mut TcpStream, shared: &Shared, lines: &[String]) -> std::io::Result<()> {
    shared.requests.fetch_add(1, Ordering::SeqCst);
    let mut words = lines[0].split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap().trim_start_matches('/'));
    let header = |name: &str| {
        let pair =
            |line: &String| line.split_once(": ").map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()));
        lines[1..].iter().filter_map(pair).find(|(known, _)| known == name).map(|(_, value)| value)
    };
    let is = |flag: &AtomicBool| flag.load(Ordering::SeqCst);
    let manners = &shared.manners;
    let mut say = |status: &str, headers: &str, length: usize, body: &[u8]| {
        // In one call: the kernel delays the second one of two small ones.
        let mut answer = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n").into_bytes();
        answer.extend(if method == "GET" { body } else { b"" });
        stream.write_all(&answer)
    };
    if is(&manners.is_broken) {
        return say("503 Service Unavailable", "", 0, b"");
    }
    let found = shared.files.lock().unwrap().get(path).cloned();
    let Some((bytes, version)) = found else { return say("404 Not Found", "", 0, b"") };
    let etag = format!("{}\"v{version}\"", if is(&manners.weak) { "W/" } else { "" });
    let mut headers = format!("ETag: {etag}\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n");
    if is(&manners.without_versions) || method == "GET" && is(&manners.without_etags_of_bytes) {
        headers.clear();
    }
    if header("if-match").is_some_and(|wanted| wanted != etag || is(&manners.weak)) && !is(&manners.without_conditions)
    {
        return say("412 Precondition Failed", "", 0, b"");
    }
    let range = header("range").filter(|_| !is(&manners.without_ranges)).and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        let first: usize = first.parse().ok()?;
        let last = last.parse().unwrap_or(usize::MAX).min(bytes.len().checked_sub(1)?);
        (first <= last).then_some((first, last))
    });
    if method == "GET" && path.ends_with("private") && is(&manners.keeps_private) {
        return say("403 Forbidden", "", 0, b"");
    }
    if method == "GET" {
        thread::sleep(Duration::from_millis(manners.delay.load(Ordering::SeqCst)));
    }
    let (status, start, end) = match range {
        Some((first, last)) => {
            let shift = usize::from(is(&manners.shifts_ranges) && last + 1 < bytes.len());
            let (first, last) = (first + shift, last + shift);
            headers += &format!("Content-Range: bytes {first}-{last}/{}\r\n", bytes.len());
            ("206 Partial Content", first, last + 1)
        }
        None => ("200 OK", 0, bytes.len()),
    };
    if method == "GET" {
        shared.served.lock().unwrap().push((path.to_owned(), start as u64, end as u64));
    }
    say(status, &headers, end - start, &bytes[start..end])
}
