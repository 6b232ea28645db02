//! Payloads as they were stored when their encoding was added. They must decode forever: a row may be added to the
//! file, but none may change. `REWRITE=1` writes rows for encodings that have none.

mod data;

use std::fmt::Write as _;

use terrace_codec::{ALL_ENCODINGS, Encoding, RARE_ENCODINGS, Scratch, decode, encode};

const STORED_FORMS_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stored.txt");

fn raw() -> Vec<u8> {
    data::bytes(4, 259, 11)
}

#[test]
fn stored_payloads_decode() {
    let mut text = std::fs::read_to_string(STORED_FORMS_PATH).expect("the file");
    if std::env::var_os("REWRITE").is_some() {
        add_missing(&mut text);
        std::fs::write(STORED_FORMS_PATH, &text).expect("writes");
    }
    for line in text.lines() {
        let (name, digits) = line.split_once(' ').expect("a name and digits");
        let encoding: Encoding = name.parse().expect("a name");
        let stored: Vec<u8> = digits
            .as_bytes()
            .chunks(2)
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).expect("text"), 16).expect("digits"))
            .collect();
        let mut back = vec![0; raw().len()];
        decode(encoding, &stored, &mut back, &mut Scratch::default()).expect(name);
        assert_eq!(back, raw(), "{name}");
    }
}

fn add_missing(text: &mut String) {
    for encoding in ALL_ENCODINGS.iter().chain(RARE_ENCODINGS) {
        let start = format!("{encoding} ");
        let mut stored = Vec::new();
        let made = encode(*encoding, &raw(), &mut stored, &mut Scratch::default()).expect("encodes");
        if made.is_some() && !text.lines().any(|line| line.starts_with(&start)) {
            text.push_str(&start);
            stored.iter().for_each(|byte| write!(text, "{byte:02x}").expect("writes"));
            text.push('\n');
        }
    }
}
