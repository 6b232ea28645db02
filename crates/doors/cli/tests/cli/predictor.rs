//! Lessons about encodings, and measurements of this machine.

use std::fs;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::place::{Place, noise, ran};

/// A store whose tiers are slow enough for encodings to be worth it, and a file of text in it.
fn learned() -> Place {
    let throttle = "throttle = { read = '40MB/s', write = '20MB/s' }";
    let place = Place::with(throttle, throttle);
    let text: String = (0..400_000u32).map(|n| format!("{},{}\n", n / 7, n % 13)).collect();
    place.write("a.csv", text);
    place.good(["put", "a.csv", "d/"]);
    place
}

#[test]
fn predictions_are_shown_beside_what_came() {
    let place = learned();
    let (report, _) = place.json(["predictor"]);
    let encodings = report["encodings"].as_array().unwrap();
    assert_eq!(
        encodings.iter().map(|row| row["chosen"].as_u64().unwrap()).sum::<u64>(),
        report["blocks"].as_u64().unwrap()
    );
    let coded = encodings.iter().find(|row| row["encoding"] != "none").expect("an encoding was worth it");
    assert!(coded["ratio"]["realised"].as_f64().unwrap() > 1.5 && coded["encode"]["predicted"].as_f64().unwrap() > 0.0);
    assert!(place.good(["predictor"]).contains("as predicted -> as it came"));
    assert!(report["spent"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_store_without_choices_and_no_store_say_so() {
    let place = Place::new();
    assert!(place.good(["predictor"]).contains("nothing was chosen yet"));
    let ran = Place::empty().run(["predictor"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("no store is in"), "{}", ran.err);
}

#[test]
fn a_profile_goes_into_the_store_or_a_file_and_from_there_into_another_store() {
    let place = learned();
    place.write("files/noise", noise(300_000, 3));
    let (profiled, _) = place.json(["profile", "--seconds", "0.2", "--data", "files"]);
    assert!(profiled["blocks"].as_u64() >= Some(1));
    for tier in ["ram", "disk"] {
        let rate = profiled["tiers"][tier]["write"].as_f64().unwrap();
        assert!(rate > 0.0 && rate <= 20e6, "{tier} is throttled to 20 MB/s, and was found to write {rate}");
    }
    let (report, _) = place.json(["predictor"]);
    assert!(report["blocks"].as_u64() > Some(0), "what was learned before is kept");
    place.good(["profile", "--seconds", "0.1", "--config", "terrace.toml", "--out", "seed.json"]);
    let other = Place::new();
    other.write("seed.json", place.read("seed.json"));
    other.good(["predictor", "--take", "seed.json"]);
    other.write("a", b"stored all the same");
    other.good(["put", "a", "a"]);
    other.write("seed.json", b"{}");
    let ran = other.run(["predictor", "--take", "seed.json"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("seed.json"), "{}", ran.err);
}

#[test]
fn a_profile_that_is_stopped_leaves_nothing() {
    let place = Place::new();
    let mut child =
        place.command(["profile", "--out", "seed.json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it takes seconds");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran = ran(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{}", ran.err);
    assert!(!place.path("seed.json").exists());
    let left = |folder: &str| {
        fs::read_dir(place.path(folder))
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".terrace"))
            .count()
    };
    assert_eq!((left(""), left("tiers"), left("tiers/ram")), (0, 0, 0));
}

#[test]
fn a_rule_may_say_how_to_encode() {
    let place = Place::with("", "[[rule]]\nprefix = 'd'\nencoding = 'shuffle4+zstd-1'");
    let numbers: Vec<u8> = (0..100_000u32).flat_map(|n| (n * 3).to_le_bytes()).collect();
    place.write("numbers", numbers);
    place.good(["put", "numbers", "d/"]);
    let (location, _) = place.json(["locate", "d/numbers"]);
    for replica in location["extents"][0]["replicas"].as_array().unwrap() {
        assert_eq!(replica["encoding"], "shuffle4+zstd-1");
    }
    place.good(["get", "d/numbers", "back"]);
    assert!(place.read("back") == place.read("numbers"));
}
