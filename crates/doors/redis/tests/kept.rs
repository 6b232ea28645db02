//! Values are objects of the store: other doors read and write them, and they expire by the store's own means.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Served, ask};
use terrace::key::{KeyRule, KeySpace};
use terrace::{Attributes, PutOptions};
use terrace_testkit::wait_until;

fn database(number: u32) -> KeySpace {
    KeySpace::new(format!("redis/{number}").as_bytes(), KeyRule::Flat).unwrap()
}

#[test]
fn a_string_is_an_object_under_its_escaped_name() {
    let served = Served::new();
    let mut client = served.client();
    for name in ["a", "a/b", "..", "a//b", "ü/"] {
        assert_eq!(ask(&mut client, &["SET", name, "some bytes"]), "OK");
        let key = database(0).key(name.as_bytes()).unwrap();
        assert_eq!(served.store.get(&key).unwrap(), b"some bytes");
        served.store.put_bytes(&key, b"of another door", &PutOptions::default()).unwrap();
        assert_eq!(ask(&mut client, &["GET", name]), "of another door");
        assert_eq!(ask(&mut client, &["APPEND", name, "!"]), "16");
        assert_eq!(served.store.get(&key).unwrap(), b"of another door!");
    }
    assert_eq!(ask(&mut client, &["KEYS", "*"]), "[.. a a//b a/b ü/]");
    assert_eq!(ask(&mut client, &["SELECT", "3"]), "OK");
    assert_eq!(ask(&mut client, &["KEYS", "*"]), "[]");
    assert_eq!(ask(&mut client, &["SET", "a", "in 3"]), "OK");
    assert_eq!(served.store.get(&database(3).key(b"a").unwrap()).unwrap(), b"in 3");
}

/// Attributes that another door gave an object stay when its value changes.
#[test]
fn attributes_of_an_object_stay() {
    let served = Served::new();
    let key = database(0).key(b"a").unwrap();
    let mut attributes = Attributes::now();
    attributes.user.insert("colour".to_owned(), "blue".to_owned());
    attributes.set_digest("etag", "0123");
    let options = PutOptions { attributes: Some(attributes), ..PutOptions::default() };
    served.store.put_bytes(&key, b"1", &options).unwrap();
    let mut client = served.client();
    assert_eq!(ask(&mut client, &["EXPIRE", "a", "1000"]), "1");
    assert_eq!(served.store.stat(&key).unwrap().attributes.digest("etag"), Some("0123"), "the bytes are the same");
    assert_eq!(ask(&mut client, &["INCR", "a"]), "2");
    let object = served.store.stat(&key).unwrap();
    assert_eq!(object.attributes.user.get("colour").map(String::as_str), Some("blue"));
    assert_eq!(object.attributes.digest("etag"), None, "a digest of other bytes");
    assert!(object.attributes.expiry().is_some());
}

#[test]
fn values_expire() {
    let served = Served::new();
    let mut client = served.client();
    assert_eq!(ask(&mut client, &["SET", "soon", "1", "PX", "30"]), "OK");
    assert_eq!(ask(&mut client, &["SET", "later", "1", "EX", "1000"]), "OK");
    assert_eq!(ask(&mut client, &["TTL", "later"]), "1000");
    wait_until("the value is gone", || ask(&mut client, &["GET", "soon"]) == "nil");
    assert_eq!(ask(&mut client, &["TTL", "soon"]), "-2");
    assert_eq!(ask(&mut client, &["SET", "soon", "2", "NX"]), "OK", "an expired value is no value");
    assert_eq!(ask(&mut client, &["TTL", "soon"]), "-1");
    assert_eq!(ask(&mut client, &["PEXPIRE", "later", "20"]), "1");
    let key = database(0).key(b"later").unwrap();
    wait_until("the object is removed", || served.store.stat(&key).is_err());
}

#[test]
fn documents_come_back_and_other_types_are_refused() {
    let served = Served::new();
    let mut client = served.client();
    for (words, reply) in [
        (&["HSET", "hash", "b", "2", "a", "1"][..], "2"),
        (&["HGETALL", "hash"], "[b 2 a 1]"),
        (&["RPUSH", "list", "x", "y"], "2"),
        (&["LRANGE", "list", "0", "-1"], "[x y]"),
        (&["SADD", "set", "m", "n", "m"], "2"),
        (&["SMEMBERS", "set"], "[m n]"),
        (&["ZADD", "zset", "2", "b", "1.5", "a"], "2"),
        (&["ZRANGE", "zset", "0", "-1", "WITHSCORES"], "[a 1.5 b 2]"),
        (&["TYPE", "zset"], "zset"),
        (&["HDEL", "hash", "a", "b"], "2"),
        (&["EXISTS", "hash"], "0"),
    ] {
        assert_eq!(ask(&mut client, words), reply, "{words:?}");
    }
    assert!(ask(&mut client, &["GET", "list"]).contains("wrong kind of value"));
    assert!(ask(&mut client, &["LPUSH", "set", "a"]).contains("wrong kind of value"));
    // An object whose bytes another program spoiled.
    let key = database(0).key(b"list").unwrap();
    let attributes = served.store.stat(&key).unwrap().attributes;
    let options = PutOptions { attributes: Some(attributes), ..PutOptions::default() };
    served.store.put_bytes(&key, b"\xff\xff\xff", &options).unwrap();
    assert!(ask(&mut client, &["LRANGE", "list", "0", "-1"]).contains("written by another program"));
    assert_eq!(ask(&mut client, &["DEL", "list"]), "1");
}

#[test]
fn a_name_that_is_too_long_is_an_error_of_its_command_only() {
    let served = Served::new();
    let mut client = served.client();
    let long = "x".repeat(1025);
    let mut pipeline = redis::pipe();
    pipeline.cmd("SET").arg("a").arg("1").ignore();
    pipeline.cmd("GET").arg("a");
    let refused = ask(&mut client, &["SET", &long, "1"]);
    assert!(refused.contains("at most 1024 bytes"), "{refused}");
    assert_eq!(pipeline.query::<Vec<String>>(&mut client).unwrap(), ["1"]);
}

#[test]
fn scans_find_each_key_once_while_others_come_and_go() {
    let served = Served::new();
    let mut client = served.client();
    for number in 0..300 {
        ask(&mut client, &["SET", &format!("stays:{number:03}"), "1"]);
    }
    let (mut cursor, mut found) = ("0".to_owned(), Vec::new());
    loop {
        let scan = common::command(&["SCAN", &cursor, "MATCH", "stays:*", "COUNT", "7"]);
        let (next, names): (String, Vec<String>) = scan.query(&mut client).unwrap();
        found.extend(names);
        ask(&mut client, &["SET", &format!("comes:{}", found.len()), "1"]);
        ask(&mut client, &["DEL", &format!("comes:{}", found.len() / 2)]);
        if next == "0" {
            break;
        }
        cursor = next;
    }
    assert_eq!(found, (0..300).map(|number| format!("stays:{number:03}")).collect::<Vec<_>>());
    assert!(ask(&mut client, &["SCAN", "12345"]).contains("unknown cursor"));
}
