//! Limits, passwords, and clients that behave badly.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use terrace_redis::{Password, RedisLimits, RedisOptions};
use terrace_testkit::{Random, wait_until};

use crate::common::Served;
use crate::lines::{Lines, options, serve};

#[test]
fn thousands_of_clients_are_served_and_those_beyond_the_limit_are_told_so() {
    const CLIENT_COUNT: usize = 2000;
    let limits = RedisLimits { connections: CLIENT_COUNT, ..RedisLimits::default() };
    let served = Served::with(RedisOptions { limits, ..options() });
    let mut clients: Vec<Lines> = (0..CLIENT_COUNT).map(|_| Lines::connect(&served.socket)).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(format!("set key{number} 0 0 1\r\nx\r\n").as_bytes());
    }
    clients.iter_mut().for_each(|client| assert_eq!(client.line(), "STORED"));
    let mut reply = String::new();
    UnixStream::connect(&served.socket).unwrap().read_to_string(&mut reply).unwrap();
    assert_eq!(reply, "ERROR Too many open connections\r\n");
    let last = clients.last_mut().unwrap();
    assert_eq!(last.get("get key0 key1999").len(), 2);
    last.send(b"stats\r\n");
    let lines: Vec<String> = std::iter::repeat_with(|| last.line()).take_while(|line| line != "END").collect();
    for line in ["STAT curr_connections 2000", "STAT rejected_connections 1", "STAT get_hits 2"] {
        assert!(lines.iter().any(|found| found == line), "{line} is not in {lines:?}");
    }
}

#[test]
fn a_client_without_the_password_can_do_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "a password of many letters\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let served = Served::with(RedisOptions { password: Some(Password::read(&file).unwrap()), ..options() });
    let mut client = Lines::connect(&served.socket);
    assert_eq!(client.ask("get a"), "CLIENT_ERROR unauthenticated");
    for wrong in
        ["default a password of many lettres", "other a password of many letters", "a password of many letters"]
    {
        let reply = client.ask(&format!("set x 0 0 {}\r\n{wrong}", wrong.len()));
        assert_eq!(reply, "CLIENT_ERROR authentication failure", "{wrong}");
    }
    // A stranger may not make the server take much memory.
    assert_eq!(client.ask(&format!("set x 0 0 5000\r\n{}", "x".repeat(5000))), "CLIENT_ERROR unauthenticated");
    let right = "default a password of many letters";
    assert_eq!(client.ask(&format!("set x 0 0 {}\r\n{right}", right.len())), "STORED");
    assert_eq!(client.value("x"), None, "the password is no item");
    client.set("a", "1");
    assert_eq!(Lines::connect(&served.socket).ask("flush_all"), "CLIENT_ERROR unauthenticated");
    assert_eq!(client.value("a").as_deref(), Some("1"));
}

#[test]
fn all_clients_together_have_a_limit_of_memory() {
    let limits = RedisLimits { memory: 512 << 10, ..RedisLimits::default() };
    let served = Served::with(RedisOptions { limits, ..options() });
    let mut witness = Lines::connect(&served.socket);
    witness.set("a", "1");
    let mut greedy = UnixStream::connect(&served.socket).unwrap();
    greedy.write_all(b"set b 0 0 1048576\r\n").unwrap();
    // The server closes the connection before the end of the value.
    let _ = greedy.write_all(&vec![b'x'; 1 << 20]);
    let mut reply = Vec::new();
    let _ = greedy.read_to_end(&mut reply);
    let reply = String::from_utf8_lossy(&reply);
    assert!(reply.starts_with("SERVER_ERROR the server holds too much for its clients"), "{reply:?}");
    assert_eq!(witness.value("a").as_deref(), Some("1"));
    assert_eq!(witness.value("b"), None);
}

/// Random bytes, cut requests and clients that leave end their own connections only.
#[test]
fn hostile_bytes_harm_nobody_else() {
    let served = serve();
    let mut witness = Lines::connect(&served.socket);
    let cases: u64 = std::env::var("CASES").map_or(300, |text| text.parse().unwrap());
    let parts: [&[u8]; 16] = [
        b"set a 0 0 3\r\n",
        b"abc\r\n",
        b"set a 0 0 2147483645\r\n",
        b"set a 0 0 -1\r\n",
        b"cas a 0 0 3 7 noreply\r\n",
        b"get ",
        b"gets a b c\r\n",
        b"gats 10 a\r\n",
        b"incr a 18446744073709551615\r\n",
        b"\r\n",
        b"\n",
        b"noreply",
        b" ",
        b"stats\r\n",
        b"verbosity 1 noreply\r\n",
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
    witness.set("witness", "1");
    wait_until("the strangers have gone", || {
        witness.send(b"stats\r\n");
        let lines: Vec<String> = std::iter::repeat_with(|| witness.line()).take_while(|line| line != "END").collect();
        lines.iter().any(|line| line == "STAT curr_connections 1")
    });
    // A line that does not end.
    let mut endless = UnixStream::connect(&served.socket).unwrap();
    let _ = endless.write_all(&vec![b'x'; 2 << 20]);
    let mut reply = Vec::new();
    // The connection is reset if bytes of it are left.
    let _ = endless.read_to_end(&mut reply);
    assert!(reply.is_empty() || reply == b"CLIENT_ERROR line too long\r\n", "{reply:?}");
    assert_eq!(witness.value("witness").as_deref(), Some("1"));
}
