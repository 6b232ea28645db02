//! Documents in a golden store of an older version, which every later version must read. `make golden` writes a missing archive.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::Path;

use common::{ask, connect};
use terrace::{Config, Store};
use terrace_redis::{Address, RedisOptions, RedisServer};
use terrace_testkit::golden::{archive, is_wanted, pack, unpack};

fn config(dir: &Path) -> Config {
    let text = format!("[[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{}/disk']\n", dir.display());
    Config::parse(&text, "golden").unwrap()
}

/// Serves a store, calls `use_it` with a function that sends a request and returns the reply, and closes the store.
fn serve(store: Store, dir: &Path, use_it: impl FnOnce(&mut dyn FnMut(&[&str]) -> String)) {
    let socket = dir.join("socket");
    let server = RedisServer::begin(&store, &Address::Unix(socket.clone()), RedisOptions::default()).unwrap();
    let mut client = connect(&socket);
    use_it(&mut |words| ask(&mut client, words));
    drop(client);
    drop(server);
    fs::remove_file(&socket).ok();
    store.sync().unwrap();
    store.close().unwrap();
}

/// The requests that make the documents.
const WRITING_REQUESTS: [&[&str]; 7] = [
    &["HSET", "hash", "field", "value", "", "empty", "number", "-7"],
    &["RPUSH", "list", "a", "b", "", "a"],
    &["SADD", "set", "one", "two", ""],
    &["ZADD", "zset", "1.5", "middle", "-inf", "first", "1e300", "last"],
    &["SET", "string", "text"],
    &["SET", "expires", "late"],
    &["EXPIREAT", "expires", "99999999999"],
];

/// Requests that read them, and the replies.
fn read_all(ask: &mut dyn FnMut(&[&str]) -> String) -> Vec<String> {
    let mut set: Vec<String> = ["one", "two", "", "three"].map(|member| ask(&["SISMEMBER", "set", member])).to_vec();
    let others: [&[&str]; 12] = [
        &["HGET", "hash", "field"],
        &["HGET", "hash", ""],
        &["HGET", "hash", "number"],
        &["HLEN", "hash"],
        &["LRANGE", "list", "0", "-1"],
        &["SCARD", "set"],
        &["ZRANGE", "zset", "0", "-1", "WITHSCORES"],
        &["ZSCORE", "zset", "last"],
        &["GET", "string"],
        &["EXPIRETIME", "expires"],
        &["TYPE", "zset"],
        &["TYPE", "hash"],
    ];
    set.extend(others.map(ask));
    set
}

#[test]
fn documents_of_a_golden_store_are_those_that_clients_wrote() {
    let packed = archive(env!("CARGO_MANIFEST_DIR"), "documents");
    if is_wanted(&packed) {
        let dir = tempfile::tempdir().unwrap();
        serve(Store::init(&dir.path().join("store"), &config(dir.path())).unwrap(), dir.path(), |ask| {
            WRITING_REQUESTS.iter().for_each(|words| assert!(!ask(words).starts_with('-'), "{words:?}"));
        });
        pack(dir.path(), &packed);
    }
    let open = |dir: &Path| {
        unpack(&packed, dir);
        fs::write(dir.join("store/terrace.toml"), config(dir).to_toml()).unwrap();
        Store::open(&dir.join("store")).unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let (mut old, mut new) = (Vec::new(), Vec::new());
    serve(open(dir.path()), dir.path(), |ask| {
        old = read_all(ask);
        // They can be changed, too.
        assert_eq!(ask(&["HINCRBY", "hash", "number", "8"]), "1");
        assert_eq!(ask(&["LPUSH", "list", "c"]), "5");
        assert_eq!(ask(&["ZINCRBY", "zset", "1", "middle"]), "2.5");
        assert_eq!(ask(&["SREM", "set", "", "two"]), "2");
    });
    let fresh = tempfile::tempdir().unwrap();
    serve(Store::init(&fresh.path().join("store"), &config(fresh.path())).unwrap(), fresh.path(), |ask| {
        WRITING_REQUESTS.iter().for_each(|words| drop(ask(words)));
        new = read_all(ask);
    });
    assert_eq!(old, new, "as documents that are written now");
}
