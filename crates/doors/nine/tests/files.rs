//! Files over 9P2000, with the test's own client.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::client::{
    Body, Client, MODE_APPEND, MODE_DIRECTORY, OPEN_READ, OPEN_READ_WRITE, OPEN_REMOVE_ON_CLOSE, OPEN_TRUNCATE,
    OPEN_WRITE,
};
use common::{Served, bytes};
use terrace_kit::{Address, ListenError};
use terrace_nine::{Limits, serve_files};

#[test]
fn files_are_made_read_written_cut_renamed_and_removed() {
    let served = Served::new();
    let mut client = served.client();
    assert_eq!(client.msize, (1 << 20) + 24);
    let fid = client.create("", "a", 0o644, OPEN_READ_WRITE).unwrap();
    assert_eq!(client.write(fid, 0, b"hello").unwrap(), 5);
    assert_eq!(client.write(fid, 10, b"there").unwrap(), 5);
    assert_eq!(client.read(fid, 0, 100).unwrap(), b"hello\0\0\0\0\0there");
    assert_eq!(client.read(fid, 3, 4).unwrap(), b"lo\0\0");
    assert_eq!(client.read(fid, 15, 4).unwrap(), b"");
    client.wstat(fid, None, Some(5), "").unwrap();
    assert_eq!(client.stat_fid(fid).unwrap().length, 5);
    client.wstat(fid, None, Some(8), "").unwrap();
    client.wstat(fid, Some(0o600), None, "b").unwrap();
    client.clunk(fid).unwrap();
    assert_eq!(client.read_all("b").unwrap(), b"hello\0\0\0");
    assert_eq!(served.files.store().get(b"b").unwrap(), b"hello\0\0\0");
    let told = client.stat("b").unwrap();
    assert_eq!((told.name.as_str(), told.mode, told.length), ("b", 0o600, 8));
    let fid = client.open("b", OPEN_WRITE | OPEN_TRUNCATE).unwrap();
    assert_eq!(client.stat_fid(fid).unwrap().length, 0);
    assert_eq!(client.read(fid, 0, 1).unwrap_err(), "bad use of fid");
    client.clunk(fid).unwrap();
    client.remove("b").unwrap();
    assert_eq!(client.walk("b").unwrap_err(), "No such file or directory");
    assert_eq!(client.names("").unwrap(), [""; 0]);
    // An open file stays usable.
    let fid = client.create("", "c", 0o644, OPEN_READ_WRITE | OPEN_REMOVE_ON_CLOSE).unwrap();
    client.write(fid, 0, b"x").unwrap();
    client.remove("c").unwrap();
    assert_eq!(client.read(fid, 0, 9).unwrap(), b"x");
    assert_eq!(client.stat_fid(fid).unwrap().length, 1);
    assert!(client.clunk(fid).is_err());
    let fid = client.create("", "d", 0o644, OPEN_READ_WRITE | OPEN_REMOVE_ON_CLOSE).unwrap();
    client.clunk(fid).unwrap();
    assert!(client.walk("d").is_err());
}

#[test]
fn directories_are_walked_and_listed() {
    let served = Served::new();
    let mut client = served.client();
    for (folder, name) in [("", "runs"), ("runs", "one"), ("runs/one", "deep")] {
        let fid = client.create(folder, name, MODE_DIRECTORY | 0o755, OPEN_READ).unwrap();
        client.clunk(fid).unwrap();
    }
    let mut expected = vec!["deep".to_owned()];
    for number in 0..300 {
        let name = format!("file with a longer name {number:03}");
        let fid = client.create("runs/one", &name, 0o644, OPEN_WRITE).unwrap();
        client.clunk(fid).unwrap();
        expected.push(name);
    }
    assert_eq!(client.names("runs/one").unwrap(), expected);
    // Pieces that hold only one record contain no partial record.
    assert_eq!(client.list("runs/one", 120).unwrap(), client.list("runs/one", 1 << 20).unwrap());
    let fid = client.open("runs/one", OPEN_READ).unwrap();
    assert_eq!(client.read(fid, 0, 20).unwrap_err(), "Invalid argument");
    let first = client.read(fid, 0, 200).unwrap();
    assert_eq!(client.read(fid, 7, 200).unwrap_err(), "bad offset in directory read");
    client.read(fid, first.len() as u64, 200).unwrap();
    assert_eq!(client.read(fid, 0, 200).unwrap(), first);
    // Objects that others put are visible, and so are directories that exist only as a part of keys.
    served.files.store().put_bytes(b"put/by/others", b"1", &Default::default()).unwrap();
    assert_eq!(client.names("").unwrap(), ["put", "runs"]);
    assert_eq!(client.read_all("put/by/others").unwrap(), b"1");
    // Walks up and down again; the parent of the root is the root.
    let up = client.walk("runs/one/../one/deep/../../../..").unwrap();
    assert_eq!(client.stat_fid(up).unwrap().name, "/");
    assert_eq!(client.walk("runs/none/x").unwrap_err(), "the walk ended early");
    for bad in [".", "a\0b"] {
        assert!(client.walk(bad).is_err());
    }
    assert!(client.create("runs", "..", 0o644, OPEN_READ).is_err());
    assert!(client.create("runs", "a/b", 0o644, OPEN_READ).is_err());
    assert_eq!(client.create("runs", "one", 0o644, OPEN_READ).unwrap_err(), "File exists");
    assert_eq!(client.remove("runs/one").unwrap_err(), "Directory not empty");
    assert_eq!(client.open("runs", OPEN_WRITE).unwrap_err(), "Is a directory");
    client.remove("runs/one/deep").unwrap();
}

