//! Files of a web server, which serves ranges and lists nothing.

use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace::{Error, Store};
use terrace_testkit::{Random, noise};

use super::common::{store_of, tier};
use super::web_server::WebServer;
use super::{ASK_ONCE, AT_ONCE, names_below};

fn store_over(server: &WebServer, max_age: Duration) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let store = store_of(dir, &[tier(dir, "disk", &["disk"], "")]);
    store.add_origin("web", &server.url("pub"), Default::default(), Some(max_age)).unwrap();
    (folder, store)
}

#[test]
fn only_names_that_are_asked_for_are_found_and_no_byte_is_fetched_twice() {
    let server = WebServer::start();
    let (small, long) = (noise(1000, 1), noise(20 << 20, 2));
    server.put("pub/a/small", small.clone());
    server.put("pub/long", long.clone());
    server.put("pub/empty", Vec::new());
    let (_folder, store) = store_over(&server, ASK_ONCE);
    assert!(names_below(&store, "web").is_empty());
    assert!(store.get(b"web/a/small").unwrap() == small);
    assert_eq!(store.get(b"web/empty").unwrap(), b"");
    assert!(matches!(store.get(b"web/none"), Err(Error::NotFound { .. })));
    assert_eq!(names_below(&store, "web"), ["a/small", "empty"]);
    let mut random = Random::new(1);
    for _ in 0..300 {
        let at = random.below(20 << 20) as usize;
        let mut part = vec![0; (1 + random.below(50_000) as usize).min((20 << 20) - at)];
        store.read_at(b"web/long", at as u64, &mut part).unwrap();
        assert!(part == long[at..at + part.len()]);
    }
    assert!(store.get(b"web/long").unwrap() == long);
    assert!(store.get(b"web/a/small").unwrap() == small);
    assert_eq!(server.bytes_served_once("pub/long"), 20 << 20);
    assert_eq!(server.bytes_served_once("pub/a/small"), 1000);
    let before = server.requests();
    assert!(store.get(b"web/long").unwrap() == long);
    assert_eq!(server.requests(), before, "all is here");
}

/// The first file that an origin refused to show ended the whole fetch.
#[test]
fn files_that_are_refused_are_left_out_of_a_fetch() {
    let server = WebServer::start();
    server.manners().keeps_private.store(true, Ordering::SeqCst);
    for name in ["a", "b-private", "c"] {
        server.put(&format!("pub/{name}"), noise(1000, 1));
    }
    let (_folder, store) = store_over(&server, ASK_ONCE);
    for name in ["a", "b-private", "c"] {
        assert_eq!(store.stat(format!("web/{name}").as_bytes()).unwrap().length, 1000);
    }
    let fetched = store.fetch_origins(b"web", u64::MAX, &mut |_| {}).unwrap();
    assert_eq!((fetched.files, fetched.fetched, fetched.left, fetched.refused), (3, 2000, 1000, 1));
}

#[test]
fn reads_in_order_ask_seldom_and_short_reads_for_little() {
    let server = WebServer::start();
    let bytes = noise(16 << 20, 3);
    server.put("pub/f", bytes.clone());
    server.put("pub/g", bytes.clone());
    let (_folder, store) = store_over(&server, ASK_ONCE);
    for at in (0..16 << 20).step_by(32 << 10) {
        let mut part = vec![0; 32 << 10];
        store.read_at(b"web/f", at as u64, &mut part).unwrap();
        assert!(part == bytes[at..at + (32 << 10)]);
    }
    assert_eq!(server.bytes_served_once("pub/f"), 16 << 20);
    assert!(server.served("pub/f").len() < 20, "{:?}", server.served("pub/f"));
    store.read_at(b"web/g", 9_000_000, &mut [0; 10]).unwrap();
    assert_eq!(server.bytes_served_once("pub/g"), 64 << 10);
}

