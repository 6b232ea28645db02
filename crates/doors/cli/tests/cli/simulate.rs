//! `terrace simulate`: the descriptions that are shipped, and those that cannot be.

use std::path::Path;

use serde_json::Value;

use crate::place::Place;

const SMALL_CLUSTER: &str = "[cluster]\ncores = 2\nprocesses = 3\n[[tier]]\nname = 'disk'\nwrite = '10MB/s'\nread = '20MB/s'\n\
                     price = 50\nwatts = 5\n[workload]\nobject = '1MB'\nobjects = 4\nreads = 1\n[[policy]]\nname = 'one'\nreplicas = 1\n";

fn shipped(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../demo/clusters").join(name).display().to_string()
}

fn seconds(came: &Value, policy: &str) -> f64 {
    let policies = came["policies"].as_array().unwrap();
    let of = policies.iter().find(|of| of["policy"] == policy).unwrap();
    of["phases"].as_array().unwrap().iter().map(|phase| phase["seconds"].as_f64().unwrap()).sum()
}

#[test]
fn a_small_cluster_takes_what_a_sum_says_every_time() {
    let place = Place::empty();
    place.write("small.toml", SMALL_CLUSTER);
    let (came, _) = place.json(["simulate", "small.toml"]);
    assert!((seconds(&came, "one") - 12.0 * (0.1 + 0.05)).abs() < 1e-6, "{came}");
    let of = &came["policies"][0];
    assert_eq!(of["tiers"][0]["stored"], 12_000_000);
    assert!((of["cost"].as_f64().unwrap() - 12e6 * 50.0 / 1e12).abs() < 1e-12);
    assert!((of["joules"].as_f64().unwrap() - 1.8 * 5.0).abs() < 1e-6);
    assert_eq!(came, place.json(["simulate", "small.toml"]).0);
}

#[test]
fn the_shipped_descriptions_run_and_are_drawn() {
    let place = Place::empty();
    for name in ["lab.toml", "ares-vpic.toml", "ares-replicas.toml"] {
        let path = shipped(name);
        let (came, _) = place.json(["simulate", &path, "--plot", "picture.svg"]);
        let policies = came["policies"].as_array().unwrap();
        assert!(
            policies.len() > 4 && policies.iter().all(|of| of["written"].as_f64().unwrap() > 1e9),
            "{name}: {came}"
        );
        let picture = String::from_utf8(place.read("picture.svg")).unwrap();
        assert!(picture.contains("<svg") && picture.contains("Terrace"), "{name}");
    }
    let (came, _) = place.json(["simulate", &shipped("lab.toml")]);
    assert!(seconds(&came, "two replicas, Terrace") < seconds(&came, "two replicas, raw"));
}

/// Each process reaches its node's four disks, and the 124 of the other nodes.
#[test]
fn nodes_hold_each_others_replicas() {
    let place = Place::empty();
    let (came, _) = place.json(["simulate", &shipped("nodes.toml")]);
    let of = |policy: &str| came["policies"].as_array().unwrap().iter().find(|of| of["policy"] == policy).unwrap();
    let stored = |policy: &str, tier: usize| of(policy)["tiers"][tier]["stored"].as_u64().unwrap();
    let raw = 64 * 4 * 4 * (64 << 20);
    let both = "two replicas on two nodes";
    assert_eq!((stored(both, 1), stored(both, 2)), (raw, raw), "{came}");
    assert!(seconds(&came, both) < seconds(&came, "one replica on the file system"), "{came}");
    place.write("wrong.toml", SMALL_CLUSTER.to_owned() + "[[tier]]\nname = 'peers'\npeers_of = 'discs'\n");
    let ran = place.run(["simulate", "wrong.toml"]);
    assert!(ran.code != 0 && ran.err.contains("\"peers\"") && ran.err.contains("in each node"), "{}", ran.err);
    place.write("wrong.toml", SMALL_CLUSTER.replace("write = '10MB/s'\n", ""));
    let ran = place.run(["simulate", "wrong.toml"]);
    assert!(ran.code != 0 && ran.err.contains("`write` is missing"), "{}", ran.err);
}

#[test]
fn files_are_sampled() {
    let place = Place::empty();
    place.write("numbers.f64", (0..300_000u32).flat_map(|i| f64::from(i / 100).to_le_bytes()).collect::<Vec<_>>());
    place.write("sampled.toml", SMALL_CLUSTER.to_owned() + "[data]\nfiles = ['numbers.f64']\n");
    let (came, _) = place.json(["simulate", "sampled.toml"]);
    assert!(came["policies"][0]["tiers"][0]["stored"].as_u64().unwrap() < 6_000_000, "{came}");
    place.write("missing.toml", SMALL_CLUSTER.to_owned() + "[data]\nfiles = ['none']\n");
    place.bad(["simulate", "missing.toml"], &["none"]);
}

