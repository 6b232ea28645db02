//! Clients that others wrote: redis-cli and redis-py.

#![allow(clippy::unwrap_used)]

mod common;

use std::path::Path;
use std::process::Command;

use common::{Served, ask};
use terrace_testkit::{Missing, skip};

#[test]
fn redis_cli_works_in_both_versions_of_the_protocol() {
    let served = Served::new();
    for (words, reply) in [
        (&["ping"][..], "PONG"),
        (&["set", "a", "1", "ex", "100"], "OK"),
        (&["ttl", "a"], "100"),
        (&["incrbyfloat", "a", "0.5"], "1.5"),
        (&["-3", "hset", "h", "b", "2"], "1"),
        (&["-3", "hgetall", "h"], "b 2"),
        (&["hgetall", "h"], "b\n2"),
        (&["-n", "5", "dbsize"], "0"),
        (&["eval", "return 1", "0"], "ERR unknown command 'eval', with args beginning with: 'return 1' '0'"),
        (&["cluster", "info"], "ERR This instance has cluster support disabled"),
        (&["config", "get", "databases"], "databases\n16"),
    ] {
        let Some(found) = served.cli(words) else { return };
        assert_eq!(found, reply, "{words:?}");
    }
    let info = served.cli(&["info"]).unwrap();
    assert!(info.contains("redis_version:7.0.15") && info.contains("connected_clients:1"), "{info}");
}

#[test]
fn redis_py_works_in_both_versions_of_the_protocol() {
    let served = Served::new();
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers/bin/python");
    let has_module = Command::new(&python).args(["-c", "import redis"]).output();
    if !has_module.is_ok_and(|output| output.status.success()) {
        let reason = "there is no redis-py in target/servers; `make servers` installs it";
        skip("a test with redis-py", &Missing::new("redis", reason));
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/with_redis_py.py");
    let output = Command::new(python).arg(script).arg(&served.socket).output().unwrap();
    let (printed, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{printed}\n{errors}");
    assert_eq!(ask(&mut served.client(), &["GET", "from-python"]), "1");
}
