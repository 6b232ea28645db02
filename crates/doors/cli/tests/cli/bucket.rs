//! A bucket of a server of S3 (moto) outlives its node.

use std::fs;
use std::process::Command;

use serde_json::json;
use terrace_testkit::{Moto, skip};

use super::place::{Place, noise};

#[test]
fn a_store_is_made_again_from_a_bucket() {
    let server = match Moto::start() {
        Ok(server) => server,
        Err(missing) => return skip("rebuild --from a bucket", &missing),
    };
    let place = Place::empty();
    let options: Vec<String> =
        server.options().into_iter().map(|(name, value)| format!("{name} = '{value}'")).collect();
    let disk = place.path("disk").display().to_string();
    let config = format!(
        "[store]\nreplicas = {{ default = 2 }}\n\
         [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{disk}']\n\
         [[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 's3'\ntargets = ['/lost']\n\
         options = {{ bucket = '{}', {} }}\n",
        Moto::BUCKET_NAME,
        options.join(", ")
    );
    place.write("terrace.toml", config);
    place.good(["init", "--config", "terrace.toml"]);
    (0..3).for_each(|seed| drop(place.write(format!("runs/{seed}"), noise(300_000, seed))));
    place.good(["put", "runs", "runs", "-q"]);
    place.write("scratch", noise(100_000, 7));
    place.good(["put", "scratch", "scratch", "--replicas", "1", "-q"]);
    place.good(["sync", "-q"]);

    let rebuild = |bucket: &str, more: &[&str]| {
        let from = ["rebuild".to_owned(), "--from".to_owned(), format!("s3://{}/{bucket}", Moto::BUCKET_NAME)];
        let more = more.iter().map(|&flag| flag.to_owned());
        from.into_iter().chain(server.option_flags()).chain(more).collect::<Vec<String>>()
    };
    let lose = || {
        fs::remove_dir_all(place.path("store")).unwrap();
        // The second store has no directory here.
        let _ = fs::remove_dir_all(place.path("disk"));
    };
    lose();
    place.bad(rebuild("other", &[]), &["no store has a target there"]);
    place.bad(rebuild("lost", &[]), &["may still be in use", "repeat this with --force"]);
    let made = place.run(rebuild("lost", &["--force"]));
    assert!(made.code == 1 && made.err.contains("an empty target in"), "{}{}", made.out, made.err);
    assert!(made.out.contains("4 objects, 1 of them with lost bytes"), "{}", made.out);
    assert!(made.out.contains("no good replica is left of bytes of scratch"), "{}", made.out);
    place.good(["rm", "scratch", "-q"]);
    place.write("new", noise(200_000, 8));
    place.good(["put", "new", "runs/new", "-q"]);
    place.good(["sync", "-q"]);

    // A store that was made from a bucket can be lost again, and then lacks nothing.
    lose();
    let (made, code) = place.json(rebuild("lost", &["--force"]));
    assert_eq!((&made["objects"], &made["lost"], code), (&json!(4), &json!([]), 0), "{made}");
    place.good(["get", "runs", "again", "-q"]);
    for seed in 0..3 {
        assert!(place.read(format!("again/{seed}")) == noise(300_000, seed));
    }
    assert!(place.read("again/new") == noise(200_000, 8));
    assert_eq!(place.json(["scrub"]).0["lost"], json!(0));
}

/// A store with a tier `disk` and a tier `bucket`, which is a folder of the service `fs`.
fn place_with_folder_as_bucket() -> Place {
    let place = Place::empty();
    let at = place.path("").display().to_string();
    fs::create_dir(place.path("bucket")).unwrap();
    place.write(
        "terrace.toml",
        format!(
            "[store]\nreplicas = {{ default = 2 }}\n\
             [[tier]]\nname = 'disk'\nkind = 'directory'\ntargets = ['{at}disk']\n\
             [[tier]]\nname = 'bucket'\nkind = 'object'\nservice = 'fs'\ntargets = ['{at}bucket']\n"
        ),
    );
    place.good(["init", "--config", "terrace.toml"]);
    place
}

/// It warned that bytes of objects are lost, said "nothing is missing", and exited with 0.
#[test]
fn a_rebuild_names_what_a_restored_disk_has_lost() {
    let place = place_with_folder_as_bucket();
    place.write("a", noise(300_000, 1));
    place.good(["put", "a", "a", "-q"]);
    place.good(["sync", "-q"]);
    let copy = |from: &str, to: &str| {
        let (from, to) = (place.path(from), place.path(to));
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    copy("store", "older-store");
    copy("disk", "older-disk");
    let only_on_disk = ["--replicas", "1", "--constraint", "tiers=disk"];
    place.good([&["put", "a", "only", "-q"][..], &only_on_disk].concat());
    place.good(["put", "a", "both", "-q"]);
    place.good(["sync", "-q"]);
    for folder in ["store", "disk"] {
        fs::remove_dir_all(place.path(folder)).unwrap();
        copy(&format!("older-{folder}"), folder);
    }
    let rebuilt = place.run(["rebuild"]);
    assert_eq!(rebuilt.code, 1, "{}{}", rebuilt.out, rebuilt.err);
    assert!(rebuilt.out.contains("3 objects, 1 of them with lost bytes"), "{}", rebuilt.out);
    assert!(rebuilt.out.contains("no good replica is left of bytes of only"), "{}", rebuilt.out);
    assert!(
        rebuilt.err.contains("no commit is missing") && !rebuilt.err.contains("nothing is missing"),
        "{}",
        rebuilt.err
    );
    assert_eq!(place.json(["rebuild"]), (json!({ "objects": 3, "lost": ["only"] }), 1));
    let (salvaged, code) = place.json(["rebuild", "--salvage"]);
    assert_eq!((&salvaged["lost"], &salvaged["log_was_damaged"], code), (&json!(["only"]), &json!(false), 1));
    place.good(["rm", "only", "-q"]);
    assert_eq!(place.json(["rebuild"]), (json!({ "objects": 2, "lost": [] }), 0));
    place.good(["check", "a", "both"]);
}

/// With the disk still there, the log was called damaged. The folder of a mistyped bucket was made.
#[test]
fn a_rebuild_from_a_bucket_goes_on_with_a_newer_disk() {
    let place = place_with_folder_as_bucket();
    place.write("a", noise(300_000, 1));
    place.good(["put", "a", "a", "-q"]);
    place.good(["sync", "-q"]);
    place.good(["put", "a", "later", "-q"]);
    fs::remove_dir_all(place.path("store")).unwrap();
    let from = |folder: &str| format!("fs://{}", place.path(folder).display());
    place.bad(["rebuild", "--from", &from("mistyped")], &["no store has a target there"]);
    assert!(!place.path("mistyped").exists());
    let made = place.run(["rebuild", "--from", &from("bucket"), "--force"]);
    assert!(made.code == 0 && made.out.contains("2 objects, 0 of them with lost bytes"), "{}{}", made.out, made.err);
    assert!(!made.err.contains("damaged") && made.err.contains("if a disk has a newer copy"), "{}", made.err);
    place.good(["check", "a", "later"]);
}