#[test]
fn what_of_a_policy_does_not_hold_is_said() {
    let place = Place::empty();
    let asked = "replicas = 3\nbudget = '0.1x'\nrequirements = ['min_storage', 'max_durability']";
    place.write("asked.toml", SMALL_CLUSTER.replace("replicas = 1", asked));
    let words = place.good(["simulate", "asked.toml"]);
    for note in [
        "one: max_durability (application) is dropped",
        "one: 1 of 3 replicas: each is on a target of its own, and a process reaches 1 target",
        "one: all blocks: the fewest replicas that are allowed need more than the budget",
    ] {
        assert!(words.contains(note), "{note:?} is not in: {words}");
    }
    let (came, _) = place.json(["simulate", "asked.toml"]);
    assert_eq!(came["policies"][0]["notes"].as_array().unwrap().len(), 4, "{came}");
    place.write("small.toml", SMALL_CLUSTER);
    assert_eq!(place.json(["simulate", "small.toml"]).0["policies"][0]["notes"].as_array().unwrap().len(), 0);
    let tape = "capacity = '5MB'\n[[tier]]\nname = 'tape'\nwrite = '10MB/s'\nread = '20MB/s'";
    let full = SMALL_CLUSTER.replace("price = 50", tape).replace("replicas = 1", "replicas = 2");
    place.write("full.toml", full);
    let words = place.good(["simulate", "full.toml"]);
    assert!(words.contains("of 12 blocks: there is no room for 2 replicas"), "{words}");
    let ran = place.run(["simulate", "small.toml", "--plot", "picture.png"]);
    assert!(ran.code == 2 && ran.err.contains("ends in .svg"), "{}", ran.err);
}

#[test]
fn what_cannot_be_is_said_with_what_to_do() {
    let place = Place::empty();
    for (before, after, words) in [
        ("cores = 2", "cores = 2\nspeed = 3", "unknown field `speed`"),
        ("cores = 2", "cores = 0", "cores is 0; give at least 1"),
        ("'10MB/s'", "'fast'", "is not a rate"),
        ("objects = 4", "objects = 0", "[workload] objects is 0"),
        ("'1MB'", "'1500KB'\nblock = '1MB'", "no multiple of block"),
        ("'1MB'", "'1MB'\nblock = '1KB'", "give 4KiB to 1GiB"),
        ("objects = 4", "objects = 400000000", "give a larger block"),
        ("reads = 1", "expected_reads = -1", "expected_reads is -1"),
        ("price = 50", "price = -50", "price of \"disk\" is -50"),
        ("price = 50", "targets = 70000", "as one target"),
        ("price = 50", "link = 'lan'", "no link is named \"lan\""),
        ("price = 50", "capacity = '3MB'", "larger one"),
        ("replicas = 1", "replicas = 17", "give 1 to 16"),
        ("replicas = 1", "requirements = ['fast']", "is no requirement"),
        ("replicas = 1", "tiers = ['tape']", "no tier is named \"tape\""),
        ("replicas = 1", "tiers = []", "leaves no tier to write to"),
        ("price = 50", "persistent = false", "`volatile = true` allows"),
        ("name = 'disk'", "name = ' '", "a [[tier]] has an empty name"),
        ("replicas = 1", "encoding = 'zstd-1'", "add it by [[data.encoding]]"),
        ("replicas = 1", "encoding = 'zap'", "policy \"one\""),
        ("replicas = 1", "replicas = 1\n[[policy]]\nname = 'one'", "a name of its own"),
        (
            "replicas = 1",
            "replicas = 1\n[data]\nencoding = [{ name = 'lz4', compress = '1MB/s', decompress = '1MB/s', ratio = 0 }]",
            "ratio is 0",
        ),
        ("[[policy]]\nname = 'one'\nreplicas = 1\n", "", "[[policy]] is missing"),
    ] {
        let text = SMALL_CLUSTER.replace(before, after);
        assert_ne!(text, SMALL_CLUSTER, "{before}");
        place.write("wrong.toml", &text);
        place.bad(["simulate", "wrong.toml"], &["wrong.toml", words]);
    }
    let text = SMALL_CLUSTER.replace("price = 50", "latency = '5ms'").replace("replicas = 1", "max_latency = '1us'");
    place.write("wrong.toml", text);
    place.bad(["simulate", "wrong.toml"], &["as quick as max_latency says"]);
}
