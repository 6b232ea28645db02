//! Clients that others wrote: memccapable of libmemcached, and pymemcache.

use std::path::Path;
use std::process::Command;

use terrace_redis::{Address, RedisServer};
use terrace_testkit::{Missing, skip};

use crate::common::Served;
use crate::lines::options;

/// A server on a TCP port, and the port.
fn serve_by_tcp(served: &Served) -> (RedisServer, u16) {
    let server = RedisServer::begin(&served.store, &Address::Tcp(([127, 0, 0, 1], 0).into()), options()).unwrap();
    let Address::Tcp(address) = server.address().clone() else { unreachable!("a TCP port was asked for") };
    (server, address.port())
}

#[test]
fn libmemcached_finds_the_text_protocol_whole() {
    let served = Served::new();
    let (_server, port) = serve_by_tcp(&served);
    let output = Command::new("memccapable").args(["-a", "-h", "127.0.0.1", "-p", &port.to_string()]).output();
    let Ok(output) = output else {
        let missing = Missing::new("memcached", "there is no memccapable; `make servers` installs it");
        return skip("libmemcached's test of servers", &missing);
    };
    let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let passed = printed.lines().filter(|line| line.ends_with("[pass]")).count();
    assert!(output.status.success() && passed > 25 && !printed.contains("[FAIL]"), "{printed}");
}

#[test]
fn pymemcache_works() {
    let served = Served::new();
    let (_server, port) = serve_by_tcp(&served);
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/bin/python");
    let has_module = Command::new(&python).args(["-c", "import pymemcache"]).output();
    if !has_module.is_ok_and(|output| output.status.success()) {
        let missing = Missing::new("memcached", "there is no pymemcache in target/servers; `make servers` installs it");
        return skip("a test with pymemcache", &missing);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memcached/with_pymemcache.py");
    let output = Command::new(python).arg(script).arg(port.to_string()).output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}\n{errors}");
}