#[test]
fn fids_follow_files_that_others_rename() {
    let served = Served::new();
    let (mut one, mut other) = (served.client(), served.client());
    one.create("", "d", MODE_DIRECTORY | 0o755, OPEN_READ).unwrap();
    let open = one.create("d", "f", 0o644, OPEN_READ_WRITE).unwrap();
    let known = one.walk("d/f").unwrap();
    let before = one.stat_fid(known).unwrap();
    let folder = other.walk("d").unwrap();
    other.wstat(folder, None, None, "e").unwrap();
    let file = other.walk("e/f").unwrap();
    other.wstat(file, None, None, "g").unwrap();
    one.write(open, 0, b"still").unwrap();
    let after = one.stat_fid(known).unwrap();
    assert_eq!((after.path, after.name.as_str(), after.length), (before.path, "g", 5));
    one.open_fid(known, OPEN_READ).unwrap();
    assert_eq!(one.read(known, 0, 9).unwrap(), b"still");
    // A name that exists is refused.
    other.create("e", "h", 0o644, OPEN_READ).unwrap();
    assert_eq!(other.wstat(file, None, None, "h").unwrap_err(), "File exists");
    // A new file with the same name is a different file.
    other.remove("e/g").unwrap();
    other.create("e", "g", 0o644, OPEN_READ).unwrap();
    assert_ne!(other.stat("e/g").unwrap().path, before.path);
}

#[test]
fn invalid_requests_are_refused() {
    let served = Served::new();
    let mut client = served.client();
    assert_eq!(client.stat_fid(99).unwrap_err(), "fid unknown or out of range");
    assert_eq!(client.attach(0, "").unwrap_err(), "fid already in use");
    assert_eq!(client.ask(102, Body::default().n(4, 5).s("me").s("")).unwrap_err(), "authentication not required");
    assert!(client.ask(104, Body::default().n(4, 5).n(4, 6).s("me").s("")).is_err());
    assert_eq!(client.ask(50, Body::default().n(8, 0)).unwrap_err(), "unknown message");
    client.ask(108, Body::default().n(2, 3)).unwrap();
    let fid = client.create("", "a", 0o644, OPEN_READ).unwrap();
    assert_eq!(client.write(fid, 0, b"x").unwrap_err(), "bad use of fid");
    assert_eq!(client.open_fid(fid, OPEN_READ).unwrap_err(), "bad use of fid");
    assert_eq!(
        client.wstat(fid, Some(MODE_DIRECTORY), None, "").unwrap_err(),
        "wstat can't convert between files and directories"
    );
    assert!(client.create("", "link", 0x0200_0000, OPEN_READ).is_err());
    let fid = client.open("a", OPEN_WRITE).unwrap();
    assert_eq!(client.write(fid, u64::MAX - 3, b"beyond").unwrap_err(), "File too large");
    assert_eq!(client.wstat(fid, None, Some(u64::MAX - 1), "").unwrap_err(), "File too large");
    // The store's own names are hidden.
    assert!(client.walk(".terrace").is_err());
    // A new version message resets the session, whatever dialect it requests. Before the first one, no request is
    // served.
    let body = client.ask(100, Body::default().n(4, 8192).s("9P2000.L")).unwrap();
    assert_eq!(body, Body::default().n(4, 8192).s("9P2000").0);
    assert!(client.stat_fid(fid).is_err());
    let body = client.ask(100, Body::default().n(4, 8192).s("9P1999")).unwrap();
    assert_eq!(body, Body::default().n(4, 8192).s("unknown").0);
    assert_eq!(client.attach(0, "").unwrap_err(), "no version was agreed on");
}

#[test]
fn many_clients_write_and_read_at_once() {
    let served = Served::new();
    const FILE_BYTES: usize = 20 << 20;
    std::thread::scope(|scope| {
        for number in 0..6 {
            let served = &served;
            scope.spawn(move || {
                let mut client = served.client();
                let data = bytes(FILE_BYTES, number);
                let name = format!("big{number}");
                let fid = client.create("", &name, 0o644, OPEN_WRITE).unwrap();
                client.write_all(fid, &data).unwrap();
                client.clunk(fid).unwrap();
                // Another client with short messages.
                let mut short = served.client();
                short.version(64 << 10).unwrap();
                short.attach(0, "").unwrap();
                assert!(short.read_all(&name).unwrap() == data);
                assert!(client.read_all(&name).unwrap() == data);
            });
        }
    });
}

