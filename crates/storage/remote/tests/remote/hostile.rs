//! Requests that no client of ours sends.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use crate::node::{NODE_SECRET, Node, Transport, append, bytes, read};

/// Sends bytes and returns the status of the answer; 0 if the connection ends without one.
fn send(node: &Node, bytes: &[u8]) -> u16 {
    let mut stream = TcpStream::connect(node.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    // The node may end the connection before it has read all.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let text = String::from_utf8_lossy(&answer);
    text.split(' ').nth(1).map_or(0, |status| status.parse().unwrap())
}

fn request(line: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let owner = "terrace-target: 000000000000004d/1";
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: t\r\nauthorization: Bearer {NODE_SECRET}\r\n{owner}\r\ncontent-length: {length}\r\n{headers}\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn no_request_does_harm() {
    let node = Node::start(Transport::Plain);
    let target = node.open();
    let place = append(&*target, 1, 5000).unwrap();
    let plain = 1u64 << 63;
    let places = |segment: u64, offset: u64| {
        format!("[{{\"segment\":{segment},\"offset\":{offset},\"length\":4294967295}}]").into_bytes()
    };
    let numbers = format!("[{}, {}]", u64::MAX, plain | 1).into_bytes();
    let too_many = format!("[{}1]", "1,".repeat(200_000)).into_bytes();
    let cases: Vec<(u16, Vec<u8>)> = vec![
        (401, b"GET /targets/t/space HTTP/1.1\r\nhost: t\r\n\r\n".to_vec()),
        (401, b"POST /targets/t/frames HTTP/1.1\r\nhost: t\r\ncontent-length: 9999999999\r\n\r\n".to_vec()),
        (401, b"GET /targets/t/space HTTP/1.1\r\nhost: t\r\nauthorization: Bearer x\r\n\r\n".to_vec()),
        (404, request("GET /", "", b"")),
        (404, request("GET /targets/t/nothing", "", b"")),
        (404, request("BREW /targets/t/frames", "", b"")),
        (503, request("GET /targets/other/space", "", b"")),
        (503, request("GET /targets/../space", "", b"")),
        (400, request("GET /targets/t/frames/x/0/10", "", b"")),
        (400, request("GET /targets/t/frames/-1/0/10", "", b"")),
        (400, request(&format!("GET /targets/t/frames/{}/0/99999999", place.segment), "", b"")),
        (400, request(&format!("GET /targets/t/frames/{}/0/10?skip=99999999999", place.segment), "", b"")),
        (404, request(&format!("GET /targets/t/frames/{}/0/10", u64::MAX), "", b"")),
        (404, request(&format!("GET /targets/t/frames/{plain}/0/10"), "", b"")),
        (404, request(&format!("GET /targets/t/frames/{}/{}/10", place.segment, u64::MAX), "", b"")),
        (410, request(&format!("GET /targets/t/frames/{}/{}/10", place.segment, 1u64 << 61), "", b"")),
        (503, request(&format!("GET /targets/t/headers?segment=0&offset={}", u64::MAX), "", b"")),
        (400, request("POST /targets/t/frames", "", b"")),
        (400, request("POST /targets/t/frames", "", &[0xff; 5000])),
        (400, request(&format!("POST /targets/t/frames?number={plain}"), "", &[0; 100])),
        (413, request("POST /targets/t/frames", "", &vec![0; 3 << 20])),
        (400, request("POST /targets/t/free", "", b"[{")),
        (400, request("POST /targets/t/sync", "", &too_many)),
        (200, request("POST /targets/t/free", "", &places(u64::MAX, u64::MAX))),
        (200, request("POST /targets/t/free", "", &places(1 << 61, u64::MAX))),
        (200, request("POST /targets/t/verify", "", &places(place.segment, u64::MAX))),
        (200, request("POST /targets/t/sync", "", &numbers)),
        (200, request("POST /targets/t/discard", "", &numbers)),
        (400, request("PUT /targets/t/marker", "", b"{}")),
        (409, request("PUT /targets/t/marker", "", b"{\"store\":1,\"target\":1}")),
        (400, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on\r\n\r\n".to_vec()),
        (0, Vec::new()),
    ];
    for (number, (expected, bytes)) in cases.iter().enumerate() {
        let status = send(&node, bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
        assert_eq!(status, *expected, "request {number}: {shown}");
    }
    for wrong in ["terrace-target: zz/1", "terrace-target: 000000000000004e/1", "terrace-target: 4d/2"] {
        let text = String::from_utf8(request("GET /targets/t/space", "", b"")).unwrap();
        let status = send(&node, text.replace("terrace-target: 000000000000004d/1", wrong).as_bytes());
        assert!(matches!(status, 400 | 409), "{wrong}: {status}");
    }
    assert!(read(&*target, place).unwrap() == bytes(1, 5000));
    append(&*target, 2, 5000).unwrap();
}

/// The server waits neither for the end of a request nor for its beginning when it ends.
#[test]
fn an_end_does_not_wait_for_strangers() {
    let mut node = Node::start(Transport::Plain);
    let mut streams = Vec::new();
    for part in ["", "GET /targets", "POST /targets/t/frames HTTP/1.1\r\ncontent-length: 1000\r\n\r\n"] {
        let mut stream = TcpStream::connect(node.address).unwrap();
        stream.write_all(part.as_bytes()).unwrap();
        streams.push(stream);
    }
    node.stop();
    for mut stream in streams {
        let _ = stream.read_to_end(&mut Vec::new());
    }
}
