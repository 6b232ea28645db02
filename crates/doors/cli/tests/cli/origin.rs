//! `terrace origin`: files that lie elsewhere.

use std::fs;

use crate::place::{Place, noise};

#[test]
fn files_of_a_directory_are_shown_read_and_forgotten() {
    let place = Place::new();
    let bytes = noise(2_000_000, 1);
    place.write("far/a/b", &bytes);
    place.write("far/c", "c");
    let far = place.path("far").display().to_string();
    assert_eq!(place.good(["origin", "ls"]), "no origins; `terrace origin add` makes one\n");
    place.good(["origin", "add", "data/far", "far", "--max-age", "0s"]);
    assert_eq!(
        place.keys("data/far").iter().filter(|key| !key.ends_with("/a") && !key.ends_with("/far")).collect::<Vec<_>>(),
        ["data/far/a/b", "data/far/c"]
    );
    assert_eq!(place.good(["cat", "data/far/c"]), "c");
    place.good(["get", "data/far", "copy"]);
    assert!(place.read("copy/a/b") == bytes);
    assert_eq!(place.read("copy/c"), b"c");
    let (listed, _) = place.json(["origin", "ls"]);
    assert_eq!((listed[0]["prefix"].as_str(), listed[0]["url"].as_str()), (Some("data/far"), Some(far.as_str())));
    assert_eq!((listed[0]["files"].as_u64(), listed[0]["cached"].as_u64()), (Some(2), Some(2_000_001)));
    assert!(place.good(["origin", "ls"]).contains(&far));
    // The copy is an own one, also where it comes back.
    place.good(["put", "copy", "mine"]);
    place.good(["rm", "mine/c"]);
    for refused in [
        vec!["put", "far/c", "data/far/new"],
        vec!["rm", "data/far/c"],
        vec!["mv", "data/far/c", "elsewhere"],
        vec!["cp", "mine/a/b", "data/far/c"],
        vec!["rm", "-r", "data/far"],
    ] {
        place.bad(refused, &["data/far", "read-only"]);
    }
    place.write("far/d", "new");
    assert_eq!(place.good(["cat", "data/far/d"]), "new");
    fs::remove_file(place.path("far/c")).unwrap();
    place.bad(["cat", "data/far/c"], &["no object has the key"]);
    place.good(["scrub"]);
    place.good(["evict", "data/far", "--tier", "ram"]);
    place.good(["evict", "data/far", "--tier", "disk"]);
    assert_eq!(place.json(["origin", "ls"]).0[0]["cached"].as_u64(), Some(0));
    assert_eq!(place.good(["cat", "data/far/d"]), "new");
    assert!(place.good(["origin", "rm", "data/far"]).starts_with("data/far removed"));
    assert!(place.keys("data/far").is_empty());
    assert!(place.read("far/a/b") == bytes);
}

#[test]
fn stored_bytes_of_an_origin_are_encoded_located_and_explained() {
    let place = Place::new();
    let config = String::from_utf8(place.read("store/terrace.toml")).unwrap();
    place.write("store/terrace.toml", config + "\n[[rule]]\nprefix = \"data\"\nrequirements = [\"min_storage\"]\n");
    place.write("far/a", (0..200_000).map(|number| format!("{number}\n")).collect::<String>());
    place.good(["origin", "add", "data", "far"]);
    assert_eq!(place.json(["locate", "data/a"]).0["extents"].as_array().unwrap().len(), 0);
    place.good(["cat", "data/a"]);
    let (listed, _) = place.json(["origin", "ls"]);
    let [cached, stored] = ["cached", "stored"].map(|name| listed[0][name].as_u64().unwrap());
    assert!(cached > 1_000_000 && stored < cached / 2, "{stored} bytes for {cached}");
    let (located, _) = place.json(["locate", "data/a"]);
    let extents = located["extents"].as_array().unwrap();
    assert!(extents.iter().all(|extent| extent["replicas"][0]["encoding"] != "none"), "{located}");
    assert!(place.good(["explain", "data/a"]).contains("1 of 1 replicas"));
    assert!(place.good(["hot", "data/a"]).contains("data/a"));
}

#[test]
fn what_cannot_be_an_origin_is_refused_with_its_reason() {
    let place = Place::new();
    place.write("far/a", "a");
    place.write("file", "x");
    place.good(["put", "file", "taken/x"]);
    place.bad(["origin", "add", "data", "missing"], &["missing"]);
    place.bad(["origin", "add", "data", "file"], &["file"]);
    place.bad(["origin", "add", "taken", "far"], &["objects there already"]);
    place.bad(["origin", "add", "data", "far", "--option", "region"], &["name=value"]);
    place.bad(["origin", "add", "data", "tape://x"], &["tape"]);
    let with_password = ["origin", "add", "data", "https://me:secret@host/"];
    place.bad(with_password, &["options"]);
    assert!(!place.run(with_password).err.contains("secret"));
    place.bad(["origin", "add", "data", "store"], &["own files"]);
    place.bad(["origin", "rm", "data"], &["there is none"]);
    place.good(["origin", "add", "data", "far"]);
    place.bad(["origin", "add", "data/below", "far"], &["another origin"]);
    place.bad(["origin", "rm", "dat"], &["there are data"]);
}

#[test]
fn secrets_of_an_origin_are_in_no_output() {
    let place = Place::new();
    let mut command =
        place.command(["origin", "add", "data", "s3://bucket/x", "--option", "secret_access_key=hidden-key"]);
    let output = command.args(["--option", "endpoint=http://127.0.0.1:9"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && !said.contains("hidden-key"), "{said}");
}
