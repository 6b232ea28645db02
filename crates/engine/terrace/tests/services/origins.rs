//! Services as origins: their files are shown, read once, and read again where they have changed.

use std::path::Path;
use std::time::Duration;

use terrace::tier::{Blobs, NamedBlobs};
use terrace::{Error, Kind, Store};
use terrace_testkit::{Moto, noise, skip};

use crate::common::tier;
use crate::servers::Server;
use crate::store_of;

fn names(store: &Store) -> Vec<String> {
    let listed = store.list(b"o", None, usize::MAX).unwrap();
    let files = listed.into_iter().filter(|(_, object)| object.attributes.kind == Kind::File);
    files.map(|(key, _)| String::from_utf8(key).unwrap()).collect()
}

pub fn files_of_a_service_are_read_through_a_store(dir: &Path, server: &mut dyn Server, target: &str) {
    let service = server.service(target);
    // Redis cannot list.
    if server.name() == "redis" {
        return;
    }
    let blobs = Blobs::new(&service).unwrap();
    let long = noise(9_000_001, 1);
    for (name, bytes) in [("a/long", long.clone()), ("a/b/short", b"short".to_vec()), ("top", b"t".to_vec())] {
        blobs.replace(name, bytes).unwrap();
    }
    let store = store_of(dir, &[tier(dir, "disk", &["disk"], "")]);
    let bucket = service.options.get("bucket").cloned().unwrap_or_default();
    let url = format!("{}://{bucket}{}", server.name(), server.root(target));
    let mut options = service.options.clone();
    options.remove("bucket");
    store.add_origin("o", &url, options.clone(), Some(Duration::ZERO)).unwrap();
    assert_eq!(names(&store), ["o/a/b/short", "o/a/long", "o/top"]);
    assert_eq!(store.stat(b"o/a/long").unwrap().length, long.len() as u64);
    assert_eq!(store.stat(b"o/a/b").unwrap().attributes.kind, Kind::Directory);
    assert!(matches!(store.stat(b"o/none"), Err(Error::NotFound { .. })));
    let mut part = [0; 1000];
    store.read_at(b"o/a/long", 5_000_000, &mut part).unwrap();
    assert_eq!(part, long[5_000_000..5_001_000]);
    assert_eq!(store.origins().unwrap()[0].cached, 64 << 10);
    assert!(store.get(b"o/a/long").unwrap() == long);
    assert_eq!(store.get(b"o/a/b/short").unwrap(), b"short");
    // A changed blob is another object.
    let handle = store.handle(b"o/a/long").unwrap();
    let top = store.handle(b"o/top").unwrap();
    let new = noise(4_000_000, 2);
    blobs.replace("a/long", new.clone()).unwrap();
    blobs.replace("top", b"changed".to_vec()).unwrap();
    assert!(matches!(top.read_at(0, &mut part), Err(Error::ChangedAtOrigin { .. })));
    handle.read_at(1_000_000, &mut part).unwrap();
    assert_eq!(part, long[1_000_000..1_001_000], "it is stored");
    assert!(store.get(b"o/a/long").unwrap() == new);
    assert_eq!(store.get(b"o/top").unwrap(), b"changed");
    blobs.replace("new/file", b"n".to_vec()).unwrap();
    blobs.delete_below("a/b/").unwrap();
    assert_eq!(names(&store), ["o/a/long", "o/new/file", "o/top"]);
    // Without the server, what is stored is served, and the rest is an error that names it.
    blobs.replace("unread", b"u".to_vec()).unwrap();
    assert_eq!(names(&store).len(), 4);
    server.kill();
    assert!(store.get(b"o/a/long").unwrap() == new);
    let error = store.get(b"o/unread").unwrap_err();
    assert!(matches!(&error, Error::Origin { .. }) && error.to_string().contains(&url), "{error}");
    assert_eq!(names(&store).len(), 4);
    server.start_again();
    terrace_testkit::wait_until("the server answers", || store.get(b"o/unread").is_ok_and(|bytes| bytes == b"u"));
    // Nothing was written there.
    let mut there = blobs.list("/").unwrap();
    there.retain(|name| !name.ends_with('/'));
    assert_eq!(there, ["a/long", "new/file", "top", "unread"]);
}

/// The answer with the bytes has a condition, so nobody asks for the version after it.
#[test]
fn a_small_file_of_a_bucket_costs_two_requests() {
    let moto = match Moto::start() {
        Ok(moto) => moto,
        Err(missing) => return skip("a_small_file_of_a_bucket_costs_two_requests", &missing),
    };
    moto.put("f/alone", b"alone");
    moto.put("f/listed", b"listed");
    let folder = tempfile::tempdir().unwrap();
    let store = store_of(folder.path(), &[tier(folder.path(), "disk", &["disk"], "")]);
    let mut options = Server::options(&moto);
    let bucket = options.remove("bucket").unwrap();
    store.add_origin("o", &format!("s3://{bucket}"), options, None).unwrap();
    assert_eq!(store.get(b"o/f/alone").unwrap(), b"alone");
    assert_eq!(moto.methods("f/alone"), ["PUT", "HEAD", "GET"]);
    // A listing tells the version, too.
    assert_eq!(names(&store), ["o/f/alone", "o/f/listed"]);
    assert_eq!(store.get(b"o/f/listed").unwrap(), b"listed");
    assert_eq!(moto.methods("f/listed"), ["PUT", "GET"]);
    assert_eq!(store.get(b"o/f/alone").unwrap(), b"alone");
    assert_eq!(moto.methods("f/alone").len(), 3);
}