#[test]
fn the_version_is_asked_for_as_often_as_the_answers_do_not_tell_it() {
    // A request for the file, one for its bytes, and one whether it has changed meanwhile. With a weak ETag, also one whether it has changed
    // before. If the answer with the bytes does not tell the ETag, the first file is fetched again.
    for (weak, without_etags_of_bytes, expected) in
        [(false, false, [3, 3]), (true, false, [4, 4]), (false, true, [5, 4])]
    {
        let server = WebServer::start();
        server.manners().weak.store(weak, Ordering::SeqCst);
        server.manners().without_etags_of_bytes.store(without_etags_of_bytes, Ordering::SeqCst);
        let (_folder, store) = store_over(&server, ASK_ONCE);
        let requests = ["f", "g"].map(|name| {
            server.put(&format!("pub/{name}"), noise(1000, 1));
            let before = server.requests();
            assert!(store.get(format!("web/{name}").as_bytes()).unwrap() == noise(1000, 1));
            server.requests() - before
        });
        assert_eq!(requests, expected, "weak: {weak}, without: {without_etags_of_bytes}");
    }
}

#[test]
fn a_changed_file_is_never_mixed_whatever_conditions_the_server_knows() {
    for manners in 0..4 {
        let server = WebServer::start();
        server.manners().without_conditions.store(manners == 1 || manners == 3, Ordering::SeqCst);
        server.manners().without_etags_of_bytes.store(manners == 3, Ordering::SeqCst);
        server.manners().weak.store(manners == 2, Ordering::SeqCst);
        let (old, new) = (noise(4 << 20, 1), noise(4 << 20, 2));
        server.put("pub/f", old.clone());
        let (_folder, store) = store_over(&server, AT_ONCE);
        let handle = store.handle(b"web/f").unwrap();
        let mut part = vec![0; 1000];
        handle.read_at(0, &mut part).unwrap();
        server.put("pub/f", new.clone());
        assert!(matches!(handle.read_at(3 << 20, &mut part), Err(Error::ChangedAtOrigin { .. })), "{manners}");
        handle.read_at(10, &mut part).unwrap();
        assert!(part == old[10..1010]);
        assert!(store.get(b"web/f").unwrap() == new);
        server.remove("pub/f");
        assert!(matches!(store.get(b"web/f"), Err(Error::NotFound { .. })));
    }
}

#[test]
fn a_server_without_ranges_or_with_errors_is_named() {
    let server = WebServer::start();
    server.put("pub/f", noise(4 << 20, 1));
    server.put("pub/small", noise(100, 1));
    let (_folder, store) = store_over(&server, ASK_ONCE);
    assert_eq!(store.stat(b"web/f").unwrap().length, 4 << 20);
    server.manners().without_ranges.store(true, Ordering::SeqCst);
    let error = store.read_at(b"web/f", 1 << 20, &mut [0; 10]).unwrap_err().to_string();
    assert!(error.contains("range") && error.contains(&server.url("pub")), "{error}");
    server.manners().without_ranges.store(false, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(1100));
    server.manners().shifts_ranges.store(true, Ordering::SeqCst);
    let error = store.read_at(b"web/f", 1 << 20, &mut [0; 10]).unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error} {cause}").contains("with those from"), "{error} {cause}");
    server.manners().shifts_ranges.store(false, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(1100));
    store.get(b"web/small").unwrap();
    server.manners().is_broken.store(true, Ordering::SeqCst);
    assert!(matches!(store.read_at(b"web/f", 0, &mut [0; 10]), Err(Error::Origin { .. })));
    assert!(store.get(b"web/small").unwrap() == noise(100, 1));
    assert!(matches!(store.get(b"web/unknown"), Err(Error::Origin { .. })));
    server.manners().is_broken.store(false, Ordering::SeqCst);
    std::thread::sleep(Duration::from_millis(1100));
    store.read_at(b"web/f", 0, &mut [0; 10]).unwrap();
}

/// A change without another length was not noticed, and a reader got parts of both versions.
#[test]
fn a_file_whose_changes_cannot_be_noticed_is_not_read() {
    let server = WebServer::start();
    server.manners().without_versions.store(true, Ordering::SeqCst);
    server.put("pub/f", noise(100_000, 1));
    let (_folder, store) = store_over(&server, ASK_ONCE);
    let error = store.get(b"web/f").unwrap_err();
    let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error} {cause}").contains("neither an ETag nor the time"), "{error} {cause}");
    server.manners().without_versions.store(false, Ordering::SeqCst);
    server.put("pub/g", noise(100_000, 1));
    assert!(store.get(b"web/g").unwrap() == noise(100_000, 1));
}
