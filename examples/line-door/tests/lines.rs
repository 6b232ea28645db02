//! The door over a socket, and random lines.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use line_door::{MAX_VALUE_BYTES, Request, parse, serve_store};
use proptest::prelude::*;
use terrace::{Config, Store};
use terrace_kit::Address;

/// Serves a new store, sends each text on a connection of its own, and returns the answers.
fn ask<const N: usize>(requests: [&str; N]) -> [String; N] {
    let dir = tempfile::tempdir().unwrap();
    let tier =
        format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}']\n", dir.path().join("disk").display());
    let store = Store::init(&dir.path().join("store"), &Config::parse(&tier, "example").unwrap()).unwrap();
    let mut server = serve_store(&store, &Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let answers = requests.map(|requests| {
        let (mut client, mut answers) = (TcpStream::connect(server.address().to_string()).unwrap(), Vec::new());
        // The server may leave before it has read everything.
        let _ = client.write_all(requests.as_bytes()).and_then(|()| client.shutdown(Shutdown::Write));
        let _ = client.read_to_end(&mut answers);
        String::from_utf8(answers).unwrap()
    });
    server.end();
    assert!(TcpStream::connect(server.address().to_string()).is_err(), "it has ended");
    answers
}

#[test]
fn names_of_any_bytes_are_set_read_and_deleted() {
    for name in ["a", "a/b", "..", "\u{fc}/"] {
        let requests = format!("set {name} 600 5\nhelloget {name}\ndelete {name}\nget {name}\n");
        let [answers, expired] = ask([&requests, "set a 0 1\n1get a\n"]);
        assert!(answers.starts_with("stored\n5\nhellodeleted\nerror: "), "{name}: {answers}");
        assert!(expired.starts_with("stored\nerror: "), "{expired}");
    }
}

/// A client that died within a `set` left the bytes that had arrived as the value.
#[test]
fn requests_that_are_cut_or_too_long_change_nothing() {
    let long = "x".repeat(10_000);
    let [_, cut, too_long, value] = ask(["set a 600 5\nhello", "set a 600 9\nhel", &long, "get a\n"]);
    assert!(cut.starts_with("error: "), "{cut}");
    assert_eq!((too_long.as_str(), value.as_str()), ("", "5\nhello"));
}

proptest! {
    #[test]
    fn random_lines_are_parsed_within_the_limits(
        words in prop::collection::vec(prop_oneof!["get", "set", "[0-9]{1,12}", ".{0,9}"], 1..6)
    ) {
        if let Some(Request::Set(_, _, length)) = parse(words.join(" ").as_bytes()) {
            prop_assert!(length <= MAX_VALUE_BYTES);
        }
    }
}
