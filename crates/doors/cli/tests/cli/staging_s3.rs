//! `terrace job start` and `end` with a real server of S3.

use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use terrace_testkit::{Moto, skip, wait_until};

use crate::place::{Place, Ran, noise, ran};

/// An object that is sent in several parts, and that a slow store needs some seconds to read.
const BIG_BYTES: usize = 24_000_000;

/// A bucket.
struct Bucket(Moto);

impl Bucket {
    /// None, with a counted skip, where there is no server.
    fn start(test: &str) -> Option<Bucket> {
        Moto::start().map(Bucket).map_err(|missing| skip(test, &missing)).ok()
    }

    /// The arguments of a command of `terrace job` that uses a folder in the bucket.
    fn job(&self, command: &[&str], folder: &str) -> Vec<String> {
        let mut arguments: Vec<String> = ["job"].iter().chain(command).map(ToString::to_string).collect();
        arguments.push(format!("s3://{}/{folder}", Moto::BUCKET_NAME));
        for (name, value) in self.0.options() {
            arguments.extend(["--option".to_owned(), format!("{name}={value}")]);
        }
        arguments
    }

    /// Starts the end of a job that sends `a`, then something big, then `c`. Returns once the first of them is there.
    fn end_in_progress(&self, place: &Place) -> Child {
        let arguments = self.job(&["end", "--save", "list", "--report", "end.json", "--to"], "results");
        let child = place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("the first object is there", || self.0.get("results/a").is_some());
        child
    }
}

/// A store that needs seconds to read the big object.
fn slow() -> Place {
    let place = Place::with("throttle = { read = '6MB/s' }", "throttle = { read = '6MB/s' }");
    place.write("made/a", "a");
    place.write("made/big", noise(BIG_BYTES, 1));
    place.write("made/c", "c");
    place.good(["put", "made", ""]);
    place.write("list", "a\nbig\nc\n");
    place
}

/// Keys and outcomes.
fn outcomes(report: &Value) -> Vec<(&str, &str)> {
    let objects = report["objects"].as_array().unwrap().iter();
    objects.map(|object| (object["key"].as_str().unwrap(), object["outcome"].as_str().unwrap())).collect()
}

fn report(place: &Place) -> Value {
    serde_json::from_slice(&place.read("end.json")).unwrap()
}

#[test]
fn a_bucket_is_an_origin_and_a_destination() {
    let Some(bucket) = Bucket::start("an origin in a bucket") else { return };
    let place = Place::new();
    bucket.0.put("origin/mesh/a", &noise(20_000_000, 1));
    bucket.0.put("origin/b c", b"b");
    bucket.0.put("origin/not listed", b"x");
    place.write("list", "mesh\nb c\n");
    let start = bucket.job(&["start", "--stage", "list", "--origin"], "origin");
    assert_eq!(place.json(&start), (json!({"staged": 2, "unchanged": 0, "failed": 0, "bytes": 20_000_001}), 0));
    assert_eq!(place.json(&start).0["unchanged"], json!(2));
    place.good(["get", "mesh/a", "got"]);
    assert!(place.read("got") == noise(20_000_000, 1));
    place.write("made/large", noise(BIG_BYTES, 2));
    place.write("made/empty", "");
    place.good(["put", "made", "out"]);
    let end = bucket.job(&["end", "--to"], "results");
    let (all, code) = place.json(&end);
    assert_eq!((outcomes(&all), code), (vec![("out/large", "copied"), ("out/empty", "copied")], 0), "{all}");
    assert!(bucket.0.get("results/out/large").unwrap() == noise(BIG_BYTES, 2));
    assert_eq!(bucket.0.get("results/out/empty").unwrap(), b"");
    let (again, code) = place.json(&end);
    assert_eq!((&again["present"], code), (&json!(2), 0), "{again}");
    // A byte is wrong at the destination, which only its bytes tell.
    let mut bytes = noise(BIG_BYTES, 2);
    bytes[15_000_000] ^= 1;
    bucket.0.put("results/out/large", &bytes);
    let (mended, code) = place.json(&end);
    assert_eq!((&mended["copied"], &mended["present"], code), (&json!(1), &json!(1), 0), "{mended}");
    assert!(bucket.0.get("results/out/large").unwrap() == noise(BIG_BYTES, 2));
    let list = bucket.0.list();
    let names = list.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>").map(|(name, _)| name));
    let made: Vec<&str> = names.filter(|name| name.starts_with("results/")).collect();
    assert_eq!(made, ["results/out/empty", "results/out/large"], "no blob for a folder, and no part, is left");
    // A bucket has no folders, and no links.
    std::os::unix::fs::symlink("large", place.path("made/link")).unwrap();
    place.good(["put", "made", "out"]);
    let (link, code) = place.json(&end);
    assert_eq!((&link["failed"], &link["present"], code), (&json!(1), &json!(2), 1), "{link}");
}

