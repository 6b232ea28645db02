//! Items are strings of the Redis server's database 0: they expire, change atomically, and have flags.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use terrace::key::{KeyRule, KeySpace};
use terrace_redis::{Address, RedisServer};
use terrace_testkit::wait_until;

use crate::common::{ask, connect};
use crate::lines::{Lines, MAX_ITEM_BYTES, options, serve};

#[test]
fn clients_of_redis_and_of_memcached_see_the_same_values() {
    let served = serve();
    let (_redis, socket) = served.beside();
    let (mut redis, mut memcached) = (connect(&socket), Lines::connect(&served.socket));
    assert_eq!(memcached.ask("set a/b 4294967295 1000 5\r\nhello"), "STORED");
    assert_eq!(ask(&mut redis, &["GET", "a/b"]), "hello");
    assert_eq!(ask(&mut redis, &["TTL", "a/b"]), "1000");
    let object = served.store.stat(&KeySpace::new(b"redis/0", KeyRule::Flat).unwrap().key(b"a/b").unwrap()).unwrap();
    assert_eq!(object.attributes.user.get("terrace.flags").map(String::as_str), Some("4294967295"));
    // A value that changes keeps its flags; one that is replaced has none.
    assert_eq!(ask(&mut redis, &["APPEND", "a/b", "!"]), "6");
    assert_eq!(
        memcached.get("get a/b"),
        [(["a/b", "4294967295", "6"].map(str::to_owned).to_vec(), "hello!".to_owned())]
    );
    assert_eq!(ask(&mut redis, &["SET", "a/b", "7"]), "OK");
    assert_eq!(memcached.get("get a/b")[0].0, ["a/b", "0", "1"]);
    assert_eq!(memcached.ask("incr a/b 3"), "10");
    assert_eq!(ask(&mut redis, &["INCR", "a/b"]), "11");
    // Other types are no items, and stay.
    assert_eq!(ask(&mut redis, &["RPUSH", "list", "x"]), "1");
    assert_eq!(memcached.get("get list a/b").len(), 1);
    assert!(memcached.ask("append list 0 0 1\r\ny").starts_with("SERVER_ERROR WRONGTYPE"));
    assert_eq!(ask(&mut redis, &["LRANGE", "list", "0", "-1"]), "[x]");
}

#[test]
fn items_expire() {
    let served = serve();
    let mut client = Lines::connect(&served.socket);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    client.set("stays", "1");
    for (request, reply) in [
        ("set soon 0 1 1\r\n1".to_owned(), "STORED"),
        (format!("set later 0 {} 1\r\n1", now + 1000), "STORED"),
        (format!("set past 0 {} 1\r\n1", now - 1000), "STORED"),
        ("set over 0 -1 1\r\n1".to_owned(), "STORED"),
        ("touch nothing 1".to_owned(), "NOT_FOUND"),
        ("touch stays 2000".to_owned(), "TOUCHED"),
        ("touch stays 0".to_owned(), "TOUCHED"),
    ] {
        assert_eq!(client.ask(&request), reply, "{request}");
    }
    assert_eq!(client.value("past"), None);
    assert_eq!(client.value("over"), None);
    wait_until("an item is gone", || client.value("soon").is_none());
    assert_eq!(client.get("gat -1 later stays").len(), 2);
    assert_eq!(client.get("get later stays").len(), 0);
}

#[test]
fn one_of_many_writers_wins_by_cas() {
    let served = serve();
    let beside = served.socket.with_file_name("also");
    let _server = RedisServer::begin(&served.store, &Address::Unix(beside.clone()), options()).unwrap();
    let mut client = Lines::connect(&served.socket);
    client.set("a", "0");
    for round in 0..10 {
        let unique = client.unique("a");
        let winners = AtomicUsize::new(0);
        thread::scope(|scope| {
            for writer in 0..6 {
                let (socket, winners, unique) =
                    (if writer % 2 == 0 { &served.socket } else { &beside }, &winners, &unique);
                scope.spawn(move || {
                    match Lines::connect(socket).ask(&format!("cas a 0 0 1 {unique}\r\n{writer}")).as_str() {
                        "STORED" => drop(winners.fetch_add(1, Ordering::Relaxed)),
                        other => assert_eq!(other, "EXISTS"),
                    }
                });
            }
        });
        assert_eq!(winners.into_inner(), 1, "round {round}");
    }
    // Sent together, each sees what the one before it has done.
    let unique = client.unique("a");
    client.send(
        format!("cas a 0 0 1 {unique}\r\nx\r\ncas a 0 0 1 {unique}\r\ny\r\nset a 0 0 1\r\nz\r\ngets a\r\n").as_bytes(),
    );
    assert_eq!([client.line(), client.line(), client.line()], ["STORED", "EXISTS", "STORED"]);
    let seen = client.items()[0].0[3].clone();
    assert_eq!(client.ask(&format!("cas a 0 0 1 {seen}\r\n1")), "STORED");
    // A new time to live is a change, and the number that comes with it is that of the change.
    let unique = client.get("gats 100 a")[0].0[3].clone();
    assert_eq!(client.ask(&format!("cas a 0 0 1 {unique}\r\n2")), "STORED");
    let unique = client.unique("a");
    assert_eq!(client.ask("touch a 200"), "TOUCHED");
    assert_eq!(client.ask(&format!("cas a 0 0 1 {unique}\r\n3")), "EXISTS");
    assert_eq!(client.ask(&format!("cas nothing 0 0 1 {unique}\r\n3")), "NOT_FOUND");
}

#[test]
fn all_items_are_removed_at_once_or_later() {
    let served = serve();
    let mut client = Lines::connect(&served.socket);
    client.set("a", "1");
    assert_eq!(client.ask("flush_all"), "OK");
    assert_eq!(client.value("a"), None);
    client.set("a", "1");
    assert_eq!(client.ask("flush_all 1000"), "OK");
    assert_eq!(client.value("a").as_deref(), Some("1"));
    assert_eq!(client.ask("flush_all 1"), "OK");
    // Items that come before the time go, too.
    client.set("b", "1");
    wait_until("all items are gone", || client.get("get a b").is_empty());
    client.set("a", "2");
    assert_eq!(client.value("a").as_deref(), Some("2"));
}

/// The old value of a key must not be taken for the new one, which was refused.
#[test]
fn a_value_that_is_too_long_is_refused_and_replaces_nothing() {
    let served = serve();
    let mut client = Lines::connect(&served.socket);
    let long = "x".repeat(MAX_ITEM_BYTES + 1);
    for (command, stays) in [("set", false), ("replace", true), ("append", true), ("prepend", true)] {
        client.set("a", "old");
        let reply = client.ask(&format!("{command} a 0 0 {}\r\n{long}", long.len()));
        assert_eq!(reply, "SERVER_ERROR object too large for cache", "{command}");
        assert_eq!(client.value("a").is_some(), stays, "{command}");
    }
    client.set("a", &long[1..]);
    assert_eq!(client.ask("append a 0 0 1\r\nx"), "SERVER_ERROR object too large for cache");
    assert_eq!(client.value("a").map(|value| value.len()), Some(MAX_ITEM_BYTES));
    // A short line cannot make a reply of a gigabyte.
    let reply = client.ask(&format!("get{}", " a".repeat(1000)));
    assert_eq!(reply, "SERVER_ERROR out of memory writing get response");
    // A block of two gigabytes is not awaited in memory.
    client.send(b"set a 0 0 2147483645\r\n");
    client.send(long.as_bytes());
}
