//! The tests of Redis and of redis-py, against `terrace serve redis`. What passes and what does not is listed, and compared both ways.

#![allow(clippy::unwrap_used)]

mod served;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use served::Place;
use terrace_testkit::{Missing, Random, skip};

/// Units that take some seconds.
const SHORT_UNITS: &str = "type/incr protocol keyspace";

fn lists() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../redis/tests")
}

/// A suite that `make servers` has fetched. None, with a counted skip, if it is not there.
fn suite(test: &str, name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target/servers").join(name);
    if folder.join("installed").exists() {
        return Some(folder);
    }
    skip(test, &Missing::new("redis", format!("there is no {}; `make servers` fetches it", folder.display())));
    None
}

/// `TERRACE_REDIS_UNITS` names the units.
#[test]
fn units_of_redis_pass_as_listed() {
    let Some(folder) = suite("units of Redis", "redis") else { return };
    if Command::new("tclsh").arg("/dev/null").output().is_err() {
        skip("units of Redis", &Missing::new("redis", "there is no tclsh; `make servers` installs it"));
        return;
    }
    let units = std::env::var("TERRACE_REDIS_UNITS").unwrap_or_else(|_| SHORT_UNITS.to_owned());
    let mut command = Command::new(lists().join("units/run"));
    command.arg(env!("CARGO_BIN_EXE_terrace")).arg(folder.join("redis-7.0.15")).args(units.split(' '));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{said}");
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// The lines of a list, without the reasons.
fn names(list: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(lists().join("redis_py").join(list)).unwrap();
    text.lines().map(|line| line.split(" | ").next().unwrap().to_owned()).collect()
}

/// The tests that pass with a redis-server are run: all, or as many as `TERRACE_REDIS_PY` says, which a seed chooses.
#[test]
fn tests_of_redis_py_pass_as_listed() {
    const DEFAULT_TEST_COUNT: usize = 60;
    let Some(folder) = suite("tests of redis-py", "redis-py") else { return };
    let (mut chosen, failing) = (Vec::from_iter(names("baseline")), names("failing"));
    let count = match std::env::var("TERRACE_REDIS_PY").as_deref() {
        Ok("all") => chosen.len(),
        Ok(count) => count.parse().unwrap(),
        Err(_) => DEFAULT_TEST_COUNT,
    };
    let mut random = Random::new(7);
    while chosen.len() > count {
        chosen.swap_remove(random.below(chosen.len() as u64) as usize);
    }
    let place = Place::new();
    let (mut child, line) = place.start(&["redis", "--listen", "127.0.0.1:0"]);
    let address = line.trim().rsplit(' ').next().unwrap();
    let file = place.0.path().join("tests");
    let lines: String = chosen.iter().map(|name| format!("tests/test_commands.py::{name}\n")).collect();
    std::fs::write(&file, lines).unwrap();
    let mut pytest = Command::new(folder.join("../bin/python"));
    pytest.args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "addopts=", "--timeout=60", "--tb=line", "-rA"]);
    pytest.arg(format!("--redis-url=redis://{address}/0")).arg(format!("@{}", file.display()));
    pytest.current_dir(folder.join("redis-8.1.0")).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = pytest.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let passed: BTreeSet<String> = said
        .lines()
        .filter_map(|line| line.strip_prefix("PASSED tests/test_commands.py::"))
        .map(str::to_owned)
        .collect();
    let chosen = BTreeSet::from_iter(chosen);
    let failed: BTreeSet<&String> = chosen.difference(&passed).collect();
    let listed: BTreeSet<&String> = chosen.intersection(&failing).collect();
    let differences: Vec<_> = failed.symmetric_difference(&listed).collect();
    assert!(differences.is_empty(), "not as listed: {differences:#?}\n{said}");
    println!("{} of {} tests of redis-py pass, as listed", passed.len(), chosen.len());
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