#[test]
fn an_end_that_is_killed_leaves_whole_blobs() {
    let Some(bucket) = Bucket::start("a killed end to a bucket") else { return };
    let place = slow();
    let end = bucket.end_in_progress(&place);
    kill_process(Pid::from_child(&end), Signal::KILL).unwrap();
    assert_eq!(ran(end.wait_with_output().unwrap()).code, -1);
    assert_eq!(report(&place)["safe"], json!(false), "it says so from the beginning");
    assert!(bucket.0.get("results/big").is_none(), "a blob appears once it is whole");
    let (again, code) = place.json(bucket.job(&["end", "--save", "list", "--to"], "results"));
    assert_eq!((&again["safe"], code), (&json!(true), 0), "{again}");
    assert!(bucket.0.get("results/big").unwrap() == noise(BIG_BYTES, 1));
    assert_eq!(bucket.0.get("results/c").unwrap(), b"c");
}

#[test]
fn a_server_that_fails_in_the_middle_leaves_the_rest_to_the_next_end() {
    let Some(bucket) = Bucket::start("a failing server of results") else { return };
    let place = slow();
    let end = bucket.end_in_progress(&place);
    bucket.0.cut_off();
    let Ran { code, err, .. } = ran(end.wait_with_output().unwrap());
    assert_eq!(code, 1, "{err}");
    let lacking = report(&place);
    let big = outcomes(&lacking).into_iter().find(|(key, _)| *key == "big");
    assert_eq!((big, &lacking["safe"]), (Some(("big", "failed")), &json!(false)), "{lacking}");
    assert!(err.contains("big: "), "{err}");
    assert!(bucket.0.get("results/big").is_none());
    bucket.0.connect();
    let (again, code) = place.json(bucket.job(&["end", "--save", "list", "--to"], "results"));
    assert_eq!((&again["safe"], code), (&json!(true), 0), "{again}");
    assert!(bucket.0.get("results/big").unwrap() == noise(BIG_BYTES, 1));
}

#[test]
fn a_server_that_fails_in_the_middle_leaves_the_rest_to_the_next_start() {
    let Some(bucket) = Bucket::start("a failing server of inputs") else { return };
    let place = Place::with("throttle = { write = '6MB/s' }", "throttle = { write = '6MB/s' }");
    bucket.0.put("origin/a", b"a");
    bucket.0.put("origin/big", &noise(BIG_BYTES, 1));
    place.write("list", "a\nbig\n");
    let start = bucket.job(&["start", "--stage", "list", "--origin"], "origin");
    let child = place.command(&start).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the first input is there", || place.keys("") == ["a"]);
    bucket.0.cut_off();
    let Ran { code, err, .. } = ran(child.wait_with_output().unwrap());
    assert!(code == 1 && err.contains("staging big: "), "{err}");
    assert_eq!(place.keys(""), ["a"], "an object is whole or not there");
    bucket.0.connect();
    assert_eq!(place.json(&start), (json!({"staged": 1, "unchanged": 1, "failed": 0, "bytes": BIG_BYTES}), 0));
    place.good(["get", "big", "got"]);
    assert!(place.read("got") == noise(BIG_BYTES, 1));
}
