//! Requests of 9P: the kind, then the body.

use terrace_nine::nine::message::Request;

pub fn samples() -> Vec<Vec<u8>> {
    let fid = [1, 0, 0, 0];
    let text = |name: &str| [&(name.len() as u16).to_le_bytes(), name.as_bytes()].concat();
    let message = |kind: u8, parts: &[&[u8]]| [&[kind], parts.concat().as_slice()].concat();
    let record = [[0xff; 39].as_slice(), &text("name"), &text(""), &text("group"), &text("")].concat();
    let lengths = [(record.len() + 2) as u16, record.len() as u16].map(u16::to_le_bytes).concat();
    vec![
        message(100, &[&[0, 32, 0, 0], &text("9P2000")]),
        message(102, &[&fid, &text("user"), &text("")]),
        message(104, &[&fid, &[0xff; 4], &text("user"), &text("")]),
        message(108, &[&[9, 0]]),
        message(110, &[&fid, &[2, 0, 0, 0], &[2, 0], &text("a"), &text("b")]),
        message(112, &[&fid, &[1]]),
        message(114, &[&fid, &text("new"), &[0; 4], &[1]]),
        message(116, &[&fid, &[0; 8], &[0, 16, 0, 0]]),
        message(118, &[&fid, &[0; 8], &[5, 0, 0, 0], b"bytes"]),
        message(120, &[&fid]),
        message(124, &[&fid]),
        message(126, &[&fid, &lengths, &record]),
    ]
}

pub fn parse(input: &[u8]) -> bool {
    input.split_first().is_some_and(|(kind, body)| Request::decode(*kind, body).is_ok())
}
