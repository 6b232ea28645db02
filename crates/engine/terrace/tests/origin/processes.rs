//! Several processes and threads that read one file of an origin.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace::Store;
use terrace_testkit::{Random, noise};

use super::common::{store_of, tier};
use super::web_server::WebServer;
use super::{ASK_ONCE, AT_ONCE, Place};

const FILE_LENGTH: usize = 12 << 20;

#[test]
fn readers_of_one_range_wait_for_one_fetch() {
    let server = WebServer::start();
    server.manners().delay.store(5, Ordering::SeqCst);
    let bytes = noise(FILE_LENGTH, 1);
    server.put("pub/f", bytes.clone());
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let store = store_of(dir, &[tier(dir, "ram", &["ram"], "persistent = false"), tier(dir, "disk", &["disk"], "")]);
    store.add_origin("web", &server.url("pub"), Default::default(), Some(ASK_ONCE)).unwrap();
    let children: Vec<_> = (0..3)
        .map(|who| {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "processes::reading_child", "--nocapture"]).stdout(Stdio::null());
            command.env("TEST_READ_STORE", dir.join("store")).env("TEST_WHO", who.to_string()).spawn().unwrap()
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    fs::write(dir.join("store/go"), "").unwrap();
    std::thread::scope(|scope| {
        for who in 10..13 {
            let store = store.clone();
            scope.spawn(move || read_all(&store, who));
        }
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(server.bytes_served_once("pub/f"), FILE_LENGTH as u64);
}

fn read_all(store: &Store, who: u64) {
    let bytes = noise(FILE_LENGTH, 1);
    let mut random = Random::new(who);
    for _ in 0..40 {
        let at = random.below(FILE_LENGTH as u64) as usize;
        let mut part = vec![0; (1 + random.below(200_000) as usize).min(FILE_LENGTH - at)];
        store.read_at(b"web/f", at as u64, &mut part).unwrap();
        assert!(part == bytes[at..at + part.len()]);
    }
    assert!(store.get(b"web/f").unwrap() == bytes);
}

#[test]
fn reading_child() {
    let Ok(home) = std::env::var("TEST_READ_STORE") else { return };
    let store = Store::open(home.as_ref()).unwrap();
    while !fs::exists(format!("{home}/go")).unwrap() {
        std::thread::yield_now();
    }
    read_all(&store, std::env::var("TEST_WHO").unwrap().parse().unwrap());
}

/// A process that had the store open before the first origin was added finds it.
#[test]
fn an_origin_is_found_by_processes_that_have_the_store_open() {
    let place = Place::without_origin();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::waiting_child", "--nocapture"]).stdout(Stdio::null());
    let mut child = command.env("TEST_WAIT_STORE", place.dir().join("store")).spawn().unwrap();
    terrace_testkit::wait_until("the child has opened the store", || place.dir().join("store/open").exists());
    place.write("f", b"bytes");
    place.add(ASK_ONCE);
    assert!(child.wait().unwrap().success());
}

#[test]
fn waiting_child() {
    let Ok(home) = std::env::var("TEST_WAIT_STORE") else { return };
    let store = Store::open(home.as_ref()).unwrap();
    fs::write(format!("{home}/open"), "").unwrap();
    terrace_testkit::wait_until("the origin is known", || store.get(b"data/o/f").is_ok_and(|bytes| bytes == b"bytes"));
    assert_eq!(super::names_below(&store, "data/o"), ["f"]);
}

/// Each was acknowledged, and the next listing removed it.
#[test]
fn what_a_process_writes_before_it_knows_of_an_origin_stays() {
    let place = Place::without_origin();
    place.write("f", b"the origin's");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "processes::writing_child", "--nocapture"]).stdout(Stdio::null());
    let mut child = command.env("TEST_WRITE_STORE", place.dir().join("store")).spawn().unwrap();
    terrace_testkit::wait_until("the child has opened the store", || place.dir().join("store/open").exists());
    place.add(AT_ONCE);
    fs::write(place.dir().join("store/go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    let written: Vec<String> =
        super::names_below(&place.store, "data/o").into_iter().filter(|name| name != "f").collect();
    let acknowledged = fs::read_to_string(place.dir().join("store/written")).unwrap();
    assert!(acknowledged.lines().all(|name| written.iter().any(|there| there == name)), "{written:?} {acknowledged}");
    for name in acknowledged.lines() {
        assert_eq!(place.get(name).unwrap(), b"mine", "{name}");
    }
}

/// Writes until that is refused.
#[test]
fn writing_child() {
    let Ok(home) = std::env::var("TEST_WRITE_STORE") else { return };
    let store = Store::open(home.as_ref()).unwrap();
    fs::write(format!("{home}/open"), "").unwrap();
    terrace_testkit::wait_until("the origin is there", || fs::exists(format!("{home}/go")).unwrap());
    let mut acknowledged = String::new();
    let put = |name: &str| store.put_bytes(format!("data/o/{name}").as_bytes(), b"mine", &Default::default());
    terrace_testkit::wait_until("a write is refused", || {
        let name = format!("mine-{}", acknowledged.lines().count());
        match put(&name) {
            Ok(_) => acknowledged += &format!("{name}\n"),
            Err(terrace::Error::ReadOnlyOrigin { .. }) => return true,
            Err(error) => panic!("{error}"),
        }
        false
    });
    fs::write(format!("{home}/written"), acknowledged).unwrap();
}
