//! Limits, passwords, and clients that behave badly.

#![allow(clippy::unwrap_used)]

mod common;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::{Served, ask, connect};
use terrace_kit::ListenError;
use terrace_redis::{Address, Password, RedisLimits, RedisOptions, RedisServeError, RedisServer};
use terrace_testkit::{Random, wait_until};

#[test]
fn clients_beyond_the_limit_are_told_so() {
    let limits = RedisLimits { connections: 2, ..RedisLimits::default() };
    let served = Served::with(RedisOptions { limits, ..RedisOptions::default() });
    let mut clients = [served.client(), served.client()];
    clients.iter_mut().for_each(|client| assert_eq!(ask(client, &["PING"]), "PONG"));
    let mut third = UnixStream::connect(&served.socket).unwrap();
    let mut reply = String::new();
    third.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "-ERR max number of clients reached\r\n");
    drop(clients);
    wait_until("there is room again", || {
        let mut client = UnixStream::connect(&served.socket).unwrap();
        let mut reply = [0; 5];
        client.write_all(b"PING\r\n").and_then(|()| client.read_exact(&mut reply)).is_ok() && &reply == b"+PONG"
    });
}

#[test]
fn idle_clients_are_disconnected() {
    let limits = RedisLimits { idle: Some(Duration::from_millis(10)), ..RedisLimits::default() };
    let served = Served::with(RedisOptions { limits, ..RedisOptions::default() });
    let mut client = UnixStream::connect(&served.socket).unwrap();
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_client_without_the_password_can_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "a password of many letters\n").unwrap();
    let open = Password::read(&file).unwrap_err().to_string();
    assert!(open.contains("make its mode 600"), "{open}");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let password = Some(Password::read(&file).unwrap());
    let served = Served::with(RedisOptions { password, ..RedisOptions::default() });
    let mut client = served.client();
    for words in [&["GET", "a"][..], &["MULTI"], &["SUBSCRIBE", "a"], &["HELLO", "3"], &["CONFIG", "GET", "*"]] {
        assert!(ask(&mut client, words).to_uppercase().contains("AUTH"), "{words:?}");
    }
    assert!(ask(&mut client, &["AUTH", "a password"]).contains("WRONGPASS"));
    assert!(ask(&mut client, &["AUTH", "somebody", "a password of many letters"]).contains("WRONGPASS"));
    assert!(ask(&mut client, &["GET", "a"]).contains("NOAUTH"));
    assert_eq!(ask(&mut client, &["AUTH", "a password of many letters"]), "OK");
    assert_eq!(ask(&mut client, &["SET", "a", "1"]), "OK");
    assert_eq!(ask(&mut client, &["RESET"]), "RESET");
    assert!(ask(&mut client, &["GET", "a"]).contains("NOAUTH"));
    // A stranger may not make the server take much memory.
    let mut stranger = UnixStream::connect(&served.socket).unwrap();
    stranger.write_all(b"*2\r\n$4\r\nAUTH\r\n$100000000\r\n").unwrap();
    let mut reply = String::new();
    stranger.read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "-ERR Protocol error: unauthenticated bulk length\r\n");
}

#[test]
fn other_machines_are_refused_and_so_is_a_folder_of_files() {
    let served = Served::new();
    let begin = |address: &Address, folder: &str| {
        let options = RedisOptions { folder: folder.as_bytes().to_vec(), ..RedisOptions::default() };
        RedisServer::begin(&served.store, address, options).map(drop)
    };
    let open = begin(&Address::Tcp(([0, 0, 0, 0], 0).into()), "redis").unwrap_err();
    assert!(
        matches!(open, RedisServeError::Listen(ListenError::Open { .. })) && open.to_string().contains("--certificate"),
        "{open}"
    );
    served.store.put_bytes(b"files/0/a", b"1", &Default::default()).unwrap();
    let files = begin(&Address::Tcp(([127, 0, 0, 1], 0).into()), "files").unwrap_err();
    assert!(files.to_string().contains("--folder"), "{files}");
}

/// A number of `INFO`.
fn fact(client: &mut redis::Connection, name: &str) -> usize {
    let info: String = redis::cmd("INFO").query(client).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap().parse().unwrap()
}

