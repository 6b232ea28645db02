//! Files of real programs: those in the directory that TERRACE_DATA names.

use std::fs;
use std::path::Path;

use terrace_testkit::real_files;

use crate::place::Place;

/// The differences that `diff -r` would find.
fn compare(a: &Path, b: &Path) {
    let names = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(a), names(b), "{}", a.display());
    for name in names(a) {
        let (a, b) = (a.join(&name), b.join(&name));
        let kind = fs::symlink_metadata(&a).unwrap().file_type();
        assert_eq!(kind, fs::symlink_metadata(&b).unwrap().file_type(), "{}", a.display());
        if kind.is_dir() {
            compare(&a, &b);
        } else if kind.is_symlink() {
            assert_eq!(fs::read_link(&a).unwrap(), fs::read_link(&b).unwrap());
        } else {
            assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap(), "{}", a.display());
        }
    }
}

#[test]
fn real_files_come_back_as_they_were() {
    let Some(data) = real_files("real_files_come_back_as_they_were") else { return };
    let place = Place::new();
    let data = fs::canonicalize(data).unwrap();
    let source = data.to_str().unwrap();
    place.good(["put", source, "real"]);
    place.good(["check", source, "real"]);
    place.good(["get", "real", "out"]);
    compare(&data, &place.path("out"));
    assert_eq!(place.json(["put", source, "real"]).0["written"], 0);
    assert_eq!(place.run(["scrub"]).code, 0);
}
