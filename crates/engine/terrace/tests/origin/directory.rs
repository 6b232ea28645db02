//! A store shows a directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

use terrace::catalog::NameListing;
use terrace::files::Files;
use terrace::key::{KeyRule, KeySpace};
use terrace::{Error, Kind, PutOptions};
use terrace_testkit::{noise, wait_until};

use super::{AT_ONCE, Place};

#[test]
fn files_are_listed_and_read_and_nothing_is_copied_before_it_is_read() {
    let place = Place::new(AT_ONCE);
    let long = noise(3_000_001, 1);
    place.write("long", &long);
    place.write("a/b/c.txt", b"deep");
    place.write("a/empty", b"");
    place.write("a-b", b"between a and a/");
    fs::create_dir(place.origin().join("nothing")).unwrap();
    fs::set_permissions(place.origin().join("a-b"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(place.names(), ["a-b", "a/b/c.txt", "a/empty", "long"]);
    assert_eq!(place.cached(), 0);
    let stat = place.store.stat(b"data/o/long").unwrap();
    assert_eq!((stat.length, stat.attributes.kind), (3_000_001, Kind::File));
    assert_eq!(place.store.stat(b"data/o/a-b").unwrap().attributes.mode, 0o640);
    assert_eq!(place.store.stat(b"data/o/nothing").unwrap().attributes.kind, Kind::Directory);
    assert!(place.get("long").unwrap() == long);
    assert_eq!(place.cached(), long.len() as u64);
    assert_eq!(place.get("a/b/c.txt").unwrap(), b"deep");
    assert_eq!(place.get("a/empty").unwrap(), b"");
    let status = &place.store.origins().unwrap()[0];
    assert_eq!((status.files, status.bytes, status.left_out), (4, 3_000_001 + 4 + 16, 0));
    assert_eq!(status.cached, 3_000_001 + 4);
    // A short read here and there fetches little.
    place.write("another", &noise(9 << 20, 2));
    let before = place.cached();
    let mut part = [0; 100];
    place.store.read_at(b"data/o/another", 5_000_000, &mut part).unwrap();
    assert_eq!(part, noise(9 << 20, 2)[5_000_000..5_000_100]);
    assert_eq!(place.cached() - before, 64 << 10);
    let scrubbed = place.store.scrub(b"", false, None, |_| {}).unwrap();
    assert_eq!((scrubbed.bad, scrubbed.lost, scrubbed.one_copy), (0, 0, 0));
}

/// The kernel sets a file's times when a write begins: what was read of it meanwhile stayed in the store for ever.
#[test]
#[allow(unsafe_code)]
fn what_was_read_of_a_file_that_was_being_written_is_read_again() {
    let place = Place::with_files(&[("f", &[1; 100_000])]);
    let file = File::options().read(true).write(true).open(place.origin().join("f")).unwrap();
    // SAFETY: nobody makes the file shorter.
    let mut mapped = unsafe { memmap2::MmapMut::map_mut(&file) }.unwrap();
    // From now on, the kernel does not notice changes of this page, as it does not within a write.
    mapped[0] = 2;
    assert_eq!(place.get("f").unwrap()[0], 2);
    mapped[0] = 3;
    wait_until("the file is not a recent one", || place.get("f").unwrap()[0] == 3);
    assert_eq!(place.cached(), 100_000);
    place.write("f", b"newer");
    assert_eq!(place.get("f").unwrap()[0], 3, "it is cached, and was looked for a short time ago");
}

#[test]
fn all_ways_to_read_get_the_same_bytes() {
    let place = Place::new(AT_ONCE);
    let (key, bytes) = (b"data/o/d/f".as_slice(), noise(2_500_000, 3));
    place.write("d/f", &bytes);
    let handle = place.store.handle(key).unwrap();
    let mut part = vec![0; 70_000];
    assert_eq!(handle.read_at(2_450_000, &mut part).unwrap(), 50_000);
    assert!(part[..50_000] == bytes[2_450_000..]);
    let files = Files::new(&place.store).unwrap();
    let file = files.open(key).unwrap();
    assert_eq!(file.read_at(1_000_000, &mut part).unwrap(), 70_000);
    assert!(part == bytes[1_000_000..1_070_000]);
    assert_eq!(file.next_data(10).unwrap(), Some(10));
    assert_eq!(file.next_hole(10).unwrap(), Some(2_500_000));
    assert_eq!(files.stat(b"data/o/d").unwrap().kind, Kind::Directory);
    let (entries, _) = files.list(b"data/o", b"", 100).unwrap();
    assert_eq!(entries.iter().map(|entry| entry.name.as_slice()).collect::<Vec<_>>(), [b"d"]);
    let mut out = Vec::new();
    place.store.get_to(key, 0, None, &mut out).unwrap();
    assert!(out == bytes);
    out.clear();
    place.store.get_to(key, 123_456, Some(2_000_000), &mut out).unwrap();
    assert!(out == bytes[123_456..2_000_000]);
    // A copy outside of the prefix is an object of its own.
    place.store.copy(key, b"mine").unwrap();
    assert!(place.store.get(b"mine").unwrap() == bytes);
    place.store.write_at(b"mine", 0, b"x", &PutOptions::default()).unwrap();
    let mut rest = vec![0; 2_500_000];
    handle.read_at(0, &mut rest).unwrap();
    fs::remove_file(place.origin().join("d/f")).unwrap();
    assert!(place.store.get(b"mine").unwrap()[1..] == bytes[1..]);
    assert!(matches!(place.store.get(key), Err(Error::NotFound { .. })));
    rest.fill(0);
    handle.read_at(0, &mut rest).unwrap();
    assert!(rest == bytes, "what was cached stays readable");
}

#[test]
fn odd_names_are_shown_and_special_files_are_not() {
    let place = Place::new(AT_ONCE);
    let names: [&[u8]; 7] = [b" ", b"a b\nc", b"\xff\xfe", b"%2F", b"...", b"-", "ü".as_bytes()];
    for name in names {
        fs::write(place.origin().join(OsStr::from_bytes(name)), name).unwrap();
    }
    rustix::fs::mknodat(
        rustix::fs::CWD,
        place.origin().join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    symlink("../outside", place.origin().join("link")).unwrap();
    fs::create_dir(place.dir().join("outside")).unwrap();
    fs::write(place.dir().join("outside/secret"), "secret").unwrap();
    for name in names {
        assert_eq!(place.store.get(&[b"data/o/", name].concat()).unwrap(), name);
    }
    assert_eq!(place.names().len(), names.len() + 1);
    // A link is shown, and not followed.
    assert_eq!(place.store.stat(b"data/o/link").unwrap().attributes.kind, Kind::Symlink);
    assert_eq!(place.get("link").unwrap(), b"../outside");
    assert!(matches!(place.get("link/secret"), Err(Error::NotFound { .. })));
    assert!(matches!(place.get("pipe"), Err(Error::NotFound { .. })));
}

#[test]
fn sparse_files_have_their_zeros() {
    let place = Place::new(AT_ONCE);
    let file = File::create(place.origin().join("sparse")).unwrap();
    file.write_all_at(b"begin", 0).unwrap();
    file.write_all_at(b"end", 20_000_000).unwrap();
    let mut bytes = vec![0; 20_000_003];
    bytes[..5].copy_from_slice(b"begin");
    bytes[20_000_000..].copy_from_slice(b"end");
    assert!(place.get("sparse").unwrap() == bytes);
    assert!(place.get("sparse").unwrap() == bytes);
}

#[test]
fn key_spaces_list_the_names_of_an_origin() {
    let place = Place::new(AT_ONCE);
    for name in ["a/1", "a/2", "a-x", "b.y", "b/c/3", "z"] {
        place.write(name, name.as_bytes());
    }
    let space = KeySpace::new(b"data", KeyRule::Paths).unwrap();
    let list = |prefix: &str, delimiter: &str, limit: usize| {
        let (mut found, mut after): (Vec<String>, Option<Vec<u8>>) = (Vec::new(), None);
        loop {
            let (prefix, delimiter) = (prefix.as_bytes(), delimiter.as_bytes());
            let listing = NameListing { prefix, delimiter, after: after.as_deref(), limit };
            let page = place.store.list_names(&space, &listing).unwrap();
            let names = page.names.into_iter().map(|(name, _)| name).chain(page.common_prefixes);
            let mut names: Vec<String> = names.map(|name| String::from_utf8(name).unwrap()).collect();
            names.sort();
            found.append(&mut names);
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    };
    for limit in [1, 2, 3, 100] {
        assert_eq!(list("o/", "/", limit), ["o/a-x", "o/a/", "o/b.y", "o/b/", "o/z"], "{limit}");
        assert_eq!(list("", "/", limit), ["o/"]);
        assert_eq!(list("o/b", "/", limit), ["o/b.y", "o/b/"]);
        assert_eq!(list("o/b/", "/", limit), ["o/b/c/"]);
        assert_eq!(list("", "", limit), ["o/a-x", "o/a/1", "o/a/2", "o/b.y", "o/b/c/3", "o/z"]);
        assert_eq!(list("o/b", "", limit), ["o/b.y", "o/b/c/3"]);
    }
    assert_eq!(place.store.stat_name(&space, b"o/b/c/3").unwrap().length, 5);
}

#[test]
fn pages_of_a_long_listing_have_each_name_once() {
    let place = Place::new(AT_ONCE);
    let mut names: Vec<String> = (0..900).map(|n| format!("f{n:04}")).collect();
    names.extend((0..40).flat_map(|folder| (0..5).map(move |n| format!("g{folder:02}/{n}"))));
    names.iter().for_each(|name| place.write(name, b"x"));
    assert_eq!(place.names(), names);
    let (mut found, mut after): (Vec<String>, Option<Vec<u8>>) = (Vec::new(), None);
    loop {
        let page = place.store.list(b"data/o", after.as_deref(), 37).unwrap();
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        let files = page.into_iter().filter(|(_, object)| object.attributes.kind == Kind::File);
        found.extend(files.map(|(key, _)| String::from_utf8(key).unwrap()["data/o/".len()..].to_owned()));
    }
    assert_eq!(found, names);
}
