//! The answers of the node, also to hostile clients.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use terrace_testkit::{Missing, skip, wait_until};

use crate::client::{connect, parse, send};
use crate::daemon::Daemon;
use crate::place::{Place, noise};

/// Reads metrics by the parser of Prometheus' client for Python, which is its definition of the format in code.
const REFERENCE_PARSER: &str = "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families
for family in text_string_to_metric_families(sys.stdin.read()):
    for sample in family.samples:
        print(sample.name, ','.join(f'{k}={v}' for k, v in sorted(sample.labels.items())), sample.value)
";

#[test]
fn the_metrics_agree_with_the_status() {
    let place = Place::with("capacity = '64MiB'", "");
    place.write("a", noise(3_000_000, 1));
    place.good(["put", "a", "a", "--ack", "replicated"]);
    let node = Daemon::start(&place, &["--scrub-every", "0s"]);
    let (mut text, mut status) = (String::new(), Value::Null);
    // The store is at rest, but the mark of what is durable may come between the two.
    wait_until("metrics and status are the same", || {
        text = node.get("/metrics").body;
        status = place.json(["status"]).0;
        let value =
            |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<f64>().ok());
        let same = |name: &str, value_of: &Value| value(name) == value_of.as_f64() && value(name).is_some();
        let tiers = status["tiers"].as_array().unwrap();
        same("terrace_objects", &status["objects"])
            && same("terrace_owed_replicas", &status["owed"])
            && tiers.iter().all(|tier| {
                let label = format!("{{tier={}}}", tier["name"]);
                let state = format!("terrace_tier_state{{tier={},state={}}}", tier["name"], tier["state"]);
                same(&format!("terrace_tier_used_bytes{label}"), &tier["used"])
                    && same(&format!("terrace_tier_owed_replicas{label}"), &tier["queue"])
                    && value(&state) == Some(1.0)
            })
    });
    assert_eq!(node.metric("terrace_tier_capacity_bytes{tier=\"ram\"}"), Some(f64::from(64 << 20)));
    assert!(text.ends_with("# EOF\n"), "{text}");
    let head = node.get("/metrics").head;
    assert!(head.contains("application/openmetrics-text; version=1.0.0"), "{head}");
    let page = node.get("/").body;
    for tier in ["ram", "disk"] {
        assert!(page.contains(&format!("<td>{tier}</td>")), "{page}");
    }
    assert!(
        page.contains("<span id=\"objects\">1</span>") && !page.contains("src=") && !page.contains("<script"),
        "{page}"
    );
    read_by_reference(&text);
    node.stop();
}