/// Clients sent long values, queued transactions or read no replies, and the server held all of it, up to 1 GiB for each of 10,000.
#[test]
fn all_clients_together_have_a_limit_of_memory() {
    const LIMIT_BYTES: usize = 8 << 20;
    let limits = RedisLimits { memory: LIMIT_BYTES, ..RedisLimits::default() };
    let served = Served::with(RedisOptions { limits, ..RedisOptions::default() });
    let mut witness = served.client();
    let value = "x".repeat(1 << 20);
    assert_eq!(ask(&mut witness, &["SET", "a", &value]), "OK");
    let piece = vec![b'x'; 64 << 10];
    let long_value = (&b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$400000000\r\n"[..], piece.clone());
    let words = (&b"*1000000\r\n"[..], b"$1\r\nx\r\n".repeat(10_000));
    let queued = format!("*3\r\n$3\r\nSET\r\n$1\r\nb\r\n${}\r\n{value}\r\n", value.len());
    let transaction = (&b"MULTI\r\n"[..], queued.into_bytes());
    for (first, more) in [long_value, words, transaction] {
        let mut greedy = UnixStream::connect(&served.socket).unwrap();
        greedy.write_all(first).unwrap();
        // Until the server closes the connection, long before the end of the value.
        let sent = (0..5000).take_while(|_| greedy.write_all(&more).is_ok()).count();
        assert!(sent < 5000);
        let mut reply = Vec::new();
        // The connection is reset if the server has not read all.
        let _ = greedy.read_to_end(&mut reply);
        let reply = String::from_utf8_lossy(&reply);
        assert!(reply.contains("-OOM the server holds too much for its clients"), "{reply:?}");
        assert_eq!(ask(&mut witness, &["STRLEN", "a"]), "1048576");
    }
    // A client that does not read gets the end of the connection only.
    let mut silent = UnixStream::connect(&served.socket).unwrap();
    silent.write_all(&b"GET a\r\n".repeat(64)).unwrap();
    wait_until("the silent client is disconnected", || fact(&mut witness, "evicted_clients") == 4);
    let held = fact(&mut witness, "mem_clients_normal");
    assert!(held <= LIMIT_BYTES, "{held} bytes are held");
    // One reply may take a quarter of it.
    let names = ["a"; 9];
    assert!(ask(&mut witness, &[&["MGET"], &names[..]].concat()).contains("OOM"));
    assert_eq!(ask(&mut witness, &["MULTI"]), "OK");
    for _ in 0..9 {
        assert_eq!(ask(&mut witness, &["GET", "a"]), "QUEUED");
    }
    assert_eq!(ask(&mut witness, &["SET", "done", "1"]), "QUEUED");
    let replies = ask(&mut witness, &["EXEC"]);
    assert!(
        replies.contains("OOM") && replies.contains("the reply is longer"),
        "{}",
        &replies[..replies.len().min(400)]
    );
    assert_eq!(ask(&mut witness, &["GET", "done"]), "1");
    assert_eq!(
        ask(&mut witness, &["CONFIG", "GET", "maxmemory-clients"]),
        format!("[maxmemory-clients {LIMIT_BYTES}]")
    );
}

/// Random bytes, cut requests and clients that leave end their own connections only.
#[test]
fn hostile_bytes_harm_nobody_else() {
    let served = Served::new();
    let mut witness = served.client();
    assert_eq!(ask(&mut witness, &["SET", "a", "1"]), "OK");
    let cases: u64 = std::env::var("CASES").map_or(300, |text| text.parse().unwrap());
    let parts: [&[u8]; 18] = [
        b"*3\r\n",
        b"*1\r\n",
        b"$3\r\n",
        b"SET\r\n",
        b"GET\r\n",
        b"$1\r\n",
        b"a\r\n",
        b"*-1\r\n",
        b"$-1\r\n",
        b"\r\n",
        b"*99999\r\n",
        b"LPUSH b 1\r\n",
        b"MULTI\r\n",
        b"EXEC\r\n",
        b"\"",
        b"SUBSCRIBE x\r\n",
        b"BLPOP nothing 0\r\n",
        b"\0\xff",
    ];
    let mut random = Random::new(11);
    for _ in 0..cases {
        let mut stranger = UnixStream::connect(&served.socket).unwrap();
        for _ in 0..1 + random.below(12) {
            // The server may have closed the connection already.
            let _ = stranger.write_all(parts[random.below(parts.len() as u64) as usize]);
        }
    }
    assert_eq!(ask(&mut witness, &["PING"]), "PONG");
    wait_until("the strangers have gone", || {
        let info: String = redis::cmd("INFO").arg("clients").query(&mut witness).unwrap();
        info.contains("connected_clients:1\r\n")
    });
}

/// A client that sends much and reads nothing takes bounded memory; its replies arrive once it reads.
#[test]
fn a_client_that_does_not_read_gets_all_replies_later() {
    let served = Served::new();
    let mut witness = served.client();
    let value = "x".repeat(1 << 20);
    assert_eq!(ask(&mut witness, &["SET", "a", &value]), "OK");
    let mut greedy = UnixStream::connect(&served.socket).unwrap();
    const REQUEST_COUNT: usize = 200;
    greedy.write_all(&b"GET a\r\n".repeat(REQUEST_COUNT)).unwrap();
    assert_eq!(ask(&mut witness, &["PING"]), "PONG");
    let one = format!("$1048576\r\n{value}\r\n");
    let mut reply = vec![0; one.len()];
    for number in 0..REQUEST_COUNT {
        greedy.read_exact(&mut reply).unwrap();
        assert!(reply == one.as_bytes(), "reply {number}");
    }
}

#[test]
fn the_end_of_the_server_answers_what_it_has_carried_out() {
    let mut served = Served::new();
    let mut client = served.client();
    assert_eq!(ask(&mut client, &["SET", "a", "1"]), "OK");
    served.server.end();
    assert!(ask(&mut client, &["GET", "a"]).starts_with('-'));
    let (_again, socket) = served.beside();
    assert_eq!(ask(&mut connect(&socket), &["GET", "a"]), "1");
}
