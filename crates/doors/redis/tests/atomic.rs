//! Commands and transactions are atomic, also between servers of one store.

#![allow(clippy::unwrap_used)]

mod common;

use std::thread;

use common::{Served, ask, connect};
use terrace::key::{KeyRule, KeySpace};
use terrace_testkit::Random;

/// Without expectations in the commit, increments of two servers were lost.
#[test]
fn no_increment_is_lost_between_two_servers() {
    let served = Served::new();
    let (_beside, other) = served.beside();
    const INCREMENT_COUNT: usize = 100;
    thread::scope(|scope| {
        for client in 0..6 {
            let socket = if client % 2 == 0 { &served.socket } else { &other };
            scope.spawn(move || {
                let mut client = connect(socket);
                for _ in 0..INCREMENT_COUNT {
                    let reply = ask(&mut client, &["INCR", "count"]);
                    assert!(reply.parse::<u64>().is_ok(), "{reply}");
                }
            });
        }
    });
    assert_eq!(ask(&mut served.client(), &["GET", "count"]), (6 * INCREMENT_COUNT).to_string());
}

/// Money is moved between accounts by transactions of many clients of two servers, while others read all accounts at once.
#[test]
fn transactions_of_two_servers_keep_the_sum() {
    let served = Served::new();
    let (_beside, other) = served.beside();
    const ACCOUNT_COUNT: usize = 5;
    let names: Vec<String> = (0..ACCOUNT_COUNT).map(|number| format!("account:{number}")).collect();
    let mut client = served.client();
    names.iter().for_each(|name| assert_eq!(ask(&mut client, &["SET", name, "100"]), "OK"));
    thread::scope(|scope| {
        for number in 0..4 {
            let (socket, names) = (if number % 2 == 0 { &served.socket } else { &other }, &names);
            scope.spawn(move || {
                let (mut client, mut random) = (connect(socket), Random::new(number));
                for _ in 0..40 {
                    let (from, to) =
                        (random.below(ACCOUNT_COUNT as u64) as usize, random.below(ACCOUNT_COUNT as u64) as usize);
                    let mut pipeline = redis::pipe();
                    pipeline.atomic().cmd("DECRBY").arg(&names[from]).arg(7).cmd("INCRBY").arg(&names[to]).arg(7);
                    let _: (i64, i64) = pipeline.query(&mut client).unwrap();
                    let balances: Vec<i64> = redis::cmd("MGET").arg(names).query(&mut client).unwrap();
                    assert_eq!(balances.iter().sum::<i64>(), 100 * ACCOUNT_COUNT as i64, "{balances:?}");
                }
            });
        }
    });
}

#[test]
fn a_watched_key_that_another_server_or_door_changes_ends_a_transaction() {
    let served = Served::new();
    let (_beside, other) = served.beside();
    let (mut client, mut stranger) = (served.client(), connect(&other));
    let key = KeySpace::new(b"redis/0", KeyRule::Flat).unwrap().key(b"a").unwrap();
    let changes: [&mut dyn FnMut(); 3] = [
        &mut || drop(ask(&mut stranger, &["SET", "a", "2"])),
        &mut || served.store.put_bytes(&key, b"3", &terrace::PutOptions::default()).map(drop).unwrap(),
        &mut || served.store.remove(&key).unwrap(),
    ];
    ask(&mut client, &["SET", "a", "1"]);
    for change in changes {
        assert_eq!(ask(&mut client, &["WATCH", "a"]), "OK");
        change();
        assert_eq!(ask(&mut client, &["MULTI"]), "OK");
        assert_eq!(ask(&mut client, &["SET", "b", "1"]), "QUEUED");
        assert_eq!(ask(&mut client, &["EXEC"]), "nil");
        assert_eq!(ask(&mut client, &["GET", "b"]), "nil");
    }
    assert_eq!(ask(&mut client, &["WATCH", "a"]), "OK");
    assert_eq!(ask(&mut client, &["MULTI"]), "OK");
    assert_eq!(ask(&mut client, &["SET", "b", "1"]), "QUEUED");
    assert_eq!(ask(&mut client, &["EXEC"]), "[OK]");
}

#[test]
fn waiting_clients_get_what_another_server_pushes() {
    let served = Served::new();
    let (_beside, other) = served.beside();
    let (mut waiting, mut pushing) = (served.client(), connect(&other));
    let waited = thread::spawn(move || ask(&mut waiting, &["BLPOP", "empty", "list", "60"]));
    let mut info = served.client();
    terrace_testkit::wait_until("it waits", || {
        redis::cmd("INFO").arg("clients").query::<String>(&mut info).unwrap().contains("blocked_clients:1")
    });
    assert_eq!(ask(&mut pushing, &["RPUSH", "list", "x"]), "1");
    assert_eq!(waited.join().unwrap(), "[list x]");
    assert_eq!(ask(&mut pushing, &["LLEN", "list"]), "0");
    let mut client = served.client();
    assert_eq!(ask(&mut client, &["BLPOP", "list", "0.01"]), "nil");
}