#[test]
fn a_client_that_vanishes_leaves_nothing_open() {
    let served = Served::new();
    let mut client = served.client();
    let fid = client.create("", "a", 0o644, OPEN_READ_WRITE).unwrap();
    client.write(fid, 0, b"kept back").unwrap();
    let id = served.files.stat(b"a").unwrap().id.unwrap();
    assert!(served.files.opened(id).is_some());
    drop(client);
    for _ in 0..1000 {
        if served.files.opened(id).is_none() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(served.files.opened(id).is_none());
    assert_eq!(served.files.store().get(b"a").unwrap(), b"kept back");
}

#[test]
fn shutdown_answers_current_requests_and_closes_files() {
    let mut served = Served::new();
    let mut client = served.client();
    let fid = client.create("", "a", 0o644, OPEN_READ_WRITE).unwrap();
    client.write(fid, 0, b"kept back").unwrap();
    served.server.end();
    assert!(client.read(fid, 0, 9).is_err());
    assert_eq!(served.files.store().get(b"a").unwrap(), b"kept back");
    assert!(!served.socket.exists());
    // A socket that a killed server left is taken over. A socket that is in use, or another file, is not.
    drop(std::os::unix::net::UnixListener::bind(&served.socket).unwrap());
    let address = Address::Unix(served.socket.clone());
    let again = serve_files(&served.files, &address, false, Limits::default()).unwrap();
    assert_eq!(served.client().read_all("a").unwrap(), b"kept back");
    assert!(matches!(serve_files(&served.files, &address, false, Limits::default()), Err(ListenError::Refused { .. })));
    drop(again);
    std::fs::write(&served.socket, b"").unwrap();
    assert!(matches!(serve_files(&served.files, &address, false, Limits::default()), Err(ListenError::InTheWay(_))));
}

#[test]
fn only_this_machine_may_connect_unless_trusted() {
    let served = Served::new();
    let open = Address::Tcp("0.0.0.0:0".parse().unwrap());
    let Err(error @ ListenError::Open { .. }) = serve_files(&served.files, &open, false, Limits::default()) else {
        panic!("it listens")
    };
    assert!(error.to_string().contains("no authentication"), "{error}");
    let server =
        serve_files(&served.files, &Address::Tcp("127.0.0.1:0".parse().unwrap()), false, Limits::default()).unwrap();
    let mut client = Client::tcp(&server.address().to_string()).unwrap();
    assert_eq!(client.names("").unwrap(), [""; 0]);
}

#[test]
fn files_of_an_origin_are_listed_and_read_and_not_changed() {
    let served = Served::new();
    let far = tempfile::tempdir().unwrap();
    let data = bytes(3_000_000, 1);
    std::fs::create_dir(far.path().join("sub")).unwrap();
    std::fs::write(far.path().join("long"), &data).unwrap();
    std::fs::write(far.path().join("sub/short"), b"words\n").unwrap();
    let store = served.files.store();
    store.add_origin("data/far", far.path().to_str().unwrap(), Default::default(), None).unwrap();
    let mut client = served.client();
    assert_eq!(client.names("data/far").unwrap(), ["long", "sub"]);
    assert_eq!(client.names("data/far/sub").unwrap(), ["short"]);
    assert_eq!(client.stat("data/far/long").unwrap().length, data.len() as u64);
    let fid = client.open("data/far/long", OPEN_READ).unwrap();
    assert_eq!(client.read(fid, 2_000_000, 100).unwrap(), &data[2_000_000..2_000_100]);
    assert_eq!(store.origins().unwrap()[0].cached, 64 << 10, "only what is read is fetched");
    assert!(client.read_all("data/far/long").unwrap() == data);
    assert_eq!(client.read_all("data/far/sub/short").unwrap(), b"words\n");
    let refused = "Read-only file system";
    assert_eq!(client.open("data/far/long", OPEN_WRITE).unwrap_err(), refused);
    assert_eq!(client.create("data/far", "new", 0o644, OPEN_WRITE).unwrap_err(), refused);
    assert_eq!(client.remove("data/far/long").unwrap_err(), refused);
    assert_eq!(client.wstat(fid, None, None, "other").unwrap_err(), refused);
    assert!(std::fs::read(far.path().join("long")).unwrap() == data);
}

/// Clients appended at the length that they knew, and overwrote bytes that others had appended since.
#[test]
fn appends_of_two_clients_are_all_there() {
    let served = Served::new();
    let (mut one, mut two) = (served.client(), served.client());
    let fid = one.create("", "log", 0o644, OPEN_WRITE | MODE_APPEND).unwrap();
    let other = two.open("log", OPEN_WRITE | MODE_APPEND).unwrap();
    let mut expected = Vec::new();
    for number in 0..200 {
        let line = format!("line {number}\n").into_bytes();
        // The offset does not matter.
        let (client, fid) = if number % 3 == 0 { (&mut one, fid) } else { (&mut two, other) };
        assert_eq!(client.write(fid, number % 7, &line).unwrap() as usize, line.len());
        expected.extend(line);
    }
    assert_eq!(one.read_all("log").unwrap(), expected);
    one.clunk(fid).unwrap();
    two.clunk(other).unwrap();
    assert_eq!(served.files.store().get(b"log").unwrap(), expected);
}