/// The reference parser accepts the text, and finds as many samples as there are lines.
fn read_by_reference(text: &str) {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/bin/python");
    let has_parser = Command::new(&python).args(["-c", "import prometheus_client"]).stderr(Stdio::null()).status();
    if !has_parser.is_ok_and(|status| status.success()) {
        let reason = "there is no prometheus_client in target/servers; `make servers` installs it";
        return skip("reading metrics by the reference parser", &Missing::new("prometheus", reason));
    }
    let mut command = Command::new(python);
    let mut parser =
        command.args(["-c", REFERENCE_PARSER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    parser.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = parser.wait_with_output().unwrap();
    assert!(output.status.success(), "{text}");
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    assert_eq!(output.stdout.iter().filter(|byte| **byte == b'\n').count(), samples, "{text}");
}

#[test]
fn names_of_tiers_do_no_harm_to_the_page_and_the_metrics() {
    let place = Place::empty();
    let name = "a\\\"</td><script>alert(1)</script>\\n";
    let config =
        format!("[[tier]]\nname = \"{name}\"\nkind = 'directory'\ntargets = ['{}']\n", place.path("disk").display());
    place.write("terrace.toml", config);
    if place.run(["init", "--config", "terrace.toml"]).code != 0 {
        // Such names are refused; nothing is left to try.
        return;
    }
    let node = Daemon::start(&place, &[]);
    assert!(!node.get("/").body.contains("<script>"));
    let text = node.get("/metrics").body;
    assert!(text.lines().all(|line| line.starts_with("# ") || line.starts_with("terrace_")), "{text}");
    node.stop();
}

#[test]
fn other_machines_are_refused_unless_they_are_trusted() {
    let place = Place::new();
    place.bad(["node", "--listen", "0.0.0.0:0"], &["no authentication", "--trust-network"]);
    let node = Daemon::start(&place, &[]);
    let port = node.address.to_string();
    let other = Place::new();
    other.bad(["node", "--listen", &port], &["listening on", "--listen"]);
    node.stop();
}

/// Each line of a request, what the answer's code may be; 0 is none at all.
const WRONG_REQUESTS: [(&[u8], &[u16]); 17] = [
    (b"", &[0, 400, 408]),
    (b"\r\n\r\n\r\n", &[0, 400, 408]),
    (b"\0\xff\xfe\x80\r\n\r\n", &[0, 400]),
    (b"GET / HTTP/9.9\r\n\r\n", &[0, 400, 505]),
    (b"GET  / HTTP/1.1\r\nHost: localhost\r\n\r\n", &[0, 400]),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nA b: c\r\n\r\n", &[0, 400]),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", &[0, 400]),
    (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", &[0, 400]),
    (b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc", &[405]),
    (b"DELETE /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", &[405]),
    (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", &[421]),
    (b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example:80\r\n\r\n", &[421]),
    (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", &[0, 400, 421]),
    (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n", &[404]),
    (b"GET /%2e%2e/store HTTP/1.1\r\nHost: localhost\r\n\r\n", &[404]),
    (b"GET //metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", &[404]),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[0, 400, 404, 405, 421, 505]),
];

#[test]
fn hostile_clients_get_an_error_or_nothing_and_others_their_answers() {
    let place = Place::new();
    let node = Daemon::start(&place, &[]);
    for (request, codes) in WRONG_REQUESTS {
        let answer = send_and_close(node.address, request);
        let code = if answer.is_empty() { 0 } else { parse(&answer).code };
        assert!(
            codes.contains(&code),
            "{:?}: {:?}",
            request.escape_ascii().to_string(),
            String::from_utf8_lossy(&answer)
        );
    }
    // A head that never ends: as one line, and as many.
    for (start, repeated) in [("GET /", "a"), ("GET / HTTP/1.1\r\nHost: localhost\r\n", "A: b\r\n")] {
        let endless = [start.as_bytes(), &repeated.as_bytes().repeat(1 << 20)].concat();
        let answer = send(node.address, &endless).unwrap();
        assert!(answer.is_empty() || [400, 414, 431].contains(&parse(&answer).code), "{start}");
    }
    // Two requests in one piece: only the first is answered.
    let pair = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2);
    assert_eq!(parse(&send(node.address, &pair).unwrap()).code, 200);
    // Connections that send nothing, or never end their request, keep nobody else out for long.
    let mut idle = Vec::new();
    for n in 0..80 {
        let Ok(mut stream) = connect(node.address) else { continue };
        if n % 2 == 0 {
            stream.write_all(b"GET /healthz HT").unwrap();
        }
        idle.push(stream);
    }
    assert!(idle.len() > 64, "only {} connections", idle.len());
    node.get("/healthz");
    drop(idle);
    // Random bytes, some behind the start of a request.
    for seed in 0..200 {
        let start: &[u8] = [&b""[..], b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"GET /"][seed as usize % 3];
        let bytes = [start, &noise(1 + (seed as usize * 37) % 3000, seed), b"\r\n\r\n"].concat();
        send_and_close(node.address, &bytes);
    }
    node.get("/metrics");
    node.stop();
}

/// Sends bytes and says that no more will come; the answer.
fn send_and_close(address: std::net::SocketAddr, bytes: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut stream = connect(address).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}
