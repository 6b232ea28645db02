//! The metrics of the servers for clients of Redis, memcached and S3, as Prometheus gets them.

#![allow(clippy::unwrap_used)]

mod served;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use served::Place;
use terrace_testkit::{Missing, skip, wait_until};

/// Prints each sample as the parser of Prometheus' client for Python reads it.
const REFERENCE_PARSER: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        if 'created' not in sample.name:
            print(sample.name, ' '.join(v for k, v in sorted(sample.labels.items())), int(sample.value))
";

/// A server with metrics.
struct Counted {
    child: Child,
    address: String,
    metrics: String,
}

impl Counted {
    fn start(place: &Place, protocol: &str) -> Counted {
        let arguments = [protocol, "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
        let (child, line) = place.start(&arguments);
        let (served, metrics) = line.trim_end().split_once(", metrics on http://").unwrap();
        let address = served.rsplit(['/', ' ']).next().unwrap().to_owned();
        Counted { child, address, metrics: metrics.strip_suffix("/metrics").unwrap().to_owned() }
    }

    /// Sends a request, and reads until the server closes the connection.
    fn send(&self, request: &str) -> String {
        exchange(&self.address, request)
    }

    /// The samples, each as its name, the values of its labels and its value.
    fn scrape(&self) -> Vec<String> {
        let answer = exchange(&self.metrics, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("application/openmetrics-text"), "{head}");
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/bin/python");
        let mut command = Command::new(python);
        command.args(["-c", REFERENCE_PARSER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut parser = command.spawn().unwrap();
        parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = parser.wait_with_output().unwrap();
        assert!(output.status.success(), "{text}");
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
    }

    fn end(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

fn exchange(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Whether the reference parser is there; a skip if not.
fn has_parser() -> bool {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/bin/python");
    let found = Command::new(python).args(["-c", "import prometheus_client"]).output();
    let has_parser = found.is_ok_and(|output| output.status.success());
    if !has_parser {
        let reason = "there is no prometheus_client in target/servers; `make servers` installs it";
        skip("metrics as Prometheus reads them", &Missing::new("prometheus", reason));
    }
    has_parser
}

#[test]
fn requests_errors_bytes_and_connections_are_counted() {
    if !has_parser() {
        return;
    }
    let ask_s3 = "PUT /bucket HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n\
                  GET /nothing/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (protocol, request, counted) in [
        (
            "redis",
            "set a 1\r\nget a\r\nget a\r\nlpush a x\r\nmulti\r\nget a\r\nexec\r\nquit\r\n",
            ["requests_total set redis 1", "requests_total get redis 3"],
        ),
        (
            "memcached",
            "set a 0 0 1\r\n1\r\nget a\r\nincr a x\r\nincr a 1 noreply\r\nget a\r\nquit\r\n",
            ["requests_total set memcached 1", "requests_total get memcached 2"],
        ),
        ("s3", ask_s3, ["requests_total put s3 1", "requests_total get s3 1"]),
    ] {
        let place = Place::new();
        let server = Counted::start(&place, protocol);
        let answer = server.send(request);
        wait_until("the connection is closed", || {
            server.scrape().contains(&format!("terrace_open_connections {protocol} 0"))
        });
        let samples = server.scrape();
        let bytes = [
            format!("received_bytes_total {protocol} {}", request.len()),
            format!("sent_bytes_total {protocol} {}", answer.len()),
            format!("connections_total {protocol} 1"),
            format!("errors_total {protocol} 1"),
            format!("refused_connections_total {protocol} 0"),
        ];
        for expected in counted.iter().map(|text| (*text).to_owned()).chain(bytes) {
            assert!(samples.contains(&format!("terrace_{expected}")), "{expected} is not in {samples:#?}\n{answer}");
        }
        server.end();
    }
}

#[test]
fn metrics_are_for_this_machine_and_at_one_path() {
    let place = Place::new();
    let open = place.run(&["serve", "redis", "--listen", "127.0.0.1:0", "--metrics", "0.0.0.0:0"]);
    let errors = String::from_utf8_lossy(&open.stderr).into_owned();
    assert!(open.status.code() == Some(1) && errors.contains("show them on 127.0.0.1"), "{errors}");
    let server = Counted::start(&place, "memcached");
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /metrics HTTP/1.1\r\nHost: example.org\r\n\r\n", "421"),
    ] {
        assert_eq!(exchange(&server.metrics, request).split(' ').nth(1), Some(status), "{request}");
    }
    server.end();
}
